// The encoding of the messages between control plane and executors: what is sent arrives, and nothing else is accepted.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ControlMessage, ControlMessageSchema } from "../../src/host/fleet/protocol/control-messages.ts";
import { type ExecutorMessage, ExecutorMessageSchema } from "../../src/host/fleet/protocol/executor-messages.ts";
import { executorPermissions, FLEET_ID_PATTERN } from "../../src/host/fleet/protocol/subjects.ts";
import { decodeFrame, encodeFrame, MAX_FLEET_JSON_BYTES, WireError } from "../../src/host/fleet/protocol/wire.ts";

const parts = fc.array(
  fc.oneof(
    fc.string({ unit: "binary" }).filter((text) => text.isWellFormed()),
    fc.uint8Array(),
  ),
  {
    maxLength: 11,
  },
);
const secret = fc.uint8Array({ minLength: 16, maxLength: 16 }).map((bytes) => Buffer.from(bytes).toString("base64url"));
const sha256 = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => Buffer.from(bytes).toString("hex"));
const n = fc.integer({ min: 1, max: 2 ** 40 });

describe("frames", () => {
  test("decode to what was encoded", () => {
    const message = fc.dictionary(fc.string(), fc.jsonValue()).filter((value) => !Object.hasOwn(value, "__proto__"));
    fc.assert(
      fc.property(message, parts, (sent, sentParts) => {
        const { message: received, parts: receivedParts } = decodeFrame(encodeFrame(sent, sentParts));
        expect(received).toEqual(JSON.parse(JSON.stringify(sent)));
        expect(receivedParts.map((part) => part.toString("hex"))).toEqual(
          sentParts.map((part) => Buffer.from(part as Uint8Array).toString("hex")),
        );
      }),
    );
  });

  test("frames of random bytes are rejected with a WireError", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(() => decodeFrame(bytes)).toThrow(WireError);
      }),
    );
  });

  test("frames with a changed, missing or additional byte are decoded to other content or rejected, and never fail otherwise", () => {
    const changes = fc.tuple(fc.nat(), fc.nat(255), fc.constantFrom("change", "cut", "append"));
    fc.assert(
      fc.property(parts, changes, (sent, [at, byte, how]) => {
        const frame = encodeFrame({ type: "cancel" }, sent);
        const index = at % frame.length;
        if (how === "change") frame[index] = byte;
        const changed =
          how === "cut" ? frame.subarray(0, index) : how === "append" ? Buffer.concat([frame, Buffer.of(byte)]) : frame;
        try {
          decodeFrame(changed);
          expect(how).toBe("change");
        } catch (thrown) {
          expect(thrown).toBeInstanceOf(WireError);
        }
      }),
    );
  });

  test("frames with too much JSON or too many parts are rejected", () => {
    expect(() => decodeFrame(encodeFrame({ text: "x".repeat(MAX_FLEET_JSON_BYTES) }))).toThrow(WireError);
    expect(() =>
      encodeFrame(
        {},
        Array.from({ length: 12 }, () => ""),
      ),
    ).toThrow(WireError);
  });
});

describe("messages", () => {
  const toExecutor: fc.Arbitrary<ControlMessage> = fc.oneof(
    fc.record({ type: fc.constant("cancel" as const), key: secret, token: secret }),
    fc.record({
      type: fc.constant("credit" as const),
      key: secret,
      token: secret,
      chunks: fc.integer({ min: 1, max: 256 }),
    }),
    fc.record({ type: fc.constant("answer" as const), key: secret, token: secret, requestId: n }),
    fc.record({ type: fc.constant("rest" as const), key: secret, token: secret, isResting: fc.boolean() }),
    fc.record({
      type: fc.constant("hold" as const),
      key: secret,
      control: fc.constant("control_1"),
      tokens: fc.array(secret, { maxLength: 20 }),
    }),
  );
  const fromExecutor: fc.Arbitrary<ExecutorMessage> = fc.oneof(
    fc.record({ type: fc.constant("accepted" as const), token: secret, n }),
    fc.record({ type: fc.constant("placed" as const), token: secret, n }),
    fc.record({ type: fc.constant("placed" as const), token: secret, n, placedMs: fc.nat(3_600_000) }),
    fc.record({
      type: fc.constant("event" as const),
      token: secret,
      n,
      message: fc.constant({ type: "started", seq: 1 }),
      placedMs: fc.nat(3_600_000),
      isStarted: fc.constant(true as const),
    }),
    fc.record({
      type: fc.constant("rejected" as const),
      token: secret,
      n,
      reason: fc.constantFrom("full" as const, "draining" as const, "no-bundle" as const, "failed" as const),
    }),
    fc.record({
      type: fc.constant("lost" as const),
      token: secret,
      n,
      begun: fc.boolean(),
      outOfMemory: fc.boolean(),
      isNotStarted: fc.boolean(),
      peakBytes: fc.nat(),
    }),
    fc.record({
      type: fc.constant("running" as const),
      calls: fc.array(fc.tuple(secret, fc.nat()), { maxLength: 20 }),
    }),
    fc.record({
      type: fc.constant("object" as const),
      token: secret,
      n,
      name: fc.constant("name"),
      sha256,
      bytes: fc.integer({ min: 1, max: 2 ** 26 }),
    }),
  );

  test("survive the encoding", () => {
    fc.assert(
      fc.property(toExecutor, fromExecutor, (there, back) => {
        expect(ControlMessageSchema.parse(decodeFrame(encodeFrame(there)).message)).toEqual(there);
        expect(ExecutorMessageSchema.parse(decodeFrame(encodeFrame(back)).message)).toEqual(back);
      }),
    );
  });

  test("messages with an unknown field or of the other direction are rejected", () => {
    fc.assert(
      fc.property(toExecutor, fromExecutor, (there, back) => {
        expect(ControlMessageSchema.safeParse({ ...there, extra: 1 }).success).toBe(false);
        expect(ExecutorMessageSchema.safeParse({ ...back, extra: 1 }).success).toBe(false);
        expect(ControlMessageSchema.safeParse(back).success && back.type !== "object").toBe(false);
        expect(ExecutorMessageSchema.safeParse(there).success).toBe(false);
      }),
    );
  });
});

test("no subject of an executor's permissions matches one of another executor", () => {
  const id = fc.stringMatching(FLEET_ID_PATTERN);
  fc.assert(
    fc.property(id, id, (own, other) => {
      fc.pre(own !== other && ![own, other].includes("default"));
      const { publish, subscribe } = executorPermissions({ id: own, pool: "default" });
      for (const subject of [...publish, ...subscribe]) expect(subject.split(".")).not.toContain(other);
    }),
  );
});
