// Hardening of worker processes on this machine, checked against the kernel and by attempting what is forbidden.
import { execFile } from "node:child_process";
import { chmodSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { loadSandboxArtifacts } from "../../../src/bundler/artifacts/sandbox-artifacts.ts";
import { toCommand, type Wrapping } from "../../../src/host/workers/hardening/command.ts";
import { BUILT_IN_LAYERS, LAYER_NAMES, type Layer } from "../../../src/host/workers/hardening/layers.ts";
import { findTool, surveyPrograms } from "../../../src/host/workers/hardening/system-tools.ts";
import { codeOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { launcherOf } from "../../support/launchers.ts";

const MISSING_HERE: readonly Layer[] = await (async () => {
  await using glovebox = await makeGlovebox();
  return LAYER_NAMES.filter((layer) => glovebox.hardening[layer] === "missing");
})();

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
const statusOf = (pid: number): string => readFileSync(`/proc/${pid}/status`, "utf8");
const CASES: readonly (readonly Layer[])[] = [
  [],
  ["seccomp"],
  ["lean-root"],
  ["user"],
  ["user", "lean-root"],
  ["namespaces", "lean-root"],
  ["resource-limits"],
  ["no-new-privileges", "lean-root"],
  ["user", "namespaces", "lean-root", "resource-limits", "no-new-privileges", "parent-death-signal"],
];

test.skipIf(findTool("ldd") === undefined || findTool("setpriv") === undefined)(
  "the libraries of a lean root are those that ldd finds",
  async () => {
    const files = [realpathSync(process.execPath), findTool("setpriv") ?? ""];
    const { stdout } = await promisify(execFile)("ldd", files);
    const expected = stdout.split("\n").flatMap((line) => /(\/\S+) \(0x/.exec(line)?.[1] ?? []);
    const { libraries } = await surveyPrograms(files);
    expect(new Set(libraries)).toEqual(new Set(expected));
    // A file that is no program makes the shell fail, and does not hide GNU env.
    const { env } = await surveyPrograms(files);
    expect(await surveyPrograms([import.meta.filename])).toEqual({ env, libraries: [] });
  },
);

describe("createGlovebox({ hardening })", () => {
  const CACHE = mkdtempSync(join(tmpdir(), "glovebox-hardening-"));
  afterAll(() => rmSync(CACHE, { recursive: true, force: true }));

  test.for(CASES)("runs tools without %j, and reports it", async (without) => {
    await using glovebox = await makeGlovebox({ cache: { directory: CACHE }, hardening: { without } });
    await glovebox.addTool({ name: "add", source: "export default ({ a, b }) => a + b" });
    const result = await glovebox.execute({ id: "c", toolName: "add", arguments: { a: 1, b: 2 } });
    expect(outputOf(result)).toBe(3);
    for (const layer of without) expect(glovebox.hardening[layer]).not.toBe("holds");
    for (const layer of BUILT_IN_LAYERS) expect(glovebox.hardening[layer]).toBe("holds");
  });

  test("names each required layer that is missing, and how to get it", async () => {
    const required: readonly Layer[] = ["lean-root", "seccomp"];
    const error = await failureOf(makeGlovebox({ hardening: { require: required, without: ["lean-root"] } }));
    expect(error.code).toBe("TOOL_UNAVAILABLE");
    expect(error.message).toContain("lean-root (install bubblewrap");
    expect(error.details).toEqual({ reason: "unsupported", missing: ["lean-root", "seccomp"] });
  });

  test("strict starts only where every layer works", async () => {
    const attempt = makeGlovebox({ hardening: "strict" });
    if (MISSING_HERE.length > 0) {
      expect((await failureOf(attempt)).details).toEqual({ reason: "unsupported", missing: MISSING_HERE });
      return;
    }
    await using glovebox = await attempt;
    expect(Object.values(glovebox.hardening)).not.toContain("missing");
  });

  test("names the invalid option", async () => {
    const error = await failureOf(makeGlovebox({ hardening: { require: ["moat" as Layer] } }));
    expect(error.code).toBe("PARAM_INVALID");
    expect(error.message).toContain("options.hardening");
    expect(error.message).toContain("lean-root");
  });

  test("jitless runs tools, with code caches of its own", async () => {
    const source = "export default () => { let sum = 0; for (let n = 0; n < 1e4; n += 1) sum += n; return sum; }";
    for (const hardening of [{ jitless: true }, "auto"] as const) {
      await using glovebox = await makeGlovebox({ hardening });
      await glovebox.addTool({ name: "sum", source });
      expect(outputOf(await glovebox.execute({ id: "c", toolName: "sum" }))).toBe(49_995_000);
    }
  });
});

describe("a worker process", () => {
  test("has the layers that its report names, according to the kernel", async () => {
    await using glovebox = await makeGlovebox();
    await glovebox.addTool({ name: "one", source: "export default () => 1" });
    expect(codeOf(await glovebox.execute({ id: "c", toolName: "one" }))).toBe("ok");
    const { hardening } = glovebox;
    for (const pid of glovebox.workerPids) {
      const status = statusOf(pid);
      if (hardening.user === "holds") expect(status).toMatch(/^Uid:\t(6\d{4})\t\1\t\1\t\1$/m);
      if (hardening["no-new-privileges"] === "holds") expect(status).toMatch(/^NoNewPrivs:\t1$/m);
      if (hardening.seccomp === "holds") expect(status).toMatch(/^Seccomp:\t2$/m);
      if (process.getuid?.() === 0) expect(status).toMatch(/^CapEff:\t0+$/m);
    }
  });

  test("does not disclose the host's location to a guest, not even its time zone", async () => {
    await using glovebox = await makeGlovebox();
    const source =
      "export default () => [new Date(0).getTimezoneOffset(), Intl.DateTimeFormat().resolvedOptions().timeZone]";
    await glovebox.addTool({ name: "zone", source });
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "zone" }))).toEqual([0, "UTC"]);
  });

  test("survives a signal to the whole process group, because the host still has calls to finish", async () => {
    await using glovebox = await makeGlovebox();
    const source = `export default async () => { console.log("begun"); await new Promise((done) => setTimeout(done, 300)); return 1; }`;
    await glovebox.addTool({ name: "wait", source });
    const begun = Promise.withResolvers<void>();
    const call = glovebox.execute({ id: "c", toolName: "wait" }, { timeoutMs: 60_000, onLog: () => begun.resolve() });
    onTestFinished(async () => void (await call));
    await begun.promise;
    for (const pid of glovebox.workerPids) {
      process.kill(pid, "SIGTERM");
      process.kill(pid, "SIGINT");
    }
    expect(outputOf(await call)).toBe(1);
  });
});

describe("Launcher", () => {
  test("drops layer by layer, and never the ones built into Node", async () => {
    const { workerPath } = await loadSandboxArtifacts();
    using launcher = await launcherOf(workerPath);
    let before = launcher.layers.size;
    while (launcher.dropLayers()) {
      expect(launcher.layers.size).toBeLessThan(before);
      before = launcher.layers.size;
    }
    expect([...launcher.layers]).toEqual([...BUILT_IN_LAYERS]);
  });
});

describe("a process that is killed while it starts", () => {
  test.each(["host", "spawner"] as const)(
    "leaves none of its wrappers behind at any moment, started by the %s",
    async (parent) => {
      const folder = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-early-end-")));
      chmodSync(folder, 0o755);
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      const script = join(folder, "worker.mjs");
      // Ends without its host, as a worker does.
      const ends =
        'import { Socket } from "node:net"; new Socket({ fd: 3 }).on("close", () => process.exit()).resume();';
      writeFileSync(script, ends);
      using launcher = await launcherOf(script, parent);
      const sockets: Socket[] = [];
      for (let delayMs = 0; delayMs < 30; delayMs += 1.5) {
        const launched = launcher.launch({
          onConnected: (socket) => {
            sockets.push(socket.on("error", () => {}).resume());
          },
          onExit: () => {},
          onClose: () => {},
        });
        await new Promise((resolve) => setTimeout(resolve, delayMs));
        launched.kill();
        // Closes the channel, as the host does to end the process.
        for (const socket of sockets.splice(0)) socket.destroy();
      }
      const left = (): readonly string[] =>
        readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(folder));
      await vi.waitFor(() => expect(left()).toEqual([]), { interval: 50 });
    },
  );
});

describe("toCommand()", () => {
  const wrapping = (layers: readonly Layer[], isRoot: boolean): Wrapping => ({
    layers: new Set(layers),
    tools: { prlimit: "/prlimit", setpriv: "/setpriv", unshare: "/unshare", bwrap: "/bwrap", env: undefined },
    isRoot,
    uid: 61_200,
    files: [{ path: "/lib/a.so", real: "/usr/lib/a.so" }],
    cwd: "/app",
    dataBytes: 1_000,
    diesWithParent: true,
  });
  const ORDER = ["/prlimit", "/bwrap", "/unshare", "/setpriv", "node"];
  const chain = (layers: readonly Layer[], isRoot: boolean): readonly string[] =>
    toCommand(wrapping(layers, isRoot), ["node"]).filter((part) => ORDER.includes(part));

  test.for([
    [[], true, ["node"]],
    [["resource-limits"], true, ["/prlimit", "node"]],
    [["no-new-privileges"], false, ["/setpriv", "node"]],
    [["namespaces", "no-new-privileges"], false, ["/unshare", "/setpriv", "node"]],
    [["namespaces", "lean-root"], false, ["/unshare", "/bwrap", "node"]],
    [
      ["resource-limits", "user", "namespaces", "lean-root"],
      true,
      ["/prlimit", "/unshare", "/bwrap", "/setpriv", "node"],
    ],
    [["parent-death-signal", "namespaces", "lean-root"], false, ["/setpriv", "/unshare", "/bwrap", "node"]],
  ] as const)("%j as root %s: %j", ([layers, isRoot, expected]) => {
    expect(chain(layers, isRoot)).toEqual(expected);
  });

  test("enters a user namespace only if the host is not root", () => {
    expect(toCommand(wrapping(["namespaces", "lean-root"], true), ["node"])).not.toContain("--unshare-user");
    expect(toCommand(wrapping(["namespaces", "lean-root"], false), ["node"])).toContain("--unshare-user");
  });
});

describe("a worker's descriptors", () => {
  test("do not include descriptors that the host inherited from its parent", async () => {
    const script = `
      import { readdirSync, readlinkSync } from "node:fs";
      import { createGlovebox } from ${JSON.stringify(new URL("../../../src/host/index.ts", import.meta.url).href)};
      await using glovebox = await createGlovebox({ cache: false, workers: { warmProcesses: 0 }, limits: { timeoutMs: 60_000 } });
      await glovebox.addTool({ name: "one", source: "export default () => 1" });
      await glovebox.execute({ id: "c", toolName: "one" });
      const [pid] = glovebox.workerPids;
      console.log(readdirSync("/proc/" + pid + "/fd").some((fd) => readlinkSync("/proc/" + pid + "/fd/" + fd) === "/etc/hostname"));
    `;
    const shell = `exec "$0" --input-type=module -e "$1" 77</etc/hostname`;
    const { stdout } = await promisify(execFile)("sh", ["-c", shell, process.execPath, script]);
    expect(stdout.trim()).toBe("false");
  });
});
