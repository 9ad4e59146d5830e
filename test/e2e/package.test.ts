// The package as a user gets it: packed, installed into an empty project, used there on each supported version of Node.
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { BARE_ENTRIES, writeConsumer } from "../support/consumer-project.ts";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** Needs the registry and a build: far longer than a usual test. */
const INSTALL_MS = 1_200_000;
const MODULES = join(ROOT, "node_modules");
let folder = "";
let tarball = "";

/** The embedding example of the README, word for word. */
async function embeddingExample(): Promise<string> {
  const readme = await readFile(join(ROOT, "README.md"), "utf8");
  const [, section = ""] = readme.split("## In your own program");
  return /```ts\n([\s\S]*?)```/.exec(section)?.[1] ?? "";
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-package-"));
  // Other tests run what is in dist, and the script before packing would build it again.
  const args = ["pack", "--ignore-scripts", "--json", "--pack-destination", folder];
  const { stdout } = await run("npm", args, { cwd: ROOT });
  const report = JSON.parse(stdout.slice(stdout.search(/^[[{]/m))) as Record<string, { filename: string }>;
  const [{ filename } = { filename: "" }] = Object.values(report);
  tarball = join(folder, filename);
}, INSTALL_MS);
afterAll(() => rm(folder, { recursive: true, force: true }));

describe("the packed tarball", () => {
  /** Installed once: what is native in it is chosen when it is loaded. */
  let project = "";
  beforeAll(async () => {
    project = await mkdtemp(join(folder, "project-"));
    await writeFile(join(project, "package.json"), JSON.stringify({ name: "empty", private: true, type: "module" }));
    await run("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", tarball], { cwd: project });
  }, INSTALL_MS);

  test.for([
    ["24", join(MODULES, "node24/node_modules/node/bin/node")],
    ["26", process.execPath],
  ] as const)(
    "runs the README's example and the command line on Node %s",
    { timeout: INSTALL_MS },
    async ([major, node]) => {
      const bin = join(project, `node-${major}`);
      await mkdir(bin);
      await symlink(node, join(bin, "node"));
      const path = [bin, join(project, "node_modules", ".bin"), process.env.PATH].join(delimiter);
      const env = { HOME: bin, PATH: path };
      const inProject = (command: string, args: readonly string[]): Promise<{ stdout: string; stderr: string }> =>
        run(command, [...args], { cwd: project, env });

      expect((await inProject("node", ["--version"])).stdout).toMatch(new RegExp(`^v${major}\\.`));
      await writeFile(join(project, "example.mjs"), await embeddingExample());
      // Its call has the default limit of 5 s, which a busy machine can exceed.
      await vi.waitFor(async () => {
        expect(await inProject("node", ["example.mjs"])).toEqual({ stdout: "HELLO\n", stderr: "" });
      });

      const adds = `import { defineTool } from "glovebox/tool";
        import { z } from "zod";
        export default defineTool({
          description: "Adds",
          inputSchema: z.object({ a: z.number(), b: z.number() }),
          execute: ({ a, b }) => ({ sum: a + b, url: new URL("/x", "http://a.example").href }),
        });`;
      await writeFile(join(project, "add.ts"), adds);
      const { stdout } = await inProject("glovebox", [
        "run",
        "add.ts",
        "--timeout-ms",
        "60000",
        "--input",
        '{"a":1,"b":2}',
      ]);
      expect(JSON.parse(stdout)).toEqual({ sum: 3, url: "http://a.example/x" });

      const talks = `import { ToolRouter } from "glovebox";
        import { AgentLoop } from "glovebox/agent";
        const router = new ToolRouter();
        router.register("add", {}, ({ a, b }) => a + b);
        const said = (...content) => ({ type: "finish", reason: "stop", message: { role: "assistant", content } });
        const call = { id: "c1", toolName: "add", argumentsText: '{"a":1,"b":2}', kind: "function" };
        const model = async function* ({ messages }) {
          const { result } = messages.at(-1);
          yield result ? said({ type: "text", text: "It is " + result.output }) : said({ type: "tool-call", call });
        };
        const outcome = await new AgentLoop({ model, router }).run({ messages: [{ role: "user", content: "1 + 2?" }] });
        console.log(outcome.status, outcome.text);`;
      await writeFile(join(project, "talks.mjs"), talks);
      expect((await inProject("node", ["talks.mjs"])).stdout).toBe("finished It is 3\n");

      // Pyodide is an optional peer.
      await writeFile(join(project, "count.py"), "def main(input):\n    return 1\n");
      const missing = 'TOOL_UNAVAILABLE: Python tools need the package "pyodide", which is not installed';
      expect(await inProject("glovebox", ["run", "count.py"]).catch((error: unknown) => error)).toMatchObject({
        code: 1,
        stdout: "",
        stderr: expect.stringContaining(missing),
      });

      // Nothing of what they import is installed there.
      const builtin = `import { createGlovebox } from "glovebox";
        const tools = { enabled: true, builtinTools: ["csv-stats", "run-js"] };
        await using glovebox = await createGlovebox({ tools, limits: { timeoutMs: 60_000 } });
        const call = { toolName: "run-js", arguments: { code: "6 * 7" } };
        const [result] = await glovebox.executeBatch([call]);
        console.log((await glovebox.listTools()).map(({ name }) => name).join(), result.output?.result ?? result.error);`;
      await writeFile(join(project, "builtin.mjs"), builtin);
      expect((await inProject("node", ["builtin.mjs"])).stdout).toBe("csv-stats,run-js 42\n");
    },
  );

  test("contains the licenses of the packages in its bundles, and no modules beside them", async () => {
    const dist = join(project, "node_modules/glovebox/dist");
    const licenses = await readFile(join(dist, "lib/LICENSES.txt"), "utf8");
    for (const name of ["ipaddr.js", "kysely", "prom-client", "standardwebhooks", "zod"])
      expect(licenses).toMatch(`${name} `);
    expect(
      await readdir(join(dist, "host/routing")).then((names) => names.filter((name) => name.endsWith(".js"))),
    ).toEqual([]);
  });

  test("contains no part of zod that it does not use, and keeps the names of classes", async () => {
    const dist = join(project, "node_modules/glovebox/dist");
    const names = (await readdir(join(dist, "lib"))).filter((name) => name.endsWith(".js"));
    const texts = await Promise.all(names.map((name) => readFile(join(dist, "lib", name), "utf8")));
    expect(names.filter((_, index) => /function (?:fromJSONSchema|withParser)\b/.test(texts[index] ?? ""))).toEqual([]);
    const { GloveboxClient } = (await import(join(dist, "client/index.js"))) as { GloveboxClient: { name: string } };
    expect(GloveboxClient.name).toBe("GloveboxClient");
  });

  test("runs the server from an empty folder", { timeout: INSTALL_MS }, async () => {
    const script = `import { createServer } from "glovebox/server";
      await using server = await createServer({ port: 0, dataDir: "server-data", logLevel: "silent" });
      for (const path of ["/healthz", "/metrics", "/v1/tenants"]) console.log((await fetch(server.url + path)).status);`;
    await writeFile(join(project, "server.mjs"), script);
    expect((await run(process.execPath, ["server.mjs"], { cwd: project })).stdout).toBe("200\n401\n401\n");
  });

  test("serves the console, whose files it contains", { timeout: INSTALL_MS }, async () => {
    const script = `import { createServer } from "glovebox/server";
      await using server = await createServer({ port: 0, dataDir: "console-data", logLevel: "silent" });
      const page = await (await fetch(server.url + "/console")).text();
      const [path] = /\\/console\\/assets\\/index-[^"]+\\.js/.exec(page);
      const response = await fetch(server.url + path);
      console.log(response.status, response.headers.get("content-type"), (await response.text()).length > 10_000);`;
    await writeFile(join(project, "console.mjs"), script);
    const { stdout } = await run(process.execPath, ["console.mjs"], { cwd: project });
    expect(stdout).toBe("200 text/javascript; charset=utf-8 true\n");
    await writeFile(join(project, "traced.js"), "export default () => 1;");
    const main = join(project, "node_modules/glovebox/dist/cli/main.js");
    await run(process.execPath, [main, "run", "traced.js", "--timeout-ms", "60000", "--trace", "trace.html"], {
      cwd: project,
    });
    expect(await readFile(join(project, "trace.html"), "utf8")).toContain('<div id="app">');
  });
});

const consumers = new Map<"bare" | "peers", Promise<string>>();

/** A program that has installed the tarball. @returns its tsconfig.json */
function consumer(kind: "bare" | "peers"): Promise<string> {
  const write = async (): Promise<string> =>
    await writeConsumer(await realpath(await mkdtemp(join(folder, `${kind}-`))), tarball, MODULES, kind);
  const written = consumers.get(kind) ?? write();
  consumers.set(kind, written);
  return written;
}

/** A Node that is too old for Glovebox, where this machine has one. */
async function findOldNode(): Promise<{ readonly path: string; readonly version: string } | undefined> {
  const folders = ["/usr/bin", "/usr/local/bin", ...(process.env.PATH ?? "").split(delimiter)];
  for (const path of new Set(folders.map((each) => join(each, "node")))) {
    const ended = await run(path, ["--version"]).catch(() => undefined);
    const version = ended?.stdout.trim().replace(/^v/, "") ?? "";
    if (Number.parseInt(version, 10) < 24) return { path, version };
  }
  return undefined;
}

test("an older Node loads every entry, and what needs a newer one reports the required version", {
  timeout: INSTALL_MS,
}, async ({ skip }) => {
  const old = await findOldNode();
  if (old === undefined) return skip("this machine has no Node below 24");
  const cwd = dirname(await consumer("peers"));
  const { exports } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as { exports: object };
  const entries = Object.keys(exports).filter((entry) => entry !== "./package.json");
  const script = `
    for (const entry of ${JSON.stringify(entries)}) await import("glovebox" + entry.slice(1));
    const { createGlovebox, SqliteRunStore } = await import("glovebox");
    const { createServer } = await import("glovebox/server");
    const report = ({ name, code, message }) => console.log(name, code, message);
    await createGlovebox({ nonsense: 1 }).catch(report);
    await createServer({ dataDir: "old-data" }).catch(report);
    try { new SqliteRunStore({ path: "old-runs.sqlite" }); } catch (error) { report(error); }`;
  const said = `glovebox needs Node 24 or newer; this is Node ${old.version}`;
  expect(await run(old.path, ["--input-type=module", "-e", script], { cwd })).toEqual({
    stdout: `ToolError TOOL_UNAVAILABLE ${said}\n`.repeat(3),
    stderr: "",
  });
  const cli = join(cwd, "node_modules/glovebox/dist/cli/main.js");
  expect(await run(old.path, [cli, "--help"]).catch((error: unknown) => error)).toMatchObject({
    code: 2,
    stdout: "",
    stderr: `${said}\n`,
  });
});

describe("its declarations compile with strict and without skipLibCheck", () => {
  const CHECK = join(ROOT, "test/support/check-declarations.ts");

  /** Lines of the compiler that a filter lets through; a compiler that fails without one has failed otherwise. */
  async function compile(tsconfig: string, isOurs: (line: string) => boolean): Promise<readonly string[]> {
    const tsc = join(MODULES, "typescript/bin/tsc");
    const ended = await run(process.execPath, [tsc, "-p", tsconfig, "--pretty", "false", "--singleThreaded"]).catch(
      (error: unknown) => error,
    );
    const { stdout, stderr } = ended as { readonly stdout: string; readonly stderr: string };
    expect(stderr).toBe("");
    return stdout.split("\n").filter((line) => /error TS/.test(line) && isOurs(line));
  }

  test("TypeScript 7, without any optional peer: all declarations, those of its dependencies too", {
    timeout: INSTALL_MS,
  }, async () => {
    expect(await compile(await consumer("bare"), () => true)).toEqual([]);
  });

  test("TypeScript 7, with the optional peers: all that are not a peer's own", { timeout: INSTALL_MS }, async () => {
    // A peer's declarations may have errors of their own: they need a browser's types, or another version of Node's.
    const isOurs = (line: string): boolean =>
      !line.includes("node_modules/") || line.includes("node_modules/glovebox/");
    expect(await compile(await consumer("peers"), isOurs)).toEqual([]);
  });

  // Without the optional peers in one, with them in the other: TypeScript 7 has looked at both, and at the declarations of other packages.
  test("TypeScript 5.9: its own, in a project of the kind peers", { timeout: INSTALL_MS }, async () => {
    const compiler = join(MODULES, "typescript59/node_modules/typescript");
    const tsconfig = await consumer("peers");
    expect(await run(process.execPath, [CHECK, compiler, tsconfig])).toEqual({ stdout: "", stderr: "" });
  });

  // Together with other entries, an entry would see the types that only those refer to.
  test("TypeScript 6: its own, all and each entry alone, in a project of the kind bare", {
    timeout: INSTALL_MS,
  }, async () => {
    const compiler = join(MODULES, "typescript6/node_modules/typescript");
    const all = await consumer("bare");
    const alone = BARE_ENTRIES.map((name) => join(dirname(all), `tsconfig-${name}.json`));
    expect(await run(process.execPath, [CHECK, compiler, all, ...alone])).toEqual({ stdout: "", stderr: "" });
  });
});
