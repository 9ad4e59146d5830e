// How the command line ends as a process: readers that leave, full disks, closed descriptors, signals at every moment, inputs that cannot
// be read. It never prints a stack and never leaves a process behind.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { chmod, symlink, writeFile } from "node:fs/promises";
import { Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { sampleAttacks } from "../support/attack-sample.ts";
import { type CliEnd, enterFolder, runInProcess } from "../support/cli-in-process.ts";
import { CliProcess, cliEnvironment, MAIN } from "../support/cli-process.ts";
import { DevToolsClient } from "../support/devtools-client.ts";
import { treeOf } from "../support/process-tree.ts";
import { expectDead } from "../support/processes.ts";

/** Each test starts several processes; on a busy machine that takes its time. */
const PATIENCE_MS = 240_000;
/** A tool has more time than its default, for a machine that is busy. */
const SLOW = ["--timeout-ms", "60000"];

const SOURCES: { readonly [file: string]: string } = {
  "add.ts": "export default ({ a = 1 }: { a?: number }) => ({ a });",
  "many.ts": 'export default async function* () { for (let n = 0; ; n += 1) yield "x".repeat(100) + n; }',
  "noisy.ts": 'export default async () => { for (;;) { console.log("x".repeat(1000)); await null; } };',
  "spins.ts": "export default () => { console.log('spinning'); for (;;); };",
  "slow-top.ts": "for (;;);\nexport default () => 1;",
};
const BAD_UTF8 = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]);
let folder = "";
let leave: () => Promise<void>;
beforeAll(async () => {
  ({ folder, leave } = await enterFolder(SOURCES));
  await writeFile("bad-utf8.json", BAD_UTF8);
});
afterAll(() => leave());

/** Runs a line of bash in which `glovebox` is the command; its exit code is the first one of the line's last pipe. */
async function bash(line: string): Promise<CliEnd> {
  const script = `glovebox() { "$NODE" "$MAIN" "$@"; }; ${line}; exit "\${PIPESTATUS[0]}"`;
  const env = { ...cliEnvironment(folder), PATH: process.env.PATH, NODE: process.execPath, MAIN, SLOW: SLOW.join(" ") };
  const child = spawn("bash", ["-c", script], { cwd: folder, env });
  child.stdin.on("error", () => {}).end();
  const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  return { code, stdout, stderr };
}

const STACK = /^ {4}at |node:internal|Unhandled/m;

describe("a reader that leaves", () => {
  test.for<[line: string, stdout: RegExp]>([
    ["glovebox run many.ts --timeout-ms 60000 | head -1", /^"x{100}0"\n$/],
    ["glovebox run $SLOW add.ts | true", /^$/],
    ["glovebox --help | true", /^$/],
    ["glovebox help | head -0", /^$/],
    ["glovebox run noisy.ts --timeout-ms 60000 2>&1 >/dev/null | head -1", /^info {2}x{1000}\n$/],
    ["glovebox run --bogus 2>&1 | true", /^$/],
  ])("ends %s quietly with 141", async ([line, stdout]) => {
    const end = await bash(line);
    expect(end).toMatchObject({ stderr: "", stdout: expect.stringMatching(stdout) });
    // A short answer may be written before its reader has gone.
    const isShort = /true$|head -0$/.test(line);
    expect(isShort ? [0, 2, 141] : [141]).toContain(end.code);
  });

  test.for<[args: readonly string[]]>([
    [["--version"]],
    [["run", "many.ts", "--timeout-ms", "60000"]],
    [["inspect", "add.ts", "--json"]],
    [["types", "add.ts"]],
  ])("ends %j with 141 when its output answers EPIPE", async ([args]) => {
    const stdout = new Writable({
      write: (_chunk, _encoding, done) => done(Object.assign(new Error("write EPIPE"), { code: "EPIPE" })),
    });
    expect(await runInProcess(args, { stdout })).toEqual({ code: 141, stdout: "", stderr: "" });
  });

  test("ends glovebox dev with 141 at its next output", async () => {
    const child = spawn(process.execPath, [MAIN, "dev", ...SLOW, "add.ts"], {
      cwd: folder,
      env: cliEnvironment(folder),
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    child.stdout.destroy();
    const stderr = text(child.stderr);
    expect(await once(child, "exit")).toEqual([141, null]);
    expect(await stderr).not.toMatch(STACK);
  });

  test("ends glovebox mcp with 0: its client has gone", async () => {
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "raw", version: "1" } };
    const message = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
    const child = spawn(process.execPath, [MAIN, "mcp", ...SLOW, "add.ts"], {
      cwd: folder,
      env: cliEnvironment(folder),
    });
    child.stdin.on("error", () => {});
    child.stdout.destroy();
    const exit = once(child, "exit");
    child.stdin.write(`${message}\n`);
    expect(await text(child.stderr)).toBe("");
    expect(await exit).toEqual([0, null]);
  });
});

describe("an output that cannot be written", () => {
  const FULL = /^glovebox: Cannot write to stdout: ENOSPC[^\n]*\n$/;
  test.for<[line: string, stderr: RegExp]>([
    ["glovebox --help >/dev/full", FULL],
    ["glovebox run $SLOW add.ts >/dev/full", FULL],
    ["glovebox dev $SLOW add.ts >/dev/full 2>errors.txt; code=$?; grep glovebox: errors.txt >&2; (exit $code)", FULL],
    ["glovebox run $SLOW add.ts >/dev/full 2>/dev/full", /^$/],
    ["glovebox run gone.ts 2>/dev/full", /^$/],
  ])("%s gives one message and exits with 1", async ([line, stderr]) => {
    expect(await bash(line)).toEqual({ code: 1, stdout: "", stderr: expect.stringMatching(stderr) });
  });

  test.for<[args: readonly string[]]>([
    [["run", ...SLOW, "add.ts", "--json"]],
    [["run", "many.ts", "--timeout-ms", "60000"]],
    [["inspect", "add.ts"]],
  ])("%j to a full disk gives one message and exits with 1", async ([args]) => {
    const end = await runInProcess(args, { stdout: createWriteStream("/dev/full") });
    expect(end).toEqual({ code: 1, stdout: "", stderr: expect.stringMatching(FULL) });
  });

  test("a declaration file on a full disk gives one message and exit code 1", async () => {
    const message = "glovebox: --out /dev/full cannot be written: ENOSPC\n";
    expect(await runInProcess(["types", "add.ts", "--out", "/dev/full"])).toEqual({
      code: 1,
      stdout: "",
      stderr: message,
    });
  });

  test.for<[line: string, end: CliEnd]>([
    ["glovebox run $SLOW add.ts </dev/null 2>&-", { code: 0, stdout: '{"a":1}\n', stderr: "" }],
    ["glovebox run $SLOW add.ts <&- >&- 2>&-", { code: 0, stdout: "", stderr: "" }],
    ["glovebox mcp $SLOW add.ts </dev/null", { code: 0, stdout: "", stderr: "" }],
  ])("%s works with closed and empty descriptors", async ([line, end]) => {
    expect(await bash(line)).toEqual(end);
  });
});

describe("an input that cannot be read", () => {
  beforeAll(async () => {
    await symlink("loop.json", "loop.json");
    await writeFile("secret.json", "{}");
    await chmod("secret.json", 0);
  });

  const LONG = "a".repeat(5_000);
  const TOO_MANY = "expected at most 67108864 bytes, got more";

  function expectOneMessage({ code, stdout, stderr }: CliEnd, message: RegExp): void {
    expect(stderr).toMatch(message);
    expect(stderr).not.toMatch(STACK);
    expect(stdout).toBe("");
    expect([1, 2]).toContain(code);
  }

  test.for<[what: string, args: readonly string[], message: RegExp, stdin?: string | Buffer]>([
    ["a missing file", ["--input-file", "gone.json"], /--input-file gone\.json: there is no such file/],
    ["a folder", ["--input-file", "."], /--input-file \.: it is a folder/],
    ["a link to itself", ["--input-file", "loop.json"], /--input-file loop\.json: cannot be read \(ELOOP\)/],
    ["a file that is not UTF-8", ["--input-file", "bad-utf8.json"], /--input-file bad-utf8\.json is not UTF-8 text/],
    ["an endless file", ["--input-file", "/dev/zero"], new RegExp(`--input-file /dev/zero: ${TOO_MANY}`)],
    ["stdin that is not UTF-8", ["-"], /stdin is not UTF-8 text/, BAD_UTF8],
    ["stdin that is not JSON", ["-"], /stdin is not JSON: [^\n]*\\u001b\[2J/, '{"a":\u001b[2J'],
  ])("%s is one message and no stack", async ([, args, message, stdin]) => {
    expectOneMessage(await runInProcess(["run", ...SLOW, "add.ts", ...args], { stdin }), message);
  });

  test.for(["run", "inspect", "types", "test"])("%s with a path that is too long is one message", async (command) => {
    expectOneMessage(await runInProcess([command, LONG]), /There is no file or folder|ENAMETOOLONG/);
  });

  test.for<[line: string, message: RegExp]>([
    ["glovebox run $SLOW add.ts - < <(yes)", new RegExp(`stdin: ${TOO_MANY}`)],
    ["glovebox run $SLOW add.ts - <&-", /stdin is not JSON/],
    ["glovebox run $SLOW add.ts - <bad-utf8.json", /stdin is not UTF-8 text/],
    ["mkdir left; cd left; rmdir ../left; glovebox run $SLOW add.ts", /uv_cwd|There is no file/],
  ])("%s is one message and no stack, of a process too", async ([line, message]) => {
    expectOneMessage(await bash(line), message);
  });

  test.skipIf(process.getuid?.() === 0)(
    "a file without permission is one message (skipped for root, who may read it)",
    async () => {
      const { code, stderr } = await bash("glovebox run $SLOW add.ts --input-file secret.json");
      expect([code, stderr]).toEqual([2, expect.stringContaining("--input-file secret.json: permission denied")]);
    },
  );
});

describe("a signal", () => {
  const SIGNALS = { SIGINT: 130, SIGTERM: 143 } as const;

  interface Ended {
    readonly code: number | null;
    readonly signal: NodeJS.Signals | null;
    readonly stderr: string;
  }

  /** Starts a command, sends the signal when `when` resolves, and sees that nothing of it is left. */
  async function stopped(
    args: readonly string[],
    signal: NodeJS.Signals,
    when: (stderr: () => string) => Promise<unknown>,
  ): Promise<Ended> {
    const child = spawn(process.execPath, [MAIN, ...args], { cwd: folder, env: cliEnvironment(folder) });
    let stderr = "";
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      stderr += chunk;
    });
    child.stdout.resume();
    const exit = once(child, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
    await when(() => stderr);
    const pids = treeOf(child.pid ?? -1);
    child.kill(signal);
    const [code, by] = await exit;
    await expectDead(pids, PATIENCE_MS);
    return { code, signal: by, stderr };
  }

  const says = (pattern: RegExp) => (stderr: () => string) =>
    expect.poll(stderr, { timeout: PATIENCE_MS, interval: 1 }).toMatch(pattern);

  test.for(["SIGINT", "SIGTERM"] as const)(
    "%s ends dev --inspect in order before the glovebox is up",
    async (signal) => {
      // The server for DevTools opens first: its line says that the glovebox is still to come.
      const end = await stopped(["dev", "add.ts", "--inspect=0"], signal, says(/DevTools can attach/));
      expect(end.stderr).not.toMatch(STACK);
      expect(end.signal).toBeNull();
      expect([SIGNALS[signal], 0]).toContain(end.code);
    },
  );

  test("ends dev --inspect in order although a client has connected before the glovebox is up", async () => {
    await using dev = new CliProcess(["dev", "add.ts", "--inspect=0"], folder);
    const [, url = ""] = await dev.says("stderr", /DevTools can attach at (ws:\S+)/);
    await using client = await DevToolsClient.connect(url);
    client.sendText("{");
    client.sendText(
      `{"id":1,"method":"Debugger.setBreakpointByUrl","params":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}`,
    );
    const enabled = client.send("Debugger.enable").catch(() => "over");
    dev.signal("SIGINT");
    expect([130, 0]).toContain(await dev.exit);
    await Promise.race([enabled, pause(0)]);
    expect(dev.stderr).not.toMatch(STACK);
  });

  const COMMANDS: readonly (readonly string[])[] = [
    ["run", "spins.ts", "--timeout-ms", "60000"],
    ["dev", "slow-top.ts", "--inspect=0", "--timeout-ms", "60000"],
    ["inspect", "slow-top.ts"],
    ["types", "slow-top.ts"],
    ["mcp", "add.ts", "--http", "0"],
    ["doctor"],
  ];

  test.for(COMMANDS.map((args, index) => [args, index] as const))(
    "ends %j in order at any moment of its start-up",
    async ([args, offset]) => {
      // The moments are chosen by the clock; what is expected holds at each of them. Every other one for every other command.
      for (const [index, delayMs] of sampleAttacks([0, 150, 500, 1_200], offset, 2).entries()) {
        const signal = index % 2 === 0 ? "SIGINT" : "SIGTERM";
        const end = await stopped(args, signal, () => pause(delayMs));
        // The signal itself ends the process only before its code runs; dev and mcp exit with 0 once they are ready.
        const isStopped = end.signal === signal || end.code === SIGNALS[signal];
        const isUp = end.code === 0 && /^(dev|mcp)$/.test(args[0] ?? "");
        // A doctor that has all its answers ends by itself, and the signal may come later.
        const isOver = end.signal === null && args[0] === "doctor" && [0, 1].includes(end.code ?? -1);
        expect([isStopped || isUp || isOver, end]).toEqual([true, end]);
        expect(end.stderr).not.toMatch(STACK);
      }
    },
  );

  test("ends a call that reads endless stdin", async () => {
    const child = spawn(process.execPath, [MAIN, "run", ...SLOW, "add.ts", "-"], {
      cwd: folder,
      env: cliEnvironment(folder),
    });
    child.stdin.on("error", () => {}).write('{"a":');
    const exit = once(child, "exit");
    // Reading begins when the tool has been built by a worker.
    await expect.poll(() => treeOf(child.pid ?? -1).length, { timeout: PATIENCE_MS }).toBeGreaterThan(1);
    child.kill("SIGINT");
    expect(await exit).toEqual([130, null]);
    expect(await text(child.stderr)).not.toMatch(STACK);
  });

  test("prints a CANCELLED result for run --json", async () => {
    const child = spawn(process.execPath, [MAIN, "run", "slow-top.ts", "--json", "--timeout-ms", "60000"], {
      cwd: folder,
      env: cliEnvironment(folder),
    });
    const stdout = text(child.stdout);
    const exit = once(child, "exit");
    await expect.poll(() => treeOf(child.pid ?? -1).length, { timeout: PATIENCE_MS }).toBeGreaterThan(1);
    child.kill("SIGTERM");
    expect((await exit)[0]).toBe(143);
    const printed = await stdout;
    if (printed !== "") expect(JSON.parse(printed)).toMatchObject({ success: false, error: { code: "CANCELLED" } });
  });
});
