// Starts processes: the first few by itself, and when that has cost the host's own time, through a spawner, which costs it none. When
// the spawner dies nothing else does: what was to be started the host starts itself, what runs is looked after by the next one.
import { startTimeOf } from "../health/process-meter.ts";
import { type IdlePolicy, setIdlePolicy } from "./idle-policy.ts";
import { LaunchedProcess, type ProcessListener, UNKNOWN_ENDING } from "./launched-process.ts";
import { killProcess, type ProcessIdentity } from "./process-identity.ts";
import { spawnCommand } from "./spawn-command.ts";
import { type OrphanedWork, Spawner, type StartOrder } from "./spawner.ts";

/**
 * Time that the host may spend on starting processes before it has one started to do it. A spawner is 45 MiB of memory and 40 ms of CPU
 * time: too much for a host that runs one tool and ends.
 */
const OWN_TIME_MS = 50;

/** Where no spawner can be started: to try again at once, and again, would leave the host no time for anything else. */
const RETRY_MS = 250;

export class ProcessStarter implements Disposable {
  readonly #ownTimeMs: number;
  #spentMs = 0;
  #spawner: Spawner | undefined;
  #isDisposed = false;

  /** @param ownTimeMs after so much of the host's time a spawner is started; Infinity for never */
  constructor(ownTimeMs: number = OWN_TIME_MS) {
    // Elsewhere the operating system starts a process without a copy of its parent.
    this.#ownTimeMs = process.platform === "linux" ? ownTimeMs : Number.POSITIVE_INFINITY;
  }

  start(commandFor: StartOrder["commandFor"], listener: ProcessListener): LaunchedProcess {
    const launched = new LaunchedProcess(listener);
    const spawner = this.#useSpawner();
    if (spawner === undefined) this.#startHere({ commandFor, launched });
    else spawner.start({ commandFor, launched });
    return launched;
  }

  setIdle(policy: IdlePolicy): void {
    // That takes a program each time, for each of a worker's processes: worth a spawner from the first on.
    this.#spentMs = Math.max(this.#spentMs, OWN_TIME_MS);
    const spawner = this.#useSpawner();
    if (spawner !== undefined) spawner.setIdle(policy);
    else this.#spend(() => setIdlePolicy(policy));
  }

  #useSpawner(): Spawner | undefined {
    if (this.#spentMs < this.#ownTimeMs || this.#isDisposed) return undefined;
    this.#spawner ??= new Spawner((legacy) => this.#inherit(legacy));
    return this.#spawner;
  }

  #spend<Result>(action: () => Result): Result {
    const began = performance.now();
    const result = action();
    this.#spentMs += performance.now() - began;
    return result;
  }

  #startHere({ commandFor, launched }: StartOrder): void {
    const started = this.#spend(() => spawnCommand(commandFor("host")));
    if (started === undefined) {
      queueMicrotask(() => launched.ended(UNKNOWN_ENDING));
      return;
    }
    const { child, pid, socket, ended } = started;
    const handles = [child, socket, child.stderr as typeof socket | null].filter((handle) => handle !== null);
    const startTime = startTimeOf(pid);
    const kill = (): void => {
      if (startTime === undefined) child.kill("SIGKILL");
      else killProcess({ pid, startTime });
    };
    queueMicrotask(() => launched.connected({ pid, socket, kill, handles }));
    void ended.then((ending) => launched.ended(ending));
  }

  #inherit({ unstarted, running, hasLived }: OrphanedWork): void {
    this.#spawner = undefined;
    // What dies at once, again and again, is not worth a start each time.
    this.#spentMs = 0;
    for (const order of unstarted) this.#startHere(order);
    if (running.length === 0) return;
    if (hasLived) this.#adopt(running);
    else setTimeout(() => this.#adopt(running), RETRY_MS).unref();
  }

  #adopt(running: readonly ProcessIdentity[]): void {
    this.#spentMs = this.#ownTimeMs;
    for (const identity of running) this.#useSpawner()?.adopt(identity);
  }

  /** Ends the spawner, and with it what it has started. Twice is a no-op. */
  [Symbol.dispose](): void {
    this.#isDisposed = true;
    this.#spawner?.[Symbol.dispose]();
    this.#spawner = undefined;
  }
}
