// The hand-written checks of messages accept nothing that the schemas reject, and change nothing.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readHostMessage } from "../../src/sandbox/protocol/read-host-message.ts";
import { parseWorkerMessage } from "../../src/sandbox/protocol/read-worker-message.ts";
import { WorkerMessageSchema } from "../../src/sandbox/protocol/worker-messages.ts";

const usage = { cpuMs: 1.5, heapBytes: 2, startMs: 0, executeMs: 0.25, logsDropped: 0 };
const ended = { type: "ended", seq: 1, outcome: "output", phase: "execute", usage, released: true };
const capability = { type: "capability", seq: 1, requestId: 2, name: "ask" };
const parked = { type: "parked", seq: 1, entries: 1 };

/** Values that a hostile peer could put into any field. */
const hostile = fc.constantFrom<unknown>(
  ...[null, true, false, "", "output", "x".repeat(65), "x".repeat(1_025), [], {}, { length: 1 }],
  ...[0, -1, 0.5, 1, 2 ** 53, 301_000, 301_001, 1e308],
);
const keys = fc.constantFrom(
  ...["type", "seq", "outcome", "phase", "usage", "released", "kept", "usedModules", "requestId", "name", "entries"],
  ...["stream", "__proto__", "constructor", "extra"],
);
const changes = fc.array(fc.record({ key: keys, value: hostile, drops: fc.boolean() }), { maxLength: 3 });

function changed(base: object, edits: readonly { key: string; value: unknown; drops: boolean }[]): string {
  const fields = new Map(Object.entries(base));
  for (const { key, value, drops } of edits) {
    if (drops) fields.delete(key);
    else fields.set(key, value);
  }
  // As text, so that `__proto__` is a key of its own.
  return `{${[...fields].map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(",")}}`;
}

function outcomeOf(parse: () => unknown): unknown {
  try {
    return { parsed: parse() };
  } catch {
    return "rejected";
  }
}

describe("parseWorkerMessage()", () => {
  test.for([
    ["ended", ended],
    ["capability", capability],
    ["parked", parked],
  ] as const)("agrees with the schema about every change of %s", ([, base]) => {
    fc.assert(
      fc.property(changes, (edits) => {
        const text = changed(base, edits);
        const expected = outcomeOf(() => WorkerMessageSchema.parse(JSON.parse(text)));
        expect(outcomeOf(() => parseWorkerMessage(text))).toEqual(expected);
      }),
      { numRuns: 500 },
    );
  });

  test.for(["null", "1", "[]", '"ended"', '{"type":"ended"}', "{", '{"type":["ended"]}'])("rejects %s", (text) => {
    expect(() => parseWorkerMessage(text)).toThrow();
  });

  test("accepts the usage of a call only with exactly its fields", () => {
    const text = (broken: object): string => JSON.stringify({ ...ended, usage: { ...usage, ...broken } });
    expect(parseWorkerMessage(text({}))).toEqual(ended);
    for (const broken of [{ more: 1 }, { cpuMs: -1 }, { cpuMs: "1" }, { heapBytes: 2 ** 60 }]) {
      expect(() => parseWorkerMessage(text(broken))).toThrow();
    }
  });
});

describe("readHostMessage()", () => {
  test("returns a message unchanged", () => {
    const call = { type: "call", seq: 1, toolId: 2, callId: "c", tenantId: "acme", mainThreadMs: 100 };
    expect(readHostMessage(JSON.stringify(call))).toEqual(call);
  });

  test.for(["null", "1", "[]", '"ping"', "{", "{}"])("rejects %s", (text) => {
    expect(() => readHostMessage(text)).toThrow();
  });
});
