// stubCapability() of "glovebox/testing": stubs of the built-in capabilities, used by real tools.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { type OpenedTool, openTool, type StubbedCapability, stubCapability } from "../../../src/host/testing/index.ts";

/** Opens a tool that was granted these stubs. */
async function openSource(execute: string, ...capabilities: readonly StubbedCapability[]): Promise<OpenedTool> {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-stand-in-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await writeFile(join(folder, "tool.ts"), `export default ${execute};`);
  return await openTool(folder, { capabilities });
}

/** Runs a tool that was granted these stubs. */
async function outputWith(execute: string, ...capabilities: readonly StubbedCapability[]): Promise<unknown> {
  await using tool = await openSource(execute, ...capabilities);
  return await tool.output();
}

test("fetch: accepts a Response, or JSON for one, as an answer", async () => {
  const api = stubCapability("fetch", ({ method, url, headers, body }) => {
    if (url.endsWith("/json")) return { sent: body };
    if (url.endsWith("/large")) return new Response(new Uint8Array(600_000).fill(7));
    if (url.endsWith("/fails")) throw new Error("no network here");
    if (url.endsWith("/none")) return undefined;
    return new Response(`${method} ${headers["x-a"]} ${body}`, { status: 201, headers: { "x-b": "2" } });
  });
  const output = await outputWith(
    `async (input, ctx) => {
      const plain = await fetch("https://api.example.com/x", { method: "PUT", headers: { "X-A": "1" }, body: "sent" });
      const stream = new ReadableStream({ start(c) { c.enqueue(new Uint8Array([97])); c.enqueue(new Uint8Array([98])); c.close(); } });
      const json = await (await ctx.fetch("https://api.example.com/json", { method: "POST", body: stream, duplex: "half" })).json();
      const large = await (await fetch("https://api.example.com/large")).bytes();
      const none = await fetch("https://api.example.com/none");
      const failed = await fetch("https://api.example.com/fails").catch((error) => error.name);
      return [plain.status, plain.headers.get("x-b"), await plain.text(), json, large.length, large.every((x) => x === 7), none.status, failed];
    }`,
    api,
  );
  expect(output).toEqual([201, "2", "PUT 1 sent", { sent: "ab" }, 600_000, true, 404, "TypeError"]);
  expect(api.inputs).toHaveLength(5);
  expect(api.inputs[0]).toMatchObject({ method: "PUT", url: "https://api.example.com/x", body: "sent" });
});

test("kv: returns entries with their values, and defaults without an answer", async () => {
  const entries = new Map<string, unknown>([["a", { n: 1 }]]);
  const kv = stubCapability("kv", ({ op, key, value, prefix }) => {
    if (op === "get") return entries.has(key) ? { value: entries.get(key), version: "v7" } : undefined;
    if (op === "set") return void entries.set(key, value);
    if (op === "delete") return entries.delete(key);
    return {
      entries: [...entries]
        .filter(([name]) => name.startsWith(prefix ?? ""))
        .map(([name, one]) => ({ key: name, value: one })),
    };
  });
  const use = `async (input, { kv }) => [
    await kv.get("a"), await kv.getEntry("a"), (await kv.get("b")) ?? "none",
    await kv.set("b", new Uint8Array([1, 2]), { ttlMs: 5 }), [...(await kv.get("b"))],
    (await kv.list({ prefix: "b" })).entries.map(({ key, value }) => [key, value.length]), await kv.delete("b"), await kv.delete("b"),
  ]`;
  expect(await outputWith(use, kv)).toEqual([
    { n: 1 },
    { key: "a", value: { n: 1 }, version: "v7" },
    "none",
    { ok: true, version: "1" },
    [1, 2],
    [["b", 2]],
    true,
    false,
  ]);
  expect(kv.inputs[3]).toEqual({ op: "set", key: "b", value: new Uint8Array([1, 2]), ttlMs: 5 });
  const bare = `async (input, { kv }) => [(await kv.get("x")) ?? 0, await kv.set("x", 1), await kv.delete("x"), await kv.list()]`;
  expect(await outputWith(bare, stubCapability("kv"))).toEqual([0, { ok: true, version: "1" }, false, { entries: [] }]);
});

test("stubs secrets, tools and any other capability", async () => {
  const secrets = stubCapability("secrets", (name) => (name === "A" ? "placeholder A" : undefined));
  const tools = stubCapability("tools", ({ name, input }) => {
    if (name === "fails") throw new Error("it does");
    return name === "bytes" ? (input as { data: Uint8Array }).data.map((x) => x + 1) : { name, input };
  });
  const other = stubCapability("other");
  const output = await outputWith(
    `async (input, { secrets, tools, other }) => [
      await secrets.use("A"), await secrets.use("B"), await tools.add({ a: 1 }),
      [...(await tools.call("bytes", { data: new Uint8Array([1, 2]) }))], await tools.fails().catch((error) => error.name), await other({ x: 1 }),
    ]`,
    secrets,
    tools,
    other,
  );
  expect(output).toEqual([
    "placeholder A",
    "placeholder-of-B",
    { name: "add", input: { a: 1 } },
    [2, 3],
    "CapabilityError",
    null,
  ]);
  expect([secrets.inputs, other.inputs]).toEqual([["A", "B"], [{ x: 1 }]]);
});

test("fetch: accepts a Response of another library", async () => {
  const own = Response.json({ a: 1 }, { status: 201 });
  const foreign = {
    status: 201,
    statusText: "",
    redirected: false,
    url: "",
    body: own.body,
    headers: own.headers,
    arrayBuffer: () => own.arrayBuffer(),
  };
  const source = `async (input, { fetch }) => {
    const response = await fetch("https://api.example.com/");
    return [response.status, await response.json()];
  }`;
  expect(
    await outputWith(
      source,
      stubCapability("fetch", () => foreign),
    ),
  ).toEqual([201, { a: 1 }]);
});

test.for([null, "answer", {}, Promise.resolve(null)])("stubCapability() rejects %j as its answer", (answer) => {
  expect(() => stubCapability("lookUp", answer as never)).toThrow(/^answer: Expected a function/);
});

test("a host's own capability cannot use a built-in name", async () => {
  const { isStub: _, ...posing } = stubCapability("kv");
  await expect(openTool("nowhere", { capabilities: [posing as StubbedCapability] })).rejects.toThrow(
    /none with a reserved name/,
  );
  await expect(openTool("nowhere", { capabilities: [stubCapability("log")] })).rejects.toThrow(
    /none with a reserved name/,
  );
});

test("the author of a test sees what a stub threw, and the tool does not", async () => {
  const thrown = new Error("no price for this item");
  const lookUp = stubCapability("lookUp", () => {
    throw thrown;
  });
  await using tool = await openSource(`(input, { lookUp }) => lookUp(input)`, lookUp);
  const result = await tool.call();
  expect(result).toMatchObject({ error: { code: "TOOL_FAILED", message: 'The capability "lookUp" failed' } });
  const text = 'The capability "lookUp" threw: Error: no price for this item\n    at ';
  expect(await tool.failure()).toContain(text);
  const error = await tool.output().catch((rejection: unknown) => rejection);
  expect(error).toMatchObject({ message: expect.stringContaining(text), cause: thrown });
});

test("calls that run together each state what their own stubs threw", async () => {
  const fails = stubCapability("fails", async (input) => await Promise.reject(new Error(`for ${String(input)}`)));
  await using tool = await openSource("({ n }, { fails }) => fails(n)", fails);
  const [first, second] = await Promise.all([tool.failure({ n: 1 }), tool.failure({ n: 2 })]);
  expect([first.includes("for 1"), first.includes("for 2")]).toEqual([true, false]);
  expect([second.includes("for 1"), second.includes("for 2")]).toEqual([false, true]);
});
