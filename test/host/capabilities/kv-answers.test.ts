// A KvStore of the host's own that fails or answers in another form: the operation fails, and never counts as "nothing there" or "stored".
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { KvStore } from "../../../src/host/capabilities/kv/kv-store.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import {
  CALLBACK_ERROR_MESSAGE,
  FAILING_CALLBACKS,
  inOtherRealm,
  toThenable,
} from "../../support/failing-callbacks.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

const SOURCE = `export default async ({ method, args }, { kv }) => {
  try {
    return { value: (await kv[method](...args)) ?? "nothing" };
  } catch (error) {
    return { code: error.code, message: error.message };
  }
};`;

const ENTRY = { key: "k", kind: "json", data: Buffer.from("1"), version: "1" } as const;
const ARGUMENTS = { get: ["k"], set: ["k", 1], delete: ["k"], list: [{ limit: 2 }] } as const;
type Method = keyof typeof ARGUMENTS;
const METHODS = Object.keys(ARGUMENTS) as readonly Method[];

let answer: () => unknown = () => undefined;
const reported: unknown[] = [];
let glovebox: Glovebox;
beforeAll(async () => {
  const ask = (): unknown => answer();
  const store = { get: ask, set: ask, delete: ask, list: ask, usage: ask } as unknown as KvStore;
  glovebox = await makeGlovebox({
    kv: store,
    limits: { timeoutMs: 120_000 },
    onError: (error) => reported.push(error),
  });
  await glovebox.addTool({ name: "keeper", source: SOURCE }, { grant: ["kv"] });
});
afterAll(() => glovebox.close());

async function run(method: Method, given: () => unknown): Promise<JsonValue> {
  answer = given;
  reported.length = 0;
  return outputOf(
    await glovebox.execute({ id: "c", toolName: "keeper", arguments: { method, args: ARGUMENTS[method] } }),
  );
}

const FAILED = { code: "TOOL_FAILED", message: 'The capability "kv" failed' };

/** Answers that no method may give. */
const ANYWHERE: readonly (readonly [string, unknown])[] = [
  ["null", null],
  ["false", false],
  ["text", "k"],
  ["an empty object", {}],
  ["an array", []],
];
const INVALID: readonly (readonly [Method, string, unknown])[] = [
  ...METHODS.flatMap((method) => ANYWHERE.map(([name, value]) => [method, name, value] as const)),
  ["get", "another key", { ...ENTRY, key: "other" }],
  ["get", "an unknown kind", { ...ENTRY, kind: "text" }],
  ["get", "text as data", { ...ENTRY, data: "1" }],
  ["get", "a number as version", { ...ENTRY, version: 1 }],
  ["set", "undefined", undefined],
  ["set", "an unknown status", { status: "ok", version: "1" }],
  ["set", "stored without a version", { status: "stored" }],
  ["set", "full of something else", { status: "full", exceeded: "rows", needed: 1 }],
  ["delete", "undefined", undefined],
  ["delete", "true", true],
  ["delete", "an unknown status", { status: "ok" }],
  ["list", "undefined", undefined],
  ["list", "invalid entries", { entries: [null], more: false }],
  ["list", "no entries", { more: false }],
  ["list", "more as text", { entries: [], more: "no" }],
  ["list", "too many entries", { entries: [ENTRY, ENTRY, ENTRY], more: false }],
];

describe("a KvStore", () => {
  test.for(INVALID)("a KvStore whose %s() answers %s fails the operation", async ([method, , value]) => {
    expect(await run(method, async () => value)).toEqual(FAILED);
    expect(reported).toMatchObject([{ message: expect.stringContaining(`invalid answer from ${method}()`) }]);
  });

  test.for(METHODS.flatMap((method) => FAILING_CALLBACKS.map(([name, fail]) => [method, name, fail] as const)))(
    "a KvStore whose %s() %s fails the operation and does not end the process",
    async ([method, , fail]) => {
      const rejections = watchRejections();
      expect(await run(method, fail)).toEqual(FAILED);
      expect(reported).toMatchObject([{ message: CALLBACK_ERROR_MESSAGE }]);
      expect(await rejections()).toEqual([]);
    },
  );

  test("a KvStore that does not answer delays only the call that uses it", async () => {
    answer = () => new Promise(() => {});
    const call = { id: "c", toolName: "keeper", arguments: { method: "get", args: ["k"] } };
    expect(codeOf(await glovebox.execute(call, { timeoutMs: 300 }))).toBe("TOOL_TIMEOUT");
  });

  test.for<[string, () => unknown]>([
    ["a promise", async () => ENTRY],
    ["the entry itself", () => ENTRY],
    ["a thenable", () => toThenable((resolve) => resolve(ENTRY))],
    [
      "a promise of another realm",
      () => (inOtherRealm("(entry) => Promise.resolve(entry)") as (e: object) => unknown)(ENTRY),
    ],
  ])("may answer with %s", async ([, given]) => {
    expect(await run("get", given)).toEqual({ value: 1 });
    expect(await run("get", async () => undefined)).toEqual({ value: "nothing" });
  });
});
