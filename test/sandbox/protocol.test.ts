// Tests of the schemas of what a worker sends to its host and a control plane to an executor: valid values round-trip, all others are rejected.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../src/sandbox/contract/limits.ts";
import { DeterministicStartSchema, WorkerToolProfileSchema } from "../../src/sandbox/protocol/host-message-schemas.ts";
import type { DeterministicStart, WorkerToolProfile } from "../../src/sandbox/protocol/host-messages.ts";
import { PROTOCOL_VERSION } from "../../src/sandbox/protocol/message-fields.ts";
import {
  GuestErrorSchema,
  GuestIssuesSchema,
  ProgressSchema,
  type WorkerMessage,
  WorkerMessageSchema,
} from "../../src/sandbox/protocol/worker-messages.ts";

const SHA = "0123456789abcdef".repeat(4);
const USAGE = { cpuMs: 1.5, heapBytes: 1, startMs: 0, executeMs: 0.1, logsDropped: 0 };

const PROFILE: WorkerToolProfile = {
  sha256: SHA,
  isolateLifetime: "call",
  prewarm: true,
  logSourceLocations: false,
  limits: DEFAULT_LIMITS,
  features: ["webAssembly", "atomics"],
  coarseTime: false,
  granted: ["kv"],
  denied: ["fetch"],
};
const START: DeterministicStart = { seed: "s", now: 1 };
const WORKER_MESSAGES: readonly WorkerMessage[] = [
  { type: "inspect-open", seq: 2 },
  { type: "inspected", seq: 2 },
  { type: "ready", protocolVersion: PROTOCOL_VERSION },
  { type: "preparing", seq: 1 },
  { type: "started", seq: 1 },
  { type: "ended", seq: 1, outcome: "output", phase: "execute", usage: USAGE, released: true },
  { type: "ended", seq: 1, outcome: "memory", phase: "load", usage: USAGE, released: false },
  { type: "released", seq: 1 },
  { type: "log", seq: 1, level: "warn", time: 1 },
  { type: "progress", seq: 1 },
  { type: "capability", seq: 1, requestId: 7, name: "kv" },
];
const VALUES = [
  ["tool profile", WorkerToolProfileSchema, PROFILE] as const,
  ["deterministic start", DeterministicStartSchema, START] as const,
  ...WORKER_MESSAGES.map((message) => [`${message.type} message`, WorkerMessageSchema, message] as const),
];

describe("WorkerMessageSchema, WorkerToolProfileSchema and DeterministicStartSchema", () => {
  test.for(VALUES)("parse a %s unchanged", ([, schema, message]) => {
    expect(schema.parse(JSON.parse(JSON.stringify(message)))).toEqual(message);
  });

  test.for(VALUES)("reject a %s with an unknown key", ([, schema, message]) => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.jsonValue(), (key, value) => {
        fc.pre(!Object.hasOwn(message, key) && key !== "__proto__");
        expect(schema.safeParse({ ...message, [key]: value }).success).toBe(false);
      }),
      { numRuns: 30 },
    );
  });

  test.for(VALUES)("reject a %s with a missing key", ([, schema, message]) => {
    for (const key of Object.keys(message)) {
      const rest = Object.fromEntries(Object.entries(message).filter(([name]) => name !== key));
      expect([key, schema.safeParse(rest).success]).toEqual([key, false]);
    }
  });

  test.for<[why: string, message: object]>([
    ["another version", { type: "ready", protocolVersion: PROTOCOL_VERSION + 1 }],
    ["a sequence of zero", { type: "started", seq: 0 }],
    ["a fraction for a sequence", { type: "started", seq: 1.5 }],
    ["an unsafe sequence", { type: "started", seq: 2 ** 53 }],
    ["a number as text", { type: "started", seq: "1" }],
    ["an unknown outcome", { type: "ended", seq: 1, outcome: "fine", phase: "execute", usage: USAGE, released: true }],
    ["an unknown phase", { type: "ended", seq: 1, outcome: "output", phase: "later", usage: USAGE, released: true }],
    [
      "a usage with an unknown key",
      { type: "ended", seq: 1, outcome: "output", phase: "load", usage: { ...USAGE, x: 1 }, released: true },
    ],
    [
      "a negative cost",
      { type: "ended", seq: 1, outcome: "output", phase: "load", usage: { ...USAGE, cpuMs: -1 }, released: true },
    ],
    ["an unknown level", { type: "log", seq: 1, level: "fatal", time: 1 }],
    ["a capability name that is too long", { type: "capability", seq: 1, requestId: 1, name: "x".repeat(65) }],
    ["a list", []],
  ])("reject %s from a worker", ([, message]) => {
    expect(WorkerMessageSchema.safeParse(message).success).toBe(false);
  });

  test.for<[why: string, profile: object]>([
    ["a hash in upper case", { ...PROFILE, sha256: SHA.toUpperCase() }],
    ["a hash that is too short", { ...PROFILE, sha256: SHA.slice(1) }],
    ["limits above the maximum", { ...PROFILE, limits: { ...DEFAULT_LIMITS, memoryMiB: 2_049 } }],
    ["a missing limit", { ...PROFILE, limits: { ...DEFAULT_LIMITS, timers: undefined } }],
    ["an unknown feature", { ...PROFILE, features: ["fileSystem"] }],
    ["more features than exist", { ...PROFILE, features: Array.from({ length: 6 }, () => "atomics") }],
    ["a number for coarseTime", { ...PROFILE, coarseTime: 1 }],
  ])("reject %s from a control plane", ([, profile]) => {
    expect(WorkerToolProfileSchema.safeParse(profile).success).toBe(false);
  });

  test("reject any other JSON without throwing", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(WorkerToolProfileSchema.safeParse(value).success).toBe(false);
        expect(WorkerMessageSchema.safeParse(value).success).toBe(false);
      }),
    );
  });
});

describe("ProgressSchema", () => {
  test.for<[value: unknown, isAccepted: boolean]>([
    [{ progress: 1 }, true],
    [{ progress: 0.5, total: 1, message: "half" }, true],
    [{ progress: "1" }, false],
    [{ progress: null }, false],
    [{ total: 1 }, false],
    [{ progress: 1, message: "x".repeat(2_049) }, false],
    [{ progress: 1, token: "x" }, false],
  ])("accepts %j: %s", ([value, isAccepted]) => {
    expect(ProgressSchema.safeParse(value).success).toBe(isAccepted);
  });
});

describe("GuestErrorSchema", () => {
  const error = { name: "Error", message: "m", stack: "" };
  test.for<[value: unknown, isAccepted: boolean]>([
    [error, true],
    [{ ...error, code: "E", capabilityCode: "QUOTA_EXCEEDED" }, true],
    [{ ...error, cause: "x" }, false],
    [{ ...error, missing: ["kv"] }, true],
    [{ ...error, missing: Array.from({ length: 17 }, () => "kv") }, false],
    [{ ...error, missing: ["k".repeat(129)] }, false],
    [{ ...error, message: 1 }, false],
    [{ ...error, stack: "x".repeat(32_769) }, false],
  ])("accepts case %$: %s", ([value, isAccepted]) => {
    expect(GuestErrorSchema.safeParse(value).success).toBe(isAccepted);
  });
});

describe("GuestIssuesSchema", () => {
  test("accepts a list of pointers with messages and rejects other keys", () => {
    expect(GuestIssuesSchema.safeParse([{ pointer: "/a", message: "m" }]).success).toBe(true);
    expect(GuestIssuesSchema.safeParse([{ pointer: "/a", message: "m", path: [] }]).success).toBe(false);
    expect(GuestIssuesSchema.safeParse({ length: 0 }).success).toBe(false);
  });
});
