// Objects of the fleet: what is offered arrives, although messages are lost, and nothing else is accepted.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CallObjectsFactory } from "../../src/host/fleet/objects/call-objects.ts";
import { describeObject, ObjectError, ObjectOffers } from "../../src/host/fleet/objects/object-offers.ts";
import { ObjectReader, type ObjectSource } from "../../src/host/fleet/objects/object-reader.ts";
import { PackedBundles } from "../../src/host/fleet/objects/packed-bundles.ts";
import type { PartRequest } from "../../src/host/fleet/protocol/control-messages.ts";

type Request = Omit<PartRequest, "key">;
const TOKEN = "A".repeat(22);
const ATTEMPT_MS = 20;

/** A source whose requests are answered by a function, a moment later. */
const sourceOf = (request: (request: Request) => void): ObjectSource => ({
  token: TOKEN,
  request: (message) => void setImmediate(request, message),
  isWanted: () => true,
});
const answered = (reader: ObjectReader, offers: ObjectOffers): ObjectSource =>
  sourceOf((request) => reader.receive(request, offers.partOf(request)));

describe("an object", () => {
  test("arrives, whatever its size and the payload of NATS", async () => {
    const sizes = fc.integer({ min: 1, max: 700_000 });
    await fc.assert(
      fc.asyncProperty(sizes, fc.constantFrom(1, 8_192, 65_536, 1_048_576), async (size, maxPayload) => {
        const bytes = randomBytes(size);
        const offers = new ObjectOffers();
        const ref = describeObject(bytes);
        const taken = offers.add(ref, () => bytes);
        const reader = new ObjectReader({ maxPayload });
        expect((await reader.read(ref, answered(reader, offers))).equals(bytes)).toBe(true);
        offers.remove(ref.name);
        await taken;
      }),
      { numRuns: 30 },
    );
  });

  test("arrives although the first request of each part and an answer are lost", async () => {
    const bytes = randomBytes(300_000);
    const offers = new ObjectOffers();
    const ref = describeObject(bytes);
    void offers.add(ref, () => bytes);
    const reader = new ObjectReader({ maxPayload: 65_536 }, ATTEMPT_MS);
    const seen = new Map<number, number>();
    const source = sourceOf((request) => {
      const times = (seen.get(request.from) ?? 0) + 1;
      seen.set(request.from, times);
      const part = times === 1 ? undefined : offers.partOf(request);
      if (times > (request.from === 0 ? 2 : 1)) reader.receive(request, part);
    });
    expect((await reader.read(ref, source)).equals(bytes)).toBe(true);
    expect(seen.get(0)).toBeGreaterThanOrEqual(3);
  });

  test.for<readonly [what: string, answer: (part: Uint8Array) => Uint8Array | undefined]>([
    ["is missing", () => undefined],
    ["is shorter than announced", (part) => part.subarray(1)],
    ["is longer than announced", (part) => Buffer.concat([part, Buffer.of(0)])],
    ["has another content", (part) => Buffer.alloc(part.byteLength)],
  ])("an object that %s is rejected", async ([, answer]) => {
    const bytes = randomBytes(100_000);
    const offers = new ObjectOffers();
    const ref = describeObject(bytes);
    void offers.add(ref, () => bytes);
    const reader = new ObjectReader({ maxPayload: 65_536 });
    const source = sourceOf((request) => reader.receive(request, answer(offers.partOf(request) ?? new Uint8Array(0))));
    await expect(reader.read(ref, source)).rejects.toThrow(ObjectError);
  });

  test("an object that is not needed any longer is not requested again", async () => {
    let requests = 0;
    const source: ObjectSource = {
      token: TOKEN,
      request: () => {
        requests += 1;
      },
      isWanted: () => requests < 2,
    };
    const reader = new ObjectReader({ maxPayload: 65_536 }, ATTEMPT_MS);
    await expect(reader.read(describeObject(Buffer.from("x")), source)).rejects.toThrow(/not needed/);
    expect(requests).toBe(2);
  });

  test("is read only under its name and within its size, and not for ever", () => {
    const bytes = Buffer.from("of a call");
    const offers = new ObjectOffers();
    const { name, ...ref } = describeObject(bytes);
    void offers.add({ name, ...ref }, () => bytes);
    expect(offers.partOf({ name: "other", from: 0, length: 1 })).toBeUndefined();
    expect(offers.partOf({ name, from: 0, length: bytes.byteLength + 1 })).toBeUndefined();
    expect(offers.partOf({ name, from: 3, length: 1 })?.toString()).toBe("a");
    const readForever = (): void => {
      for (let times = 0; times < 100; times += 1) offers.partOf({ name, from: 0, length: 1 });
    };
    expect(readForever).toThrow(ObjectError);
  });

  test("an object of a call that is over is dropped, and nothing waits for it", async () => {
    const bytes = Buffer.from("x");
    const offers = new ObjectOffers();
    const [before, after] = [describeObject(bytes), describeObject(bytes)];
    const taken = offers.add(before, () => bytes);
    offers.close();
    await taken;
    await offers.add(after, () => bytes);
    for (const { name } of [before, after]) expect(offers.partOf({ name, from: 0, length: 1 })).toBeUndefined();
  });
});

test("a bundle that has learned of a module is another object, and an earlier one keeps its content", () => {
  const names: ("buffer" | "url")[] = [];
  const bundle = { sha256: "0".repeat(64), code: "code", codeCache: new Uint8Array(0), modules: { names } };
  const bundles = new PackedBundles();
  const first = bundles.of(bundle as never);
  expect(bundles.of(bundle as never)).toBe(first);
  names.push("url");
  const second = bundles.of(bundle as never);
  expect(second.ref.sha256).not.toBe(first.ref.sha256);
  for (const { ref, read } of [first, second]) expect(describeObject(read())).toMatchObject({ sha256: ref.sha256 });
});

describe("the objects of a Python call", () => {
  const bundle = { sha256: "0".repeat(64), code: "the runtime", codeCache: new Uint8Array(0), modules: { names: [] } };
  const environment = { key: "1".repeat(64), packedWheels: new Uint8Array([1, 2, 3]) };
  const text = `{"mode":"tool","code":"# ${"ü".repeat(5_000)}",`;
  const rest = '"input":{}}';

  test.for<[what: string, input: string | Uint8Array]>([
    ["text", text + rest],
    ["bytes", Buffer.from(text + rest)],
  ])("are its source and its wheels, and not the runtime: an input of %s", ([, input]) => {
    const source = { text };
    const objects = new CallObjectsFactory();
    const {
      offered,
      python,
      input: sent,
      bundle: ref,
    } = objects.of({ bundle, input, python: { environment, source } });
    expect(ref).toBeUndefined();
    expect(Buffer.from(sent).toString()).toBe(rest);
    expect(python).toMatchObject({ runtime: environment.key, source: offered[0]?.ref, wheels: offered[1]?.ref });
    expect(offered.map(({ read }) => Buffer.from(read()))).toEqual([Buffer.from(text), Buffer.from([1, 2, 3])]);
    for (const { ref: one, read } of offered) expect(describeObject(read()).sha256).toBe(one.sha256);
  });

  test("do not include a short source, which is in the message", () => {
    const source = { text: '{"mode":"tool",' };
    const input = source.text + rest;
    const python = { environment: { ...environment, packedWheels: undefined }, source };
    const objects = new CallObjectsFactory().of({ bundle, input, python });
    expect(objects).toMatchObject({ offered: [], input, python: { runtime: environment.key } });
  });
});
