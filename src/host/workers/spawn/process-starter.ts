// Starts processes: the first few from the host itself and, once that has cost it enough time, through a spawner. If
// the spawner dies, running processes go on: the host starts pending ones itself, and the next spawner adopts the
// running ones.
import { startTimeOf } from "../health/process-meter.ts";
import { type IdlePolicy, setIdlePolicy } from "./idle-policy.ts";
import { LaunchedProcess, type ProcessListener, UNKNOWN_ENDING } from "./launched-process.ts";
import { killProcess, type ProcessIdentity } from "./process-identity.ts";
import { spawnCommand } from "./spawn-command.ts";
import { type OrphanedWork, Spawner, type StartOrder } from "./spawner.ts";

/**
 * Time in ms that the host may spend on starting processes before it uses a spawner. A spawner takes 45 MiB of memory
 * and 40 ms of CPU time: too much for a host that runs one tool and exits.
 */
const OWN_TIME_MS = 50;

/**
 * Delay in ms before the next attempt where no spawner can be started. Immediate retries would take all of the host's
 * time.
 */
const RETRY_MS = 250;

export class ProcessStarter implements Disposable {
  readonly #ownTimeMs: number;
  #spentMs = 0;
  #spawner: Spawner | undefined;
  #isDisposed = false;

  /** @param ownTimeMs host time in ms after which a spawner is used; Infinity to never use one */
  constructor(ownTimeMs: number = OWN_TIME_MS) {
    // On other systems, starting a process does not copy the page tables of its parent.
    this.#ownTimeMs = process.platform === "linux" ? ownTimeMs : Number.POSITIVE_INFINITY;
  }

  start(commandFor: StartOrder["commandFor"], listener: ProcessListener): LaunchedProcess {
    const launched = new LaunchedProcess(listener);
    const spawner = this.#useSpawner();
    if (spawner === undefined) this.#startFromHost({ commandFor, launched });
    else spawner.start({ commandFor, launched });
    return launched;
  }

  setIdle(policy: IdlePolicy): void {
    // Each change starts a program for each process of a worker, which justifies a spawner from the first one.
    this.#spentMs = Math.max(this.#spentMs, OWN_TIME_MS);
    const spawner = this.#useSpawner();
    if (spawner !== undefined) spawner.setIdle(policy);
    else this.#measureHostTime(() => setIdlePolicy(policy));
  }

  #useSpawner(): Spawner | undefined {
    if (this.#spentMs < this.#ownTimeMs || this.#isDisposed) return undefined;
    this.#spawner ??= new Spawner((orphaned) => this.#recover(orphaned));
    return this.#spawner;
  }

  #measureHostTime<Result>(action: () => Result): Result {
    const began = performance.now();
    const result = action();
    this.#spentMs += performance.now() - began;
    return result;
  }

  #startFromHost({ commandFor, launched }: StartOrder): void {
    const started = this.#measureHostTime(() => spawnCommand(commandFor("host")));
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

  #recover({ unstarted, running, hasLived }: OrphanedWork): void {
    this.#spawner = undefined;
    // A spawner that keeps dying is not restarted each time.
    this.#spentMs = 0;
    for (const order of unstarted) this.#startFromHost(order);
    if (running.length === 0) return;
    if (hasLived) this.#adopt(running);
    else setTimeout(() => this.#adopt(running), RETRY_MS).unref();
  }

  #adopt(running: readonly ProcessIdentity[]): void {
    this.#spentMs = this.#ownTimeMs;
    for (const identity of running) this.#useSpawner()?.adopt(identity);
  }

  /** Ends the spawner and everything that it started. Calling it twice is a no-op. */
  [Symbol.dispose](): void {
    this.#isDisposed = true;
    this.#spawner?.[Symbol.dispose]();
    this.#spawner = undefined;
  }
}
