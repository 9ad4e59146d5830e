// The host's side of its spawner: sends start requests, receives sockets, and detects a spawner that has died or hangs.
import { type ChildProcess, fork } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { ProcessMeter } from "../health/process-meter.ts";
import type { IdlePolicy } from "./idle-policy.ts";
import { type LaunchedProcess, UNKNOWN_ENDING } from "./launched-process.ts";
import { isAlive, killProcess, type ProcessIdentity } from "./process-identity.ts";
import type { SpawnCommand } from "./spawn-command.ts";
import type { SpawnerReply, SpawnerRequest } from "./spawner-protocol.ts";

/** Entry file, as `.ts` source or built `.js`. */
const ENTRY = new URL(`./spawner-entry${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);
const CHECK_MS = 250;
/**
 * Checks without an answer after which the spawner counts as hung. It normally starts a process in a few milliseconds.
 * Checks are counted instead of time, because a blocked host cannot receive answers.
 */
const MAX_MISSED_CHECKS = 8;
/** The same until its first answer: on a busy machine, Node.js takes seconds to start, and replacing the spawner would begin anew. */
const MAX_CHECKS_AT_START = 40;
/** Longest time in ms to end by itself; it normally takes 1 ms. */
const END_MS = 2_000;
/** Small limits: the spawner keeps a few dozen descriptors and no data. */
const NODE_FLAGS = ["--max-semi-space-size=1", "--max-old-space-size=64"];

/**
 * Returns the spawner's environment. Workers must inherit nothing from the host; the compile cache only speeds up the
 * spawner's start.
 */
function environment(): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE } = process.env;
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
}

/** A process to start. `commandFor` builds its command for the parent that starts it. */
export interface StartOrder {
  readonly commandFor: (parent: "host" | "spawner") => SpawnCommand;
  readonly launched: LaunchedProcess;
}

/** Processes of a spawner that has died or hangs. */
export interface OrphanedWork {
  readonly unstarted: readonly StartOrder[];
  readonly running: readonly ProcessIdentity[];
  /** Whether the spawner ever ran. Otherwise `running` contains only the processes that it was to adopt. */
  readonly hasLived: boolean;
}

export class Spawner implements Disposable {
  readonly #child: ChildProcess;
  readonly #onGone: (orphaned: OrphanedWork) => void;
  readonly #unstarted = new Map<number, StartOrder & { checks: number }>();
  readonly #running = new Map<number, { readonly launched: LaunchedProcess; readonly identity: ProcessIdentity }>();
  readonly #adopted: ProcessIdentity[] = [];
  readonly #meter: ProcessMeter;
  readonly #checkTimer: NodeJS.Timeout;
  #lastId = 0;
  #hasAnswered = false;
  #hasEnded = false;

  /** @param onGone called once, unless the spawner is disposed first */
  constructor(onGone: (orphaned: OrphanedWork) => void) {
    this.#onGone = onGone;
    this.#child = fork(fileURLToPath(ENTRY), [String(process.pid)], {
      env: environment(),
      execArgv: NODE_FLAGS,
      serialization: "advanced",
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    for (const event of ["error", "exit", "disconnect"]) this.#child.on(event, () => this.#giveUp());
    this.#child.on("message", (reply: SpawnerReply, handle: unknown) => this.#receive(reply, handle));
    this.#child.unref();
    this.#child.channel?.unref();
    this.#meter = new ProcessMeter(this.#child.pid ?? 0);
    this.#checkTimer = setInterval(() => this.#checkHealth(), CHECK_MS).unref();
  }

  start(order: StartOrder): void {
    this.#lastId += 1;
    this.#unstarted.set(this.#lastId, { ...order, checks: 0 });
    // A call waits for this process, so the host must stay alive until it is there.
    this.#child.channel?.ref();
    this.#send({ type: "start", id: this.#lastId, command: order.commandFor("spawner") });
  }

  #checkHealth(): void {
    let isLate = this.#meter.read()?.isStopped === true;
    for (const order of this.#unstarted.values()) {
      order.checks += 1;
      isLate ||= order.checks > (this.#hasAnswered ? MAX_MISSED_CHECKS : MAX_CHECKS_AT_START);
    }
    if (isLate) this.#giveUp();
  }

  /** Ends a process of an earlier spawner together with the host. */
  adopt(identity: ProcessIdentity): void {
    this.#adopted.push(identity);
    this.#send({ type: "adopt", identity });
  }

  setIdle(policy: IdlePolicy): void {
    this.#send({ type: "set-idle", policy });
  }

  #send(request: SpawnerRequest): void {
    // If sending fails, `disconnect` follows.
    if (this.#child.connected) this.#child.send(request, () => {});
  }

  #receive(reply: SpawnerReply, handle: unknown): void {
    const { type, id } = reply;
    this.#hasAnswered = true;
    if (type === "ended") {
      this.#running.get(id)?.launched.ended(reply.ending);
      this.#running.delete(id);
      return;
    }
    if (this.#hasEnded) {
      // It was sent before the spawner was given up. The order has been handed over, and its process is another one.
      if (type === "started") killProcess(reply.identity);
      if (handle instanceof Socket) handle.destroy();
      return;
    }
    const order = this.#unstarted.get(id);
    if (order === undefined) return;
    this.#unstarted.delete(id);
    if (this.#unstarted.size === 0) this.#child.channel?.unref();
    if (type === "failed" || !(handle instanceof Socket)) order.launched.ended(UNKNOWN_ENDING);
    else {
      const { launched } = order;
      const { identity } = reply;
      this.#running.set(id, { launched, identity });
      launched.connected({ pid: identity.pid, socket: handle, kill: () => killProcess(identity), handles: [handle] });
    }
  }

  #giveUp(): void {
    if (this.#hasEnded) return;
    this.#end();
    this.#child.kill("SIGKILL");
    for (const { launched } of this.#running.values()) launched.lost();
    const own = [...this.#running.values()].map(({ identity }) => identity);
    const hasLived = this.#child.pid !== undefined;
    // If the spawner could not start, descriptors may be exhausted. `isAlive` would then report every process as dead.
    const running = [...own, ...(hasLived ? this.#adopted.filter(isAlive) : this.#adopted)];
    this.#onGone({ unstarted: [...this.#unstarted.values()], running, hasLived });
  }

  #end(): void {
    this.#hasEnded = true;
    clearInterval(this.#checkTimer);
    this.#meter[Symbol.dispose]();
  }

  /** Ends the spawner and everything that it started. Calling it twice is a no-op. */
  [Symbol.dispose](): void {
    if (this.#hasEnded) return;
    this.#end();
    for (const { launched } of this.#unstarted.values()) launched.ended(UNKNOWN_ENDING);
    for (const { launched } of this.#running.values()) launched.lost();
    if (this.#child.connected) this.#child.disconnect();
    // A stopped process does not react to the disconnect.
    setTimeout(() => this.#child.kill("SIGKILL"), END_MS).unref();
  }
}
