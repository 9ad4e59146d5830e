// Python tools on executors: the same results, errors and logs as in one process; executors that die, drain, have no Python, or get calls with
// different packages. test/e2e/fleet-conformance.test.ts compares calls that reach a limit, nested calls and the key-value store.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { type RunningExecutor, startExecutor } from "../../src/executor/index.ts";
import {
  createGlovebox,
  defineCapability,
  type Glovebox,
  type GloveboxOptions,
  type ToolResult,
} from "../../src/host/index.ts";
import type { CliProcess } from "../support/cli-process.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { PYTHON_CACHE, PYTHON_HOME } from "../support/host-zone.ts";
import { useKnownInterpreter } from "../support/interpreter-cache.ts";
import { hasNatsServer } from "../support/nats-server.ts";
import { makeWheel } from "../support/wheel.ts";

/** Executors of one machine share it. */
const EXECUTOR_CACHE = join(PYTHON_HOME, ".cache", "executor");
const ACME = { tenantId: "acme" };
/** A source that is larger than what is sent with each call. */
const PADDING = Array.from({ length: 400 }, (_, index) => `# line ${index} of the padding`).join("\n");

interface PythonTool {
  readonly files: { readonly [path: string]: string };
  readonly grant?: readonly string[];
  readonly isolateLifetime?: "tool";
}
const tool = (code: string, options: Omit<PythonTool, "files"> = {}): PythonTool => ({
  files: { "tool.py": code },
  ...options,
});

const TOOLS: { readonly [name: string]: PythonTool } = {
  words: tool(`"""Counts words"""
def main(input):
    print("counting")
    if input["text"] == "":
        raise ValueError("no text")
    return {"words": len(input["text"].split())}
`),
  large: {
    files: {
      "tool.py": `${PADDING}\nfrom lib.parts import half\ndef main(input):\n    return half(input["n"])\n`,
      "lib/__init__.py": "",
      "lib/parts.py": `${PADDING}\ndef half(n):\n    if n % 2:\n        raise ValueError(f"odd: {n}")\n    return n // 2\n`,
    },
  },
  waits: tool(
    `import asyncio\nasync def main(input):\n    print("begun")\n    await asyncio.sleep(input["seconds"])\n    return "waited"\n`,
  ),
  denied: tool(`capabilities = {"kv": True}\nasync def main(input, ctx):\n    return await ctx.kv.get("n")\n`),
  doubles: tool(
    `capabilities = {"double": True}\nasync def main(input, ctx):\n    return await ctx.double(n=input["n"])\n`,
    {
      grant: ["double"],
    },
  ),
  reverses: tool(`def main(input):\n    return {"back": bytes(input["data"])[::-1]}\n`),
  counts: tool("calls = 0\ndef main(input):\n    global calls\n    calls += 1\n    return calls\n", {
    isolateLifetime: "tool",
  }),
};

const double = defineCapability({
  name: "double",
  inputSchema: z.object({ n: z.number() }),
  outputSchema: z.number(),
  handler: ({ n }) => n * 2,
});

interface PythonCall {
  readonly what: string;
  readonly tool: string;
  readonly input: object;
  readonly expected: object;
}
const IMPORT = "import half, importlib.metadata\n[half.half(5), importlib.metadata.version('half')]";

const CALLS: readonly PythonCall[] = [
  { what: "several files", tool: "large", input: { n: 4 }, expected: { output: 2 } },
  {
    what: "an exception in another file",
    tool: "large",
    input: { n: 3 },
    expected: { error: { code: "TOOL_FAILED", details: { file: "lib/parts.py" } } },
  },
  { what: "a snippet", tool: "python_exec", input: { code: "sum(input)", input: [1, 2] }, expected: { output: 3 } },
  { what: "a wheel", tool: "python_exec", input: { code: IMPORT }, expected: { output: [2.5, "1.5"] } },
  {
    what: "a package that is not allowed",
    tool: "python_exec",
    input: { code: "import numpy" },
    expected: { error: { details: { errorName: "ModuleNotFoundError" } } },
  },
  {
    what: "a capability that is not granted",
    tool: "denied",
    input: {},
    expected: { error: { code: "CAPABILITY_DENIED" } },
  },
  { what: "a capability of the host", tool: "doubles", input: { n: 21 }, expected: { output: 42 } },
  {
    what: "bytes",
    tool: "reverses",
    input: { data: new Uint8Array([1, 2, 3]) },
    expected: { output: { back: new Uint8Array([3, 2, 1]) } },
  },
  { what: "a module that is kept", tool: "counts", input: {}, expected: { output: 1 } },
  { what: "a module that was kept", tool: "counts", input: {}, expected: { output: 2 } },
];

/** What a caller can rely on: no measured amounts. */
function show(result: ToolResult): unknown {
  const logs = (result.logs ?? []).map(({ level, message }) => [level, message]);
  if (result.success) return { output: result.output, logs };
  const { code, message, details, stack } = result.error;
  const { peakMiB: _peak, usedMs: _used, ...stated } = details ?? {};
  return { error: { code, message: message.replaceAll(/\d+(?= ?(?:MiB|ms))/g, "N"), details: stated, stack }, logs };
}

describe.skipIf(!hasNatsServer)("Python tools on executors", () => {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-fleet-python-"));
  let fleet: Fleet;
  let local: Glovebox;
  let withoutPython: RunningExecutor;
  const executors = new Map<string, CliProcess>();

  const storeOf = (version: string, body: string): string => {
    const store = mkdtempSync(join(folder, "wheels-"));
    const files = {
      // More than fits into a message of NATS.
      "half/data.txt": "x".repeat(3 * 1024 * 1024),
      "half/__init__.py": `def half(n):\n    return ${body}\n`,
      [`half-${version}.dist-info/METADATA`]: `Metadata-Version: 2.1\nName: half\nVersion: ${version}\n`,
    };
    writeFileSync(join(store, `half-${version}-py3-none-any.whl`), makeWheel(files));
    return store;
  };
  const optionsOf = (dir: string): GloveboxOptions => ({
    tenancy: "multi",
    tenants: { acme: {}, plain: { pools: ["js"] } },
    kv: "memory",
    cache: PYTHON_CACHE,
    tools: { enabled: true, builtinTools: ["python_exec"] },
    limits: { timeoutMs: 300_000, queueMs: 300_000, cpuMs: 120_000 },
    workers: { max: 4, warmPythonProcesses: 0 },
    capabilities: [double],
    python: { packages: { dir, allow: ["half"] } },
  });
  const addTools = async (glovebox: Glovebox): Promise<void> => {
    for (const [name, { grant = [], isolateLifetime, files }] of Object.entries(TOOLS)) {
      const lifetime = isolateLifetime === undefined ? {} : { isolateLifetime };
      await glovebox.addTool({ name, files, language: "python" }, { scope: "global", grant, ...lifetime });
    }
  };
  const start = async (id: string): Promise<void> => {
    useKnownInterpreter(join(EXECUTOR_CACHE, "code"));
    const cache = ["--cache-dir", EXECUTOR_CACHE];
    executors.set(id, await fleet.start(id, ["--drain-ms", "300000", "--slots", "4", ...cache]));
  };
  const end = async (id: string): Promise<void> => {
    await executors.get(id)?.[Symbol.asyncDispose]();
    await fleet.until(id, false);
  };
  const call = (glovebox: Glovebox, toolName: string, args: object, context: object = {}): Promise<ToolResult> =>
    glovebox.execute({ id: toolName, toolName, arguments: args as never }, { ...ACME, ...context });
  const busyOf = (): readonly string[] => fleet.host.fleet.executors.filter(({ busy }) => busy > 0).map(({ id }) => id);
  /** Starts a call that waits, and resolves when its tool has begun, with the executor that runs it. */
  const begin = async (seconds: number): Promise<{ result: Promise<ToolResult>; id: string }> => {
    const begun = Promise.withResolvers<void>();
    const result = call(fleet.host, "waits", { seconds }, { onLog: () => begun.resolve() });
    await begun.promise;
    await vi.waitFor(() => expect(busyOf()).toHaveLength(1));
    return { result, id: busyOf()[0] as string };
  };

  beforeAll(async () => {
    const options = optionsOf(storeOf("1.5", "n / 2"));
    local = await createGlovebox(options);
    fleet = await openFleet({
      executors: ["one", "two", "js-1"],
      poolOf: (id) => (id === "js-1" ? "js" : "default"),
      host: options,
    });
    withoutPython = await startExecutor({
      url: fleet.nats.url,
      credentials: fleet.credentialsOf("js-1"),
      cacheDir: join(folder, "js-1"),
      pool: "js",
      // V8 does not count the memory of Python.
      hardening: { without: ["resource-limits"] },
      workers: { max: 2 },
    });
    await addTools(local);
    await addTools(fleet.host);
    await Promise.all([start("one"), start("two"), fleet.until("js-1", true)]);
  });
  afterAll(async () => {
    await withoutPython?.[Symbol.asyncDispose]();
    await fleet?.[Symbol.asyncDispose]();
    await local?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test("executors say which languages they run", () => {
    const languages = fleet.host.fleet.executors.map(({ id, languages: all }) => [id, all]);
    expect(languages).toEqual([
      ["js-1", ["javascript"]],
      ["one", ["javascript", "python"]],
      ["two", ["javascript", "python"]],
    ]);
    expect(withoutPython.languages).toEqual(["javascript"]);
  });

  test.for(CALLS)("$what", async ({ tool: name, input, expected }) => {
    const here = show(await call(local, name, input));
    expect(here).toMatchObject(expected);
    expect(show(await call(fleet.host, name, input))).toEqual(here);
  });

  test("run on executors", async () => {
    const { result, id } = await begin(2);
    expect(["one", "two"]).toContain(id);
    expect(await result).toMatchObject({ success: true, output: "waited" });
  });

  test("a begun call of a killed executor fails with SANDBOX_CRASHED, and the next call runs elsewhere", async () => {
    const { result, id } = await begin(600);
    executors.get(id)?.signal("SIGKILL");
    const error = { code: "SANDBOX_CRASHED", details: { begun: true } };
    expect(await result).toMatchObject({ success: false, error });
    expect(await call(fleet.host, "words", { text: "a" })).toMatchObject({ output: { words: 1 } });
    await end(id);
    await start(id);
  });

  test("a drained executor finishes its call and exits with 0", async () => {
    const { result, id } = await begin(8);
    expect(await fleet.host.drainExecutor(id)).toBe("draining");
    expect(await call(fleet.host, "words", { text: "a" })).toMatchObject({ output: { words: 1 } });
    expect(await result).toMatchObject({ success: true, output: "waited" });
    expect(await executors.get(id)?.exit).toBe(0);
    await end(id);
    await start(id);
  });

  test("calls of hosts with different packages share executors, and no packages", async () => {
    const executorsOption = {
      url: fleet.nats.url,
      credentials: fleet.credentialsOf("control-plane"),
      silenceMs: 10_000,
    };
    const other = await createGlovebox({ ...optionsOf(storeOf("2.0", "n * 50")), executors: executorsOption });
    try {
      await vi.waitFor(() => expect(other.fleet.executors).toHaveLength(3));
      for (let round = 0; round < 2; round += 1) {
        expect(await call(other, "python_exec", { code: IMPORT })).toMatchObject({ output: [250, "2.0"] });
        expect(await call(fleet.host, "python_exec", { code: IMPORT })).toMatchObject({ output: [2.5, "1.5"] });
      }
    } finally {
      await other.close();
    }
  });

  test("sessions keep their names, on executors", async () => {
    const runs = async (glovebox: Glovebox): Promise<readonly unknown[]> => {
      const session = await glovebox.openSession({ ...ACME, language: "python" });
      const shown = [];
      for (const code of ["import half\nkept = half.half(10)", "kept + 1", "1 / 0", "kept"])
        shown.push(show(await session.run(code)));
      await session.close();
      shown.push(show(await session.run("kept")));
      return shown;
    };
    const here = await runs(local);
    expect(here.slice(0, 2)).toMatchObject([{ output: null }, { output: 6 }]);
    const withoutIds = (shown: unknown): unknown =>
      JSON.parse(JSON.stringify(shown).replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, "ID"));
    expect(withoutIds(await runs(fleet.host))).toEqual(withoutIds(here));
    const session = await fleet.host.openSession({ ...ACME, language: "python" });
    const begun = Promise.withResolvers<void>();
    const code = "import asyncio\nprint('begun')\nawait asyncio.sleep(600)";
    const running = session.run(code, { onLog: () => begun.resolve() });
    await begun.promise;
    await vi.waitFor(() => expect(busyOf()).toHaveLength(1));
    await session.close();
    expect(await running).toMatchObject({ success: false, error: { code: "CANCELLED" } });
  });

  test("sessions of tools keep their names, each in an interpreter of its own", async () => {
    const run = async (glovebox: Glovebox, code: string, sessionId: string): Promise<unknown> =>
      show(await call(glovebox, "python_exec", { code }, { sessionId }));
    const all = async (glovebox: Glovebox): Promise<readonly unknown[]> => {
      const shown = [await run(glovebox, "kept = 1", "a"), await run(glovebox, "kept = 2", "b")];
      shown.push(
        await run(glovebox, "kept", "a"),
        await run(glovebox, "kept", "b"),
        await run(glovebox, "missing", "a"),
      );
      await glovebox.closeSessions(ACME);
      return [...shown, await run(glovebox, "kept", "a")];
    };
    const here = await all(local);
    expect(here.slice(2, 4)).toMatchObject([{ output: 1 }, { output: 2 }]);
    expect(await all(fleet.host)).toEqual(here);
    await Promise.all([local, fleet.host].map((glovebox) => glovebox.closeSessions(ACME)));
  });

  test("executors delete the sources of a deleted tenant", async () => {
    const cache = join(folder, "gone");
    useKnownInterpreter(join(cache, "code"));
    await end("one");
    await end("two");
    executors.set("one", await fleet.start("one", ["--cache-dir", cache]));
    const source = `${PADDING}\n${PADDING}\nSECRET = "of gone"\ndef main(input):\n    return len(SECRET)\n`;
    await fleet.host.addTool({ name: "own", source, language: "python" }, { tenantId: "acme" });
    expect(await call(fleet.host, "own", {})).toMatchObject({ output: 7 });
    const objects = (): readonly string[] =>
      readdirSync(join(cache, "python")).filter((name) => name.endsWith(".bundle"));
    // With the wheels, which other tenants would get again.
    await vi.waitFor(() => expect(objects()).toHaveLength(2));
    await fleet.host.deleteTenant("acme");
    await vi.waitFor(() => expect(objects()).toEqual([]));
    await end("one");
  });

  test("calls in a pool without Python fail, and none runs on the host", async () => {
    const plain = async (): Promise<unknown> => {
      const context = { tenantId: "plain", timeoutMs: 2_000 };
      const result = await call(fleet.host, "words", { text: "a" }, context);
      return result.success ? result.output : result.error;
    };
    // For a minute they wait first, because an executor with Python may be about to start.
    const early: unknown[] = [];
    const isEarly = async (): Promise<boolean> => {
      const error = await plain();
      if ((error as { readonly code?: string }).code === "TOOL_UNAVAILABLE") return false;
      early.push(error);
      return true;
    };
    await expect.poll(isEarly, { timeout: 120_000 }).toBe(false);
    for (const error of early) {
      const message = expect.stringMatching(/^No executor of the pool js with this server's version of Python/);
      expect(error).toMatchObject({ code: "OVERLOADED", message });
    }
    expect(await plain()).toMatchObject({
      code: "TOOL_UNAVAILABLE",
      message: expect.stringMatching(/pool js runs Python\. Run "npm install pyodide@/),
      details: { reason: "unsupported" },
    });
  });
});
