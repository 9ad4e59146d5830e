// Checks the health of one worker process: whether it is stopped, whether it answers, and whether it exceeds its memory
// limit. Reports failures; worker-process.ts computes the limit, and ends the process.
import { innermostProcess, ProcessMeter, type ProcessReading } from "./process-meter.ts";

/** Silence in ms after which a busy worker receives a ping. */
const PING_AFTER_MS = 250;
/**
 * Longest time in ms to answer it. Isolates run on threads of their own, so the worker's main thread is not busy for
 * long, except with a call that the host has sent to it. Such a worker is not pinged.
 */
const PONG_WITHIN_MS = 5_000;
/** CPU time in ms that a process without a call may use within a second, for example for garbage collection. */
const IDLE_CPU_MS = 300;

/** Failure that a health check finds: stopped by a signal, above its memory limit, without an answer to a ping, or computing without a call. */
export type HealthFailure = "stopped" | "memory" | "hung" | "idle-cpu";

export class ProcessMonitor implements Disposable {
  #meter: ProcessMeter | undefined;
  #rssBytes = 0;
  #lastCpuMs = 0;
  /** CPU time already reported by `takeCpuMs`. */
  #cpuMs = 0;
  #idleCpuMs: number | undefined;
  #silentMs = 0;
  #awaitsPong = false;
  /** What `ProcessMeter.waitedMs` was at the ping. */
  #waitedMsAtPing = 0;
  readonly #idleWorkMs: number;
  /** Remaining part of `#idleWorkMs`. */
  #idleLeftMs: number;

  /**
   * @param idleWorkMs CPU time in ms that the process may use at its start and after each call, although no call runs
   */
  constructor(idleWorkMs = 0) {
    this.#idleWorkMs = idleWorkMs;
    this.#idleLeftMs = idleWorkMs;
  }

  /**
   * Starts monitoring.
   * @param pid the process, or its outermost wrapper
   */
  begin(pid: number, niceness: number): void {
    this.#meter = new ProcessMeter(pid, niceness);
  }

  /** Switches from the outermost wrapper to the worker itself, which is now up. */
  attach(): void {
    const outermost = this.#meter;
    if (outermost === undefined) return;
    // A child process inherits its parent's niceness.
    this.#meter = new ProcessMeter(innermostProcess(outermost.pid), outermost.niceness);
    outermost[Symbol.dispose]();
    // CPU time of the start is not charged to the owner.
    this.#cpuMs = this.#read()?.cpuMs ?? 0;
  }

  /** Id of the process that runs the worker program. Until that is up, id of the outermost wrapper. */
  get pid(): number | undefined {
    return this.#meter?.pid;
  }

  /** Resident memory at the last reading, in bytes. */
  get rssBytes(): number {
    return this.#rssBytes;
  }

  /** CPU time at the last reading, in ms. */
  get cpuMs(): number {
    return this.#lastCpuMs;
  }

  /** How long in ms the process's main thread has waited for a core so far. */
  get waitedMs(): number {
    return this.#meter?.waitedMs ?? 0;
  }

  /** Takes a new reading. */
  refresh(): void {
    this.#read();
  }

  #read(): ProcessReading | undefined {
    const reading = this.#meter?.read();
    if (reading === undefined) return undefined;
    this.#rssBytes = reading.rssBytes;
    this.#lastCpuMs = reading.cpuMs;
    return reading;
  }

  /** Records that a message from the worker arrived. */
  recordMessage(): void {
    this.#silentMs = 0;
  }

  /** Returns whether a pong was due, and clears that state. */
  acceptPong(): boolean {
    const awaitsPong = this.#awaitsPong;
    this.#awaitsPong = false;
    return awaitsPong;
  }

  /** Records that a call has started, so that further CPU time counts as its own. */
  beginWork(): void {
    this.#idleCpuMs = undefined;
    this.#idleLeftMs = this.#idleWorkMs;
    this.#silentMs = 0;
  }

  /**
   * Checks a process that runs calls.
   * @param elapsedMs time of the host's event loop since the last check; a blocked host could not receive messages
   * @param ping called when the worker should be pinged
   */
  check(elapsedMs: number, ceilingBytes: number, ping: () => void): HealthFailure | undefined {
    const reading = this.#read();
    if (reading?.isStopped) return "stopped";
    if (this.#rssBytes > ceilingBytes) return "memory";
    this.#silentMs += elapsedMs;
    if (this.#silentMs > PING_AFTER_MS && !this.#awaitsPong) {
      this.#awaitsPong = true;
      this.#waitedMsAtPing = this.waitedMs;
      ping();
    }
    if (this.#silentMs <= PING_AFTER_MS + PONG_WITHIN_MS) return undefined;
    // On a busy machine, a process of low priority waits for a core. It is not hung.
    const waitedMs = this.waitedMs - this.#waitedMsAtPing;
    return this.#silentMs - waitedMs > PING_AFTER_MS + PONG_WITHIN_MS ? "hung" : undefined;
  }

  /** Checks a process without calls, once a second: it may be stopped, use CPU time, or have grown. */
  checkIdle(ceilingBytes: number): HealthFailure | undefined {
    const reading = this.#read();
    if (reading === undefined) return undefined;
    const usedMs = reading.cpuMs - (this.#idleCpuMs ?? reading.cpuMs);
    this.#idleCpuMs = reading.cpuMs;
    if (reading.isStopped) return "stopped";
    if (usedMs > IDLE_CPU_MS) this.#idleLeftMs -= usedMs;
    if (this.#idleLeftMs < 0) return "idle-cpu";
    return reading.rssBytes > ceilingBytes ? "memory" : undefined;
  }

  /** Returns the CPU time in ms since the previous call of this method. */
  takeCpuMs(): number {
    const cpuMs = this.#read()?.cpuMs;
    if (cpuMs === undefined) return 0;
    const spent = cpuMs - this.#cpuMs;
    this.#cpuMs = cpuMs;
    return spent;
  }

  get niceness(): number {
    return this.#meter?.niceness ?? 0;
  }

  /** Records a value that another program has set. */
  set niceness(niceness: number) {
    if (this.#meter !== undefined) this.#meter.niceness = niceness;
  }

  /** Returns false if the operating system does not allow it. */
  setNiceness(niceness: number): boolean {
    return this.#meter?.setNiceness(niceness) ?? true;
  }

  [Symbol.dispose](): void {
    this.#meter?.[Symbol.dispose]();
  }
}
