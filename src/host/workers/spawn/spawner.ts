// The host's side of its spawner: hands over what is to be started, gets back sockets, and knows when it is of no more use.
import { type ChildProcess, fork } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { ProcessMeter } from "../health/process-meter.ts";
import type { IdlePolicy } from "./idle-policy.ts";
import { type LaunchedProcess, UNKNOWN_ENDING } from "./launched-process.ts";
import { isAlive, killProcess, type ProcessIdentity } from "./process-identity.ts";
import type { SpawnCommand } from "./spawn-command.ts";
import type { SpawnerReply, SpawnerRequest } from "./spawner-protocol.ts";

/** Our entry, whether we run from `.ts` source or from built `.js`. */
const ENTRY = new URL(`./spawner-entry${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);
const LOOK_MS = 250;
/**
 * It starts a process in a few milliseconds; one that has not at so many looks is stopped, or worse. Looks are counted, not time: a host
 * that was held up itself has not listened.
 */
const ANSWER_LOOKS = 8;
/** It ends in a millisecond. */
const END_MS = 2_000;
/** It holds a few dozen descriptors and no data. */
const NODE_FLAGS = ["--max-semi-space-size=1", "--max-old-space-size=64"];

/** What it starts may inherit nothing of the host's: the spawner has only where the host's Node keeps what it has compiled, if it does. */
function environment(): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE } = process.env;
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE };
}

/** What is to be started, and who is told. Whoever starts it says how it is bound to it. */
export interface StartOrder {
  readonly commandFor: (parent: "host" | "spawner") => SpawnCommand;
  readonly launched: LaunchedProcess;
}

/** What a spawner leaves behind that has died, or stopped answering. */
export interface OrphanedWork {
  readonly unstarted: readonly StartOrder[];
  readonly running: readonly ProcessIdentity[];
  /** Of the spawner itself; one that was never there leaves only what it was to adopt. */
  readonly hasLived: boolean;
}

export class Spawner implements Disposable {
  readonly #child: ChildProcess;
  readonly #onGone: (legacy: OrphanedWork) => void;
  readonly #unstarted = new Map<number, StartOrder & { looks: number }>();
  readonly #running = new Map<number, { readonly launched: LaunchedProcess; readonly identity: ProcessIdentity }>();
  readonly #adopted: ProcessIdentity[] = [];
  readonly #meter: ProcessMeter;
  readonly #look: NodeJS.Timeout;
  #lastId = 0;
  #isOver = false;

  /** @param onGone called once, unless it is disposed of before */
  constructor(onGone: (legacy: OrphanedWork) => void) {
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
    this.#look = setInterval(() => this.#lookAfter(), LOOK_MS).unref();
  }

  start(order: StartOrder): void {
    this.#lastId += 1;
    this.#unstarted.set(this.#lastId, { ...order, looks: 0 });
    // Somebody waits for it: the host goes on until it is there.
    this.#child.channel?.ref();
    this.#send({ type: "start", id: this.#lastId, command: order.commandFor("spawner") });
  }

  #lookAfter(): void {
    let isLate = this.#meter.read()?.isStopped === true;
    for (const order of this.#unstarted.values()) {
      order.looks += 1;
      isLate ||= order.looks > ANSWER_LOOKS;
    }
    if (isLate) this.#giveUp();
  }

  /** Ends it with the host from now on, though another has started it. */
  adopt(identity: ProcessIdentity): void {
    this.#adopted.push(identity);
    this.#send({ type: "adopt", identity });
  }

  setIdle(policy: IdlePolicy): void {
    this.#send({ type: "set-idle", policy });
  }

  #send(request: SpawnerRequest): void {
    // What cannot be sent is told by `disconnect`.
    if (this.#child.connected) this.#child.send(request, () => {});
  }

  #receive(reply: SpawnerReply, handle: unknown): void {
    const { type, id } = reply;
    if (type === "ended") {
      this.#running.get(id)?.launched.ended(reply.ending);
      this.#running.delete(id);
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
    if (this.#isOver) return;
    this.#end();
    this.#child.kill("SIGKILL");
    for (const { launched } of this.#running.values()) launched.lost();
    const own = [...this.#running.values()].map(({ identity }) => identity);
    const hasLived = this.#child.pid !== undefined;
    // Whoever has no descriptor to look with sees nobody alive.
    const running = [...own, ...(hasLived ? this.#adopted.filter(isAlive) : this.#adopted)];
    this.#onGone({ unstarted: [...this.#unstarted.values()], running, hasLived });
  }

  #end(): void {
    this.#isOver = true;
    clearInterval(this.#look);
    this.#meter[Symbol.dispose]();
  }

  /** Ends it, and all that it has started and that still runs. Twice is a no-op. */
  [Symbol.dispose](): void {
    if (this.#isOver) return;
    this.#end();
    for (const { launched } of this.#unstarted.values()) launched.ended(UNKNOWN_ENDING);
    for (const { launched } of this.#running.values()) launched.lost();
    if (this.#child.connected) this.#child.disconnect();
    // One that is stopped does not hear it.
    setTimeout(() => this.#child.kill("SIGKILL"), END_MS).unref();
  }
}
