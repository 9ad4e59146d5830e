// What callers pass to durable runs is checked before anything of it is stored, like the arguments of a call.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns, type Runs } from "../../../src/host/runs/runs.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { failureOf, makeGlovebox } from "../../support/host-zone.ts";

const SOURCE =
  "export const capabilities = { waitFor: true }; export default async (_, ctx) => await ctx.waitFor({ event: 'go' });";
/** Values that are not JSON, each with what the message says of it. */
const NOT_JSON: readonly (readonly [value: unknown, got: string])[] = [
  [Promise.resolve(1), "expected a JSON value, got a Promise"],
  [new Map(), "expected a JSON value, got a Map"],
  [{ a: [new Set()] }, "expected a JSON value, got a Set at /a/0"],
  [5n, "expected a JSON value, got a BigInt at the top"],
  [{ a: 5n }, "expected a JSON value, got a BigInt at /a"],
  [() => 1, "expected a JSON value, got a function"],
  [new Uint8Array(3), "Expected JSON, got bytes. Pass them as base64"],
];

let glovebox: Glovebox;
let runs: Runs;
beforeAll(async () => {
  glovebox = await makeGlovebox({ limits: { inputBytes: 1_024 } });
  await glovebox.addTool({ name: "waits", source: SOURCE }, { grant: ["waitFor"] });
  runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 0 });
});
afterAll(async () => {
  await runs.close();
  await glovebox.close();
});

describe("the arguments of a run", () => {
  test.for(NOT_JSON)("reject %o, and store nothing", async ([value, got]) => {
    const failure = await failureOf(runs.start({ toolName: "waits", arguments: value }));
    expect(failure).toMatchObject({ code: "PARAM_INVALID", message: `run.arguments: ${got}` });
    expect(await runs.list()).toEqual([]);
  });

  test("reject a value that exceeds limits.inputBytes, and read no more of it", async () => {
    let reads = 0;
    const large = Array.from({ length: 100_000 }, () => ({
      get text() {
        reads += 1;
        return "x".repeat(100);
      },
    }));
    const failure = await failureOf(runs.start({ toolName: "waits", arguments: { large } }));
    expect(failure.message).toBe("The arguments of waits: expected at most 1024 bytes of JSON, got more");
    // Each value has at least one byte.
    expect(reads).toBeLessThan(1_024);
    expect(await runs.list()).toEqual([]);
  });

  test("null is not replaced by {}", async () => {
    const run = await runs.start({ id: "null", toolName: "waits", arguments: null });
    expect(run).toMatchObject({ state: "failed", result: { error: { code: "PARAM_INVALID" } } });
  });

  test.for<readonly [unknown, string]>([
    ["nonsense", "starter: Expected a plain object, got a string"],
    [{}, "starter.isOpen: Expected a function"],
    [{ isOpen: () => true }, "starter.client: Expected an object with the method elicit"],
  ])("a starter %j is rejected", async ([starter, message]) => {
    const failure = await failureOf(runs.begin({ toolName: "waits" }, starter as never));
    expect(failure).toMatchObject({ code: "PARAM_INVALID", message });
  });
});

describe("the value of an event", () => {
  test.for(NOT_JSON)("%o is rejected, and not stored", async ([value, got], { task }) => {
    const { id } = await runs.start({ id: task.id, toolName: "waits" });
    const before = await runs.journal(id);
    const failure = await failureOf(runs.signal(id, { event: "go", value }));
    expect(failure).toMatchObject({ code: "PARAM_INVALID", message: `signal.value: ${got}` });
    expect(await runs.journal(id)).toEqual(before);
    const large = "x".repeat(2_000);
    expect(await failureOf(runs.deliver(id, { event: "go", value: large }))).toMatchObject({ code: "PARAM_INVALID" });
    expect(await runs.signal(id, { event: "go", value: { a: 1 } })).toMatchObject({ result: { output: { a: 1 } } });
  });
});

test("createRuns() rejects what is no Glovebox, and a store without the methods of one", () => {
  const create = (host: unknown, options: unknown) => () => createRuns(host as never, options as never);
  expect(create({}, { store: new MemoryRunStore() })).toThrow(ToolError);
  expect(create(undefined, { store: new MemoryRunStore() })).toThrow(
    "Expected a Glovebox or a code mode, got undefined",
  );
  expect(create(glovebox, { store: {} })).toThrow(
    "options.store: Expected a RunStore, an object with the methods create",
  );
  expect(create(glovebox, { store: Promise.resolve(new MemoryRunStore()) })).toThrow(
    "options.store: Expected a RunStore",
  );
});
