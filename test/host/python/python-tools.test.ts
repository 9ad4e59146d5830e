// Python tools and python_exec through the public API: results of each call, and the handling of misbehaving code.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import { createGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import type { WorkerInfo } from "../../../src/host/workers/worker-info.ts";
import { errorOf, PYTHON_CACHE } from "../../support/host-zone.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";
import { makeWheel } from "../../support/wheel.ts";

let glovebox: Glovebox;
let store = "";

beforeAll(async () => {
  store = mkdtempSync(join(tmpdir(), "python-tools-"));
  const files = {
    "half/__init__.py": "from half.parts import half",
    "half/parts.py": "def half(n):\n    return n / 2",
    "half-1.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: half\nVersion: 1.5\n",
  };
  writeFileSync(join(store, "half-1.5-py3-none-any.whl"), makeWheel(files));
  glovebox = await createGlovebox({
    tenancy: "multi",
    cache: PYTHON_CACHE,
    tools: { enabled: true, builtinTools: ["python_exec"] },
    limits: PATIENT_LIMITS,
    // A warm interpreter that no test uses takes some seconds of CPU time.
    workers: { warmProcesses: 0, warmPythonProcesses: 0 },
    python: { packages: { dir: store, allow: ["half"] }, capabilities: { kv: {}, tools: ["half"] } },
  });
});

afterAll(async () => {
  await glovebox.close();
  rmSync(store, { recursive: true });
});

let calls = 0;
const run = (toolName: string, args: object, context: CallContext = {}): Promise<ToolResult> => {
  calls += 1;
  return glovebox.execute({ id: `p${calls}`, toolName, arguments: args }, { tenantId: "acme", ...context });
};
const exec = (code: string, context: CallContext = {}, input?: unknown): Promise<ToolResult> =>
  run("python_exec", input === undefined ? { code } : { code, input }, context);
/** One interpreter for the calls in which only their code matters: starting one takes most of a second of CPU time. */
const NOTEBOOK = { sessionId: "shared" } as const;
const outputOf = (result: ToolResult): unknown => (result.success ? result.output : result.error);

const NO_SOCKETS = "Python has no sockets here; use await fetch(url), or run_sync(fetch(url)) in an ordinary function";

describe("python_exec", () => {
  test("serves concurrent first calls of many tenants, each in a process of its own", async () => {
    const tenants = ["acme", "another", "killed"];
    const results = await Promise.all(tenants.map((tenantId) => exec("__import__('os').getpid()", { tenantId })));
    for (const result of results) expect(result).toMatchObject({ success: true });
  });

  test("keeps its names for the next call of a session, and for no other call", async () => {
    const session = { sessionId: "notebook", tenantId: "acme" };
    expect(outputOf(await exec("x = 20\nx + 1", session))).toBe(21);
    expect(outputOf(await exec("x + input", session, 22))).toBe(42);
    expect(outputOf(await exec("callable(input)", session))).toBe(true);
    expect(outputOf(await exec("x", { tenantId: "acme" }))).toMatchObject({ code: "TOOL_FAILED" });
    expect(outputOf(await exec("x", { ...session, tenantId: "another" }))).toMatchObject({ code: "TOOL_FAILED" });
    expect(await glovebox.closeSessions({ tenantId: "acme" })).toBe(1);
    await glovebox.closeSessions({ tenantId: "another" });
  });

  test("returns the value of the last expression, with input as a Python object", async () => {
    const median = "import statistics\nstatistics.median(input['xs'])";
    expect(outputOf(await exec(median, NOTEBOOK, { xs: [3, 1, 2] }))).toBe(2);
    const doubles = "def main(input):\n    return {'n': input['n'] * 2}";
    expect(outputOf(await exec(doubles, {}, { n: 21 }))).toEqual({ n: 42 });
  });

  test("prints into the log, line by line, as it runs", async () => {
    const lines: string[] = [];
    const result = await exec("import sys\nprint('a')\nprint('b', file=sys.stderr)\n1", {
      ...NOTEBOOK,
      onLog: ({ level, message }) => lines.push(`${level} ${message}`),
    });
    expect(outputOf(result)).toBe(1);
    expect(lines).toEqual(["info a", "warn b"]);
    expect(result.logs).toHaveLength(2);
  });

  test("keeps nothing for the next call", async () => {
    expect(outputOf(await exec("import json\njson.leak = 1\nleak = 2"))).toBeNull();
    expect(outputOf(await exec("import json\n[hasattr(json, 'leak'), 'leak' in globals()]"))).toEqual([false, false]);
  });

  test("imports the host's wheels, and no others", async () => {
    const code = "import half, importlib.metadata\n[half.half(5), importlib.metadata.version('half')]";
    expect(outputOf(await exec(code))).toEqual([2.5, "1.5"]);
    expect(outputOf(await exec("import numpy", NOTEBOOK))).toMatchObject({
      details: { errorName: "ModuleNotFoundError" },
    });
  });

  test("lists its granted capabilities, and is then no longer declared read-only", async () => {
    const definition = (await glovebox.listTools({ tenantId: "acme" })).find(({ name }) => name === "python_exec");
    expect(definition).toMatchObject({
      description: expect.stringContaining("Capabilities, to be awaited: kv, tools"),
    });
    expect(definition?.annotations).not.toHaveProperty("readOnlyHint");
    expect(outputOf(await exec("await kv.set('n', 5)\nawait kv.get('n')"))).toBe(5);
    expect(outputOf(await exec("await fetch('https://example.com')", NOTEBOOK))).toMatchObject({
      details: { errorName: "NameError" },
    });
  });

  test("passes None to main without an input", async () => {
    expect(outputOf(await exec("def main(input): return input is None"))).toBe(true);
  });

  test("fails with the type, the message and the author's line", async () => {
    const result = await exec("def f():\n    return 1 / 0\nf()");
    expect(outputOf(result)).toMatchObject({
      code: "TOOL_FAILED",
      message: expect.stringContaining("division by zero"),
      details: { errorName: "ZeroDivisionError", file: "snippet.py", line: 2 },
    });
    const invalid = outputOf(await exec("1 +", NOTEBOOK));
    expect(invalid).toMatchObject({ code: "TOOL_FAILED", details: { errorName: "SyntaxError" } });
  });

  test("rejects unknown arguments", async () => {
    expect(outputOf(await run("python_exec", { code: "1", mode: "session" }))).toMatchObject({ code: "PARAM_INVALID" });
    expect(outputOf(await run("python_exec", {}))).toMatchObject({ code: "PARAM_INVALID" });
  });

  test("ends a loop at its timeout, and serves the next call", async () => {
    let hasBegun = false;
    const onLog = (): void => {
      hasBegun = true;
    };
    // The interpreter has started before. On a busy machine a short timeout would expire before the loop begins.
    for (let timeoutMs = 1_000; !hasBegun && timeoutMs <= 64_000; timeoutMs *= 4) {
      const session = { sessionId: `loop ${timeoutMs}` };
      expect(outputOf(await exec("1", session))).toBe(1);
      const result = await exec("print('begun')\nwhile True: pass", { ...session, timeoutMs, onLog });
      expect(outputOf(result)).toMatchObject({ code: "TOOL_TIMEOUT" });
    }
    expect(hasBegun).toBe(true);
    expect(outputOf(await exec("6 * 7"))).toBe(42);
  });

  test("ends a memory bomb at the limit, with Python's own error and the author's line, and serves the next call", async () => {
    expect(errorOf(await exec("x = []\nwhile True: x.append(bytearray(10_000_000))"))).toMatchObject({
      code: "MEMORY_LIMIT",
      message: expect.stringContaining("MiB"),
      details: { errorName: "MemoryError", line: 2, limitMiB: 256, peakMiB: expect.any(Number) },
    });
    // Nothing was rejected here.
    const own = errorOf(await exec("raise MemoryError('mine')", NOTEBOOK));
    expect(own).toMatchObject({ code: "TOOL_FAILED", message: "mine" });
    expect(outputOf(await exec("6 * 7"))).toBe(42);
  });

  test("reports a killed process, and serves the next call", async () => {
    let seen: readonly WorkerInfo[] = [];
    const onLog = (): void => {
      seen = glovebox.workers.filter(({ tenantIds }) => tenantIds.includes("killed"));
      for (const pid of glovebox.workerPids) process.kill(pid, "SIGKILL");
    };
    const result = await exec("import time\nprint('begun')\ntime.sleep(50)", { tenantId: "killed", onLog });
    expect(seen).toMatchObject([
      { language: "python", use: "tenant", state: "busy", tenantIds: ["killed"], isolates: { running: 1 } },
    ]);
    expect(outputOf(result)).toMatchObject({ code: "SANDBOX_CRASHED", details: { begun: true } });
    expect(outputOf(await exec("1 + 1", { tenantId: "killed" }))).toBe(2);
  });
});

describe("a tool in Python", () => {
  test("gets its description and schema by running its module", async () => {
    const definition = await glovebox.addTool(
      {
        name: "words",
        language: "python",
        source:
          "'''Counts words'''\ninput_schema = {'type': 'object', 'required': ['text']}\ndef main(input):\n    return len(input['text'].split())\n",
      },
      { tenantId: "acme" },
    );
    expect(definition).toMatchObject({
      name: "words",
      description: "Counts words",
      inputSchema: { type: "object", required: ["text"] },
    });
    expect(outputOf(await run("words", { text: "a b c" }))).toBe(3);
    expect(outputOf(await run("words", {}))).toMatchObject({ code: "PARAM_INVALID" });
  });

  test("has further files, and its traceback names them", async () => {
    const files = {
      "main.py": "from lib.parts import half\ndef main(input):\n    return half(input['n'])\n",
      "lib/__init__.py": "",
      "lib/parts.py": "def half(n):\n    if n % 2:\n        raise ValueError(f'odd: {n}')\n    return n // 2\n",
    };
    await glovebox.addTool({ name: "half", files }, { tenantId: "acme" });
    expect(outputOf(await run("half", { n: 4 }))).toBe(2);
    expect(outputOf(await run("half", { n: 3 }))).toMatchObject({
      code: "TOOL_FAILED",
      details: { errorName: "ValueError", file: "lib/parts.py", line: 3 },
    });
  });

  test("a tool that cannot be compiled is BUNDLE_FAILED with its source location", async () => {
    const [code, file, line] = ["x = 1\n\nif x\n    pass\n", "tool.py", 3] as const;
    await expect(
      glovebox.addTool({ source: code, language: "python", name: "broken" }, { scope: "global" }),
    ).rejects.toMatchObject({
      code: "BUNDLE_FAILED",
      message: expect.stringMatching(new RegExp(`^${file}:${line}:\\d+: SyntaxError: `)),
      details: { file, line },
    });
  });

  test.for([
    ["limits = 5", "Expected limits to be a dict, got a value of type int"],
    [
      "input_schema = {'enum': {1, 2}}",
      "The tool's definition is not JSON: it is a value with a set at /inputSchema/enum",
    ],
    ["x = '\0'", '"tool.py" has a NUL character in line 1'],
  ] as const)("a tool with an invalid definition is BUNDLE_FAILED, with the reason: %j", async ([code, says]) => {
    const source = `${code}\ndef main(input): pass`;
    await expect(
      glovebox.addTool({ source, language: "python", name: "faulty" }, { scope: "global" }),
    ).rejects.toMatchObject({
      code: "BUNDLE_FAILED",
      message: expect.stringContaining(says),
    });
  });

  test("a tool that ends its process during definition extraction is TOOL_FAILED with its line", async () => {
    const source = "import sys\nsys.exit(0)\ndef main(input): pass";
    await expect(
      glovebox.addTool({ source, language: "python", name: "leaves" }, { scope: "global" }),
    ).rejects.toMatchObject({
      code: "TOOL_FAILED",
      details: { errorName: "SystemExit", line: 2 },
    });
  });

  test("a tool without main is BUNDLE_FAILED, and one whose module throws is TOOL_FAILED", async () => {
    await expect(
      glovebox.addTool({ source: "x = 1", language: "python", name: "none" }, { scope: "global" }),
    ).rejects.toMatchObject({
      code: "BUNDLE_FAILED",
      message: expect.stringContaining("main"),
    });
    await expect(
      glovebox.addTool(
        { source: "raise ValueError('no')\ndef main(i): pass", language: "python", name: "none" },
        { scope: "global" },
      ),
    ).rejects.toMatchObject({ code: "TOOL_FAILED", details: { errorName: "ValueError", line: 1 } });
  });

  test("uses its granted capabilities, and gets an error for denied ones", async () => {
    const code = `
async def main(input, ctx):
    if input.get("bare"):
        await kv.set("n", input["n"])
        return await kv.get("n")
    await ctx.kv.set("n", input["n"])
    return await ctx.kv.get("n")
`;
    await glovebox.addTool(
      { name: "keeps", language: "python", source: `\ufeff${code}` },
      { tenantId: "acme", grant: ["kv"] },
    );
    expect(outputOf(await run("keeps", { n: 5 }))).toBe(5);
    expect(outputOf(await run("keeps", { n: 6, bare: true }))).toBe(6);
    const source = `capabilities = {'kv': True}\n${code}`;
    await glovebox.addTool({ name: "denied", language: "python", source }, { tenantId: "acme" });
    expect(outputOf(await run("denied", { n: 5 }))).toMatchObject({ code: "CAPABILITY_DENIED" });
  });

  describe("without a grant", () => {
    const SOURCE = `
calls = 0

async def a_member(ctx):
    return await ctx.kv.get("n")

async def a_host_name(ctx):
    return await ctx.look_up(sku=1)

async def a_builtin(ctx):
    return await kv.get("n")

async def a_wait(ctx):
    return await waitFor("order")

async def a_rollback(ctx):
    await onRollback(lambda: None)

async def an_import(ctx):
    from glovebox import kv
    return await kv.get("n")

async def a_pyfetch(ctx):
    from pyodide.http import pyfetch
    return await pyfetch("https://example.com/")

async def a_urlopen(ctx):
    import urllib.request
    return urllib.request.urlopen("http://example.com/").read()

async def a_connection(ctx):
    import http.client
    http.client.HTTPConnection("example.com").request("GET", "/")

async def another_errno(ctx):
    import errno
    raise OSError(errno.EHOSTUNREACH, "mine")

async def a_long_name(ctx):
    return getattr(ctx, "x" * 300)()

async def asks(ctx):
    try:
        kv
    except NameError as error:
        return [hasattr(ctx, "kv"), getattr(ctx, "kv", 1), hasattr(ctx, "log"), error.name]

async def count(ctx):
    global calls
    calls += 1
    return calls

async def main(input, ctx):
    if "data" in input:
        return {"back": bytes(input["data"])[::-1]}
    return await globals()[input["use"]](ctx)
`;
    beforeAll(async () => {
      const tool = { language: "python", source: SOURCE } as const;
      await glovebox.addTool({ ...tool, name: "several" }, { tenantId: "acme" });
      // One interpreter for its calls.
      await glovebox.addTool({ ...tool, name: "warm" }, { tenantId: "acme", isolateLifetime: "tool" });
    });

    test.for<[use: string, member: string, capability: string]>([
      ["a_member", "ctx.kv", "kv"],
      ["a_host_name", "ctx.look_up", "look_up"],
      ["a_builtin", "kv", "kv"],
      ["a_wait", "waitFor", "waitFor"],
      ["a_rollback", "onRollback", "waitFor"],
      ["an_import", "kv", "kv"],
    ])("fails with the capability's name: %s", async ([use, member, capability]) => {
      expect(outputOf(await run("warm", { use }))).toMatchObject({
        code: "CAPABILITY_DENIED",
        message: `${member} is not granted to this tool; request it with capabilities = {"${capability}": True} and let the host grant it (grant: ["${capability}"])`,
        details: { capability },
      });
    });

    test.for<[use: string, start: string]>([
      ["a_pyfetch", "fetch is"],
      ["a_urlopen", `${NO_SOCKETS}. fetch is`],
      ["a_connection", `${NO_SOCKETS}. fetch is`],
    ])("fails with fetch, which a program needs to reach the network: %s", async ([use, start]) => {
      expect(outputOf(await run("warm", { use }))).toMatchObject({
        code: "CAPABILITY_DENIED",
        message: `${start} not granted to this tool; request it with capabilities = {"fetch": True} and let the host grant it (grant: ["fetch"])`,
        details: { capability: "fetch" },
      });
    });

    test.for(["http://example.com/", "https://example.com/"])(
      "connects to %s only with fetch, also if it is granted",
      async (url) => {
        const source = `capabilities = {"fetch": True}
import urllib.request
def main(input):
    return urllib.request.urlopen(input["url"]).read()`;
        const tool = { name: "connects", language: "python", source } as const;
        await glovebox.addTool(tool, { tenantId: "acme", grant: ["fetch"], replace: true });
        expect(await run("connects", { url })).toMatchObject({
          success: false,
          error: { code: "TOOL_FAILED", message: NO_SOCKETS },
        });
      },
    );

    test("an error of the program's own about a host is a failure of the tool", async () => {
      expect(outputOf(await run("warm", { use: "another_errno" }))).toMatchObject({ code: "TOOL_FAILED" });
    });

    test("fails as a tool that requests a capability with a name of any length", async () => {
      expect(outputOf(await run("warm", { use: "a_long_name" }))).toMatchObject({ code: "CAPABILITY_DENIED" });
    });

    test("can test for capabilities with hasattr and getattr", async () => {
      expect(outputOf(await run("warm", { use: "asks" }))).toEqual([false, 1, true, "kv"]);
    });

    test("passes bytes both ways", async () => {
      expect(outputOf(await run("several", { data: new Uint8Array([1, 2, 3]) }))).toEqual({
        back: new Uint8Array([3, 2, 1]),
      });
    });

    test("keeps its module between calls only with isolation: tool", async () => {
      const counts = async (name: string): Promise<unknown[]> => [
        outputOf(await run(name, { use: "count" })),
        outputOf(await run(name, { use: "count" })),
      ];
      expect(await counts("warm")).toEqual([1, 2]);
      expect(await counts("several")).toEqual([1, 1]);
    });
  });
});

describe("a durable Python tool", () => {
  const SOURCE = `
"""Doubles what it is given"""
durable = True
capabilities = ["waitFor"]
async def main(input: dict, ctx):
    value = await ctx.waitFor({"event": "go"})
    try:
        await ctx.waitFor({"approval": "Sure?", "timeoutMs": 1})
    except Exception as error:
        return {"n": input["n"], "value": value, "code": error.code}
`;

  test("waits without a process, and goes on as it began", async () => {
    await glovebox.addTool(
      { name: "waits", language: "python", source: SOURCE },
      { tenantId: "acme", grant: ["waitFor"] },
    );
    expect(outputOf(await run("waits", { n: 1 }))).toMatchObject({ details: { reason: "needs_run" } });
    await using runs = createRuns(glovebox, { store: new MemoryRunStore(), pollMs: 0 });
    const whose = { tenantId: "acme" };
    const { id, state, waits } = await runs.start({ toolName: "waits", arguments: { n: 4 }, ...whose });
    expect([state, waits]).toMatchObject(["suspended", [{ kind: "event", name: "go" }]]);
    await runs.signal(id, { event: "go", value: [7] }, whose);
    await expect
      .poll(async () => {
        await runs.poll();
        return (await runs.get(id, whose))?.result;
      })
      .toMatchObject({ success: true, output: { n: 4, value: [7], code: "TOOL_TIMEOUT" } });
  });
});
