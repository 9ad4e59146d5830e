// Processes started by a spawner: the host gets the same events as for its own, and nothing depends on the spawner's life.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { childrenOf, startTimeOf } from "../../../src/host/workers/health/process-meter.ts";
import type { LaunchedProcess } from "../../../src/host/workers/spawn/launched-process.ts";
import { killProcess } from "../../../src/host/workers/spawn/process-identity.ts";
import type { ProcessStarter } from "../../../src/host/workers/spawn/process-starter.ts";
import type { SpawnCommand } from "../../../src/host/workers/spawn/spawn-command.ts";
import { type Parent, starterBy } from "../../support/launchers.ts";
import { commandOf } from "../../support/process-tree.ts";
import { expectDead } from "../../support/processes.ts";

/** Echoes its input, and ends with its socket, as a worker does. */
const ECHO =
  'new (require("node:net").Socket)({ fd: 3 }).on("close", () => process.exit()).on("data", function (data) { this.write(data); });';

const commandOfScript = (script: string): SpawnCommand => ({
  argv: [process.execPath, "-e", script],
  cwd: "/",
  env: {},
  detached: false,
  niceness: 0,
  filter: undefined,
});

/** The state of a process as the kernel names it: `T` if it is stopped. */
const stateOf = (pid: number): string | undefined => / ([A-Z]) /.exec(readFileSync(`/proc/${pid}/stat`, "latin1"))?.[1];

/** Blocks this process until a condition holds. */
function blockUntil(condition: () => boolean): void {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  while (!condition()) Atomics.wait(cell, 0, 0, 10);
}

interface Started {
  readonly launched: LaunchedProcess;
  readonly socket: Promise<Socket | undefined>;
  readonly exited: Promise<void>;
  readonly closed: Promise<void>;
  /** Sockets of the process. There must be one. */
  readonly sockets: readonly Socket[];
}

function start(starter: ProcessStarter, script: string): Started {
  const socket = Promise.withResolvers<Socket | undefined>();
  const exited = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  const sockets: Socket[] = [];
  const listener = {
    onConnected: (connected: Socket) => {
      sockets.push(connected);
      socket.resolve(connected.on("error", () => {}).resume());
    },
    onExit: () => {
      socket.resolve(undefined);
      exited.resolve();
    },
    onClose: closed.resolve,
  };
  const launched = starter.start(() => commandOfScript(script), listener);
  onTestFinished(() => launched.kill());
  return { launched, socket: socket.promise, exited: exited.promise, closed: closed.promise, sockets };
}

async function echo(socket: Socket | undefined, text: string): Promise<string> {
  socket?.write(text);
  const [data] = await once(socket as Socket, "data");
  return String(data);
}

const spawners = (): readonly number[] =>
  childrenOf(process.pid).filter((pid) => /\/spawner-entry\.(ts|js) \d+$/.test(commandOf(pid)));

/** The only spawner. */
async function spawnerPid(): Promise<number> {
  return await vi.waitFor(() => {
    const [pid, ...others] = spawners();
    expect([typeof pid, others]).toEqual(["number", []]);
    return pid as number;
  });
}

describe.each<Parent>(["host", "spawner"])("a process that the %s starts", (parent) => {
  test("has a channel, and reports its end", async () => {
    using starter = starterBy(parent);
    const { launched, socket, exited, closed } = start(starter, ECHO);
    expect(await echo(await socket, "hello")).toBe("hello");
    expect(launched.ending).toBeUndefined();
    launched.kill();
    await exited;
    await closed;
    expect(launched.ending).toMatchObject({ code: null, signal: "SIGKILL" });
  });

  test("reports its exit code and its last output on stderr", async () => {
    using starter = starterBy(parent);
    const { launched, closed } = start(
      starter,
      'console.error("x".repeat(9_000) + "last words"); process.exitCode = 7;',
    );
    await closed;
    const { code, signal, diagnostics = "" } = launched.ending ?? {};
    expect([code, signal, diagnostics.trim().slice(-12), diagnostics.length]).toEqual([7, null, "xxlast words", 4_096]);
  });

  test("does not outlive a kill that comes before it runs", async () => {
    using starter = starterBy(parent);
    const { launched, exited } = start(starter, ECHO);
    launched.kill();
    await exited;
    expect(launched.ending?.signal ?? "SIGKILL").toBe("SIGKILL");
  });

  test("reports that it could not be started if there is no such program", async () => {
    using starter = starterBy(parent);
    const onClose = Promise.withResolvers<void>();
    const launched = starter.start(() => ({ ...commandOfScript(""), argv: ["/nowhere/at-all"] }), {
      onConnected: () => {},
      onExit: () => {},
      onClose: onClose.resolve,
    });
    await onClose.promise;
    expect(launched.ending).toMatchObject({ signal: null });
    expect(launched.connection).toBeUndefined();
  });
});

describe("when the spawner", () => {
  test("dies, running processes continue and can be ended, and pending ones are started", async () => {
    using starter = starterBy("spawner");
    const first = start(starter, ECHO);
    const socket = await first.socket;
    process.kill(await spawnerPid(), "SIGSTOP");
    const second = start(starter, ECHO);
    process.kill(await spawnerPid(), "SIGKILL");
    expect(await echo(await second.socket, "two")).toBe("two");
    expect(await echo(socket, "one")).toBe("one");
    first.launched.kill();
    await first.closed;
    await expectDead([first.launched.connection?.pid ?? 0]);
  });

  test("dies twice, processes of the first one are still ended by the third", async () => {
    const starter = starterBy("spawner");
    const first = start(starter, "setInterval(() => {}, 1_000)");
    await first.socket;
    const pid = first.launched.connection?.pid ?? 0;
    for (let deaths = 0; deaths < 2; deaths += 1) {
      const spawner = await spawnerPid();
      process.kill(spawner, "SIGKILL");
      await vi.waitFor(() => expect(spawners()).not.toContain(spawner));
    }
    await start(starter, ECHO).socket;
    starter[Symbol.dispose]();
    await expectDead([pid]);
    await first.closed;
  });

  test("dies without free file descriptors, the host continues, and starts another one later", async () => {
    const script = fileURLToPath(new URL("../../support/spawner-script.ts", import.meta.url));
    const child = spawn("sh", ["-c", `ulimit -n 128; exec "${process.execPath}" "${script}"`], {
      stdio: ["ignore", "pipe", "inherit"],
      timeout: 240_000,
      killSignal: "SIGKILL",
    });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    await once(child, "close");
    expect(stdout).toBe("alive\nreplaced\n");
  });

  test("stops answering, it is replaced within seconds", async () => {
    using starter = starterBy("spawner");
    await start(starter, ECHO).socket;
    const stopped = await spawnerPid();
    process.kill(stopped, "SIGSTOP");
    expect(await echo(await start(starter, ECHO).socket, "still")).toBe("still");
    await expectDead([stopped]);
  });

  test("is given up while its answer arrives, the process that it has started ends, and the host's own one is used", async () => {
    using starter = starterBy("spawner");
    await start(starter, ECHO).socket;
    const spawner = await spawnerPid();
    const before = childrenOf(spawner);
    // The next phase of the event loop is that of timers: the check of the spawner comes before its answer is read.
    await new Promise(setImmediate);
    const second = start(starter, ECHO);
    let started = 0;
    blockUntil(() => {
      started = childrenOf(spawner).find((pid) => !before.includes(pid)) ?? 0;
      return started !== 0;
    });
    const CHECK_MS = 250;
    const sentBy = performance.now() + 2 * CHECK_MS;
    blockUntil(() => performance.now() > sentBy && stateOf(spawner) === "S");
    process.kill(spawner, "SIGSTOP");
    blockUntil(() => stateOf(spawner) === "T");
    expect(await echo(await second.socket, "two")).toBe("two");
    await expectDead([spawner, started]);
    expect(second.sockets).toHaveLength(1);
    second.launched.kill();
    await second.closed;
    await vi.waitFor(() => expect(childrenOf(process.pid).filter((pid) => commandOf(pid).includes(ECHO))).toEqual([]));
  });

  test("is disposed, it ends together with everything that it has started", async () => {
    const starter = starterBy("spawner");
    const { launched, closed } = start(starter, 'setInterval(() => {}, 1_000); require("node:net");');
    await vi.waitFor(() => expect(launched.connection).toBeDefined());
    const pid = await spawnerPid();
    starter[Symbol.dispose]();
    starter[Symbol.dispose]();
    await expectDead([pid, launched.connection?.pid ?? 0]);
    await closed;
  });
});

describe("killProcess()", () => {
  async function sleeper(): Promise<ChildProcess & { readonly pid: number }> {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1_000)"], { stdio: "ignore" });
    await once(child, "spawn");
    onTestFinished(() => {
      child.kill("SIGKILL");
    });
    return child as ChildProcess & { readonly pid: number };
  }

  test("ends the given process", async () => {
    const { pid } = await sleeper();
    killProcess({ pid, startTime: startTimeOf(pid) ?? "" });
    await expectDead([pid]);
  });

  test("does not affect a later process with the same pid", async () => {
    const child = await sleeper();
    killProcess({ pid: child.pid, startTime: "1" });
    // A signal would have been delivered by then. Its absence can only be awaited.
    await pause(100);
    expect([child.exitCode, child.signalCode]).toEqual([null, null]);
  });
});
