// ctx.kv in real tools: values come back as they were, tenants and tools stay apart, quotas hold, and a store may be the host's own.
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { MemoryKvStore } from "../../../src/host/capabilities/kv/kv-memory.ts";
import type { KvStore } from "../../../src/host/capabilities/kv/kv-store.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, errorOf, expectPublishable, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

/** Performs the given steps in order and returns the outcome of each. */
const SOURCE = `
  const show = (value) => value instanceof Uint8Array ? { bytes: [...value] } : value === undefined ? "undefined" : value;
  export default async ({ steps }, { kv }) => {
    const seen = [];
    for (const [method, ...args] of steps) {
      try {
        const value = await kv[method](...args.map((arg) => (arg?.asBytes ? Uint8Array.from(arg.asBytes) : arg)));
        seen.push(show(value));
      } catch (error) {
        seen.push({ name: error.name, code: error.code, message: error.message });
      }
    }
    return seen;
  };`;

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({
    tenancy: "multi",
    // Nothing here is about processes, and each tenant would have its own.
    placement: "shared",
    kv: "memory",
    limits: { timeoutMs: 120_000, kvKeys: 5, kvBytes: 3_000_000, kvValueBytes: 1_500_000 },
  });
  await glovebox.addTool({ name: "keeper", source: SOURCE }, { scope: "global", grant: ["kv"] });
  await glovebox.addTool({ name: "other", source: SOURCE }, { scope: "global", grant: ["kv"] });
  await glovebox.addTool(
    { name: "bare", source: `export const capabilities = { kv: true }; ${SOURCE}` },
    { scope: "global" },
  );
});
afterAll(() => glovebox.close());

type Step = readonly [method: string, ...args: unknown[]];
let calls = 0;
const call = (toolName: string, steps: readonly Step[], tenantId: string, from = glovebox): Promise<ToolResult> => {
  calls += 1;
  return from.execute({ id: `c${calls}`, toolName, arguments: { steps } }, { tenantId });
};
async function run(
  steps: readonly Step[],
  { toolName = "keeper", tenantId = "acme", from = glovebox } = {},
): Promise<JsonValue[]> {
  const result = await call(toolName, steps, tenantId, from);
  expectPublishable(result);
  return [...(outputOf(result) as JsonValue[])];
}
async function otherGlovebox(options: GloveboxOptions): Promise<Glovebox> {
  const made = await makeGlovebox({
    tenancy: "multi",
    placement: "shared",
    ...options,
    limits: { timeoutMs: 120_000, ...options.limits },
  });
  onTestFinished(() => made.close());
  await made.addTool({ name: "keeper", source: SOURCE }, { scope: "global", grant: ["kv"] });
  return made;
}

describe("ctx.kv", () => {
  test("returns JSON and bytes unchanged, also in later calls", async () => {
    const values = [null, true, 1.5, "text \0 \ud83d\ude00", [1, { a: [] }], { nested: { n: 1 } }];
    for (const value of values) {
      const [stored] = await run([["set", "v", value]]);
      expect(stored).toMatchObject({ ok: true });
      expect(await run([["get", "v"]])).toEqual([value]);
    }
    await run([["set", "v", { asBytes: [0, 127, 255] }]]);
    expect(
      await run([
        ["get", "v"],
        ["delete", "v"],
        ["delete", "v"],
        ["get", "v"],
      ]),
    ).toEqual([{ bytes: [0, 127, 255] }, true, false, "undefined"]);
  });

  test("compares and sets", async () => {
    const tenantId = "cas";
    const [first, second] = (await run(
      [
        ["set", "n", 1, { ifVersion: null }],
        ["set", "n", 2, { ifVersion: null }],
      ],
      { tenantId },
    )) as [{ version: string }, JsonValue];
    expect(second).toEqual({ ok: false, version: first.version });
    const { version } = first;
    expect(
      await run(
        [
          ["set", "n", 2, { ifVersion: version }],
          ["set", "n", 3, { ifVersion: version }],
          ["delete", "n", { ifVersion: version }],
          ["getEntry", "n"],
          ["getEntry", "nothing"],
        ],
        { tenantId },
      ),
    ).toEqual([
      { ok: true, version: expect.any(String) },
      { ok: false, version: expect.any(String) },
      false,
      { key: "n", value: 2, version: expect.any(String) },
      "undefined",
    ]);
  });

  test("removes an entry when it expires", async () => {
    const tenantId = "ttl";
    const [, entry] = await run(
      [
        ["set", "kept", 1, { ttlMs: 3_600_000 }],
        ["getEntry", "kept"],
      ],
      { tenantId },
    );
    expect(entry).toEqual(expect.objectContaining({ expiresAt: expect.any(Number) }));
    await run([["set", "k", 1, { ttlMs: 150 }]], { tenantId });
    const kept = { entries: [expect.objectContaining({ key: "kept" })] };
    await expect.poll(() => run([["get", "k"], ["list"]], { tenantId })).toEqual(["undefined", kept]);
  });

  test("lists in pages, by prefix", async () => {
    const tenantId = "list";
    await run(
      ["a/1", "a/2", "a/3", "b"].map((key) => ["set", key, key]),
      { tenantId },
    );
    const [page] = (await run([["list", { prefix: "a/", limit: 2 }]], { tenantId })) as [{ cursor: string }];
    expect(page).toMatchObject({ entries: [{ key: "a/1", value: "a/1" }, { key: "a/2" }] });
    const [last] = await run([["list", { prefix: "a/", cursor: page.cursor }]], { tenantId });
    expect(last).toEqual({ entries: [expect.objectContaining({ key: "a/3", value: "a/3" })] });
  });

  test("ends a page before it exceeds the limit of an answer", async () => {
    const tenantId = "pages";
    const small = await otherGlovebox({ kv: "memory", limits: { outputBytes: 1_000_000 } });
    const steps: Step[] = ["a", "b", "c"].map((key) => ["set", key, '"'.repeat(140_000)]);
    await run(steps, { tenantId, from: small });
    const count = (page: JsonValue | undefined): number => (page as { entries: unknown[] }).entries.length;
    const [page] = await run([["list"]], { tenantId, from: small }).catch(() => []);
    // Sizes count with quotes, so that a page stays within the size limit of an answer.
    expect(count(page)).toBe(1);
  });

  test.for<[string, Step, RegExp]>([
    ["an empty key", ["get", ""], /^The input of capability kv: /],
    ["a key that is not text", ["get", 5], /^The input of capability kv: /],
    ["a lone surrogate as key", ["get", "\ud800"], /well-formed string of at most 1024 bytes/],
    ["a key of 1,026 bytes", ["set", "é".repeat(513), 1], /well-formed string of at most 1024 bytes/],
    ["no time to live", ["set", "k", 1, { ttlMs: 0 }], /ttlMs/],
    ["a page of none", ["list", { limit: 0 }], /limit/],
    ["a page of too many", ["list", { limit: 1_001 }], /limit/],
    ["a version that is a number", ["set", "k", 1, { ifVersion: 1 }], /ifVersion/],
  ])("rejects %s", async ([, step, message]) => {
    const [rejected] = (await run([step])) as [{ code: string; message: string }];
    expect(rejected.code).toBe("PARAM_INVALID");
    expect(rejected.message).toMatch(message);
  });

  test("rejects values that are neither JSON nor bytes", async () => {
    expect(await run([["set", "k"]])).toEqual([
      { name: "TypeError", message: "kv.set expected a JSON value or a Uint8Array, got undefined" },
    ]);
  });

  test.for(["__proto__", "constructor", "toString", "a\0b", "\0", "😀", "e\u0301", "%", "../../etc/passwd"])(
    "treats %j as an ordinary key",
    async (key) => {
      expect(
        await run(
          [
            ["get", key],
            ["set", key, { key }],
            ["get", key],
            ["delete", key],
          ],
          { tenantId: "keys" },
        ),
      ).toEqual(["undefined", expect.objectContaining({ ok: true }), { key }, true]);
    },
  );

  test("denies each use if it was not granted, although the tool requests it", async () => {
    const rejected = {
      code: "CAPABILITY_DENIED",
      message:
        'ctx.kv is not granted to this tool; request it with capabilities: { kv: true } and let the host grant it (grant: ["kv"])',
    };
    const steps: Step[] = [["get", "k"], ["set", "k", 1], ["list"]];
    const seen = await run(steps, { toolName: "bare" });
    for (const one of seen) expect(one).toMatchObject(rejected);
  });
});

describe("an entry of one tool for one tenant", () => {
  test("is not visible to other tenants and other tools", async () => {
    await run([["set", "secret", "acme's"]], { tenantId: "acme" });
    for (const [tenantId, toolName] of [
      ["zeta", "keeper"],
      ["acme", "other"],
      ["ACME", "keeper"],
      ["acme ", "keeper"],
    ] as const) {
      expect(await run([["get", "secret"], ["list"], ["delete", "secret"]], { tenantId, toolName })).toEqual([
        "undefined",
        { entries: [] },
        false,
      ]);
    }
    expect(await run([["get", "secret"]], { tenantId: "acme" })).toEqual(["acme's"]);
  });

  test("an entry of a global tool is not visible to a tenant's tool of the same name", async () => {
    const [tenantId, toolName] = ["shadow", "vault"];
    const vault = { name: toolName, source: SOURCE };
    await glovebox.addTool(vault, { scope: "global", grant: ["kv"] });
    await run([["set", "token", "the host's"]], { tenantId, toolName });
    glovebox.removeTool(toolName, { scope: "global" });
    await glovebox.addTool(vault, { tenantId, grant: ["kv"] });
    expect(await run([["get", "token"]], { tenantId, toolName })).toEqual(["undefined"]);
    glovebox.removeTool(toolName, { tenantId });
    await glovebox.addTool(vault, { scope: "global", grant: ["kv"] });
    expect(await run([["get", "token"]], { tenantId, toolName })).toEqual(["the host's"]);
  });
});

describe("quotas of kv", () => {
  test("report the limit, its value and the required amount; deleting makes room", async () => {
    const tenantId = "full";
    await run(
      ["a", "b", "c", "d", "e"].map((key) => ["set", key, 1]),
      { tenantId },
    );
    const over = {
      code: "QUOTA_EXCEEDED",
      message: "kv can store 5 keys per tenant for keeper, but this entry needs 6 (limits.kvKeys)",
    };
    expect(await run([["set", "f", 1]], { tenantId })).toEqual([expect.objectContaining(over)]);
    const seen = await run(
      [
        ["set", "a", 2],
        ["delete", "b"],
        ["set", "f", 1],
      ],
      { tenantId },
    );
    expect(seen).toMatchObject([{ ok: true }, true, { ok: true }]);
  });

  test("limit the bytes of all entries and of one value", async () => {
    const tenantId = "bytes";
    const value = "x".repeat(1_400_000);
    const seen = (await run(
      [
        ["set", "a", value],
        ["set", "b", value],
        ["set", "c", value],
      ],
      { tenantId },
    )) as unknown[];
    expect(seen).toMatchObject([{ ok: true }, { ok: true }, { code: "QUOTA_EXCEEDED" }]);
    expect(JSON.stringify(seen[2])).toContain(
      "kv can store 3000000 bytes per tenant for keeper, but this entry needs 4200009 (limits.kvBytes)",
    );
    const [large] = await run([["set", "d", "x".repeat(1_500_000)]], { tenantId });
    expect(large).toMatchObject({
      code: "QUOTA_EXCEEDED",
      message: "A value in kv can have at most 1500000 bytes, got 1500002 (limits.kvValueBytes)",
    });
  });

  test("an uncaught error of a kv quota sets the call's code", async () => {
    const source = `export default async (input, { kv }) => { for (let i = 0; i < 9; i += 1) await kv.set("k" + i, i); }`;
    await glovebox.addTool({ name: "greedy", source }, { scope: "global", grant: ["kv"] });
    expect(errorOf(await glovebox.execute({ id: "c", toolName: "greedy" }, { tenantId: "greedy" })).code).toBe(
      "QUOTA_EXCEEDED",
    );
  });

  test("hold for calls that race", async () => {
    const results = await Promise.all(
      Array.from({ length: 8 }, (_, index) => run([["set", `${index}`, 1]], { tenantId: "race" })),
    );
    const stored = results.flat().filter((one) => (one as { ok?: boolean }).ok === true);
    expect(stored).toHaveLength(5);
  });
});

describe("options.kv", () => {
  test("accepts a file, whose entries another Glovebox can read", async () => {
    const { mkdtemp, rm } = await import("node:fs/promises");
    const { tmpdir } = await import("node:os");
    const folder = await mkdtemp(`${tmpdir()}/glovebox-kv-`);
    onTestFinished(() => rm(folder, { recursive: true }));
    const store = { path: `${folder}/kv.sqlite` };
    const first = await otherGlovebox({ kv: store });
    await run([["set", "k", { kept: true }]], { from: first });
    await first.close();
    expect(await run([["get", "k"]], { from: await otherGlovebox({ kv: store }) })).toEqual([{ kept: true }]);
  });

  test("accepts a store of the host, which receives tenant and tool, and which the host closes", async () => {
    const own = new MemoryKvStore();
    const close = vi.fn();
    const set = vi.spyOn(own, "set");
    const store: KvStore = Object.assign(own, { [Symbol.asyncDispose]: close });
    const made = await otherGlovebox({ kv: store });
    await run([["set", "k", 1]], { from: made, tenantId: "zeta" });
    expect(set).toHaveBeenCalledExactlyOnceWith({ tenantId: "zeta", tool: "global/keeper" }, "k", expect.anything());
    await made.close();
    expect(close).not.toHaveBeenCalled();
  });

  test("reports the error of a failing store to the operator, and not to the tool", async () => {
    const store = new MemoryKvStore();
    vi.spyOn(store, "get").mockRejectedValue(new Error("connect ECONNREFUSED 10.0.0.7"));
    const onError = vi.fn();
    const made = await otherGlovebox({ kv: store, onError });
    expect(await run([["get", "k"]], { from: made })).toMatchObject([
      { code: "TOOL_FAILED", message: 'The capability "kv" failed' },
    ]);
    expect(String(onError.mock.calls[0]?.[0])).toContain("ECONNREFUSED");
  });

  test.for([
    ["a number", 5],
    ["half a store", { get: () => {} }],
    ["an unknown word", "disk"],
    ["no path", { path: "" }],
  ])("rejects %s", async ([, kv]) => {
    const failure = await failureOf(makeGlovebox({ kv } as unknown as GloveboxOptions));
    expect([failure.code, failure.message]).toEqual(["PARAM_INVALID", expect.stringContaining("options.kv")]);
  });

  test("does not allow a capability of the host with a reserved name", async () => {
    const { defineCapability } = await import("../../../src/host/capabilities/capability.ts");
    const kv = defineCapability({ name: "kv", inputSchema: {}, outputSchema: {}, handler: () => null });
    expect((await failureOf(makeGlovebox({ capabilities: [kv] }))).message).toContain("none with a reserved name");
  });
});

test("a tool that was granted kv and does not use it opens no store", async () => {
  const store = new MemoryKvStore();
  const spies = (["get", "set", "list", "usage"] as const).map((name) => vi.spyOn(store, name));
  const made = await otherGlovebox({ kv: store });
  expect(codeOf(await call("keeper", [], "acme", made))).toBe("ok");
  for (const spy of spies) expect(spy).not.toHaveBeenCalled();
});
