// Looks after one worker process: is it stopped, does it answer, what does it use. Only says what is wrong; who asks ends it.
import { innermostProcess, ProcessMeter, type ProcessReading } from "./process-meter.ts";

/** A busy worker that has said nothing for so long is asked whether it is there … */
const ASK_AFTER_MS = 250;
/** … and has so long to answer. Isolates run on threads of their own: the worker itself is never busy for long. */
const ANSWER_WITHIN_MS = 5_000;
/** CPU time that a process in which nothing runs may burn within a second: collecting garbage takes some. */
const IDLE_CPU_MS = 300;

/** What a look finds wrong. */
export type HealthFailure = "stopped" | "memory" | "hung" | "burning";

export class ProcessWatch implements Disposable {
  #meter: ProcessMeter | undefined;
  #rssBytes = 0;
  #lastCpuMs = 0;
  /** What has been told by `takeCpuMs`. */
  #cpuMs = 0;
  #idleCpuMs: number | undefined;
  #silentMs = 0;
  #wasAsked = false;
  readonly #idleWorkMs: number;
  /** Left of it. */
  #idleLeftMs: number;

  /** @param idleWorkMs CPU time that it may use at its start and after each call, though nothing runs in it */
  constructor(idleWorkMs = 0) {
    this.#idleWorkMs = idleWorkMs;
    this.#idleLeftMs = idleWorkMs;
  }

  /** It has been started, as or beneath this process, with this niceness. */
  begin(pid: number, niceness: number): void {
    this.#meter = new ProcessMeter(pid, niceness);
  }

  /** It is up: from now on the process that runs the worker's own program is looked at. */
  attach(): void {
    const outermost = this.#meter;
    if (outermost === undefined) return;
    // What a process starts has its niceness.
    this.#meter = new ProcessMeter(innermostProcess(outermost.pid), outermost.niceness);
    outermost[Symbol.dispose]();
    // Starting was not its owner's doing.
    this.#cpuMs = this.#read()?.cpuMs ?? 0;
  }

  /** Of the process that runs the worker's own program, once that is up; before, of the outermost wrapper. */
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

  /** A further reading. */
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

  /** The worker has said something. */
  heard(): void {
    this.#silentMs = 0;
  }

  /** Whether an answer was waited for; it is, no longer. */
  takeAnswer(): boolean {
    const wasAsked = this.#wasAsked;
    this.#wasAsked = false;
    return wasAsked;
  }

  /** A call has come: what is used from now on is used by it. */
  beginWork(): void {
    this.#idleCpuMs = undefined;
    this.#idleLeftMs = this.#idleWorkMs;
    this.#silentMs = 0;
  }

  /**
   * At a process with calls in it.
   * @param elapsedMs of the host's own time since the last look: a host that was held up has not been listening
   * @param ask is called when the worker should be asked whether it is there
   */
  look(elapsedMs: number, ceilingBytes: number, ask: () => void): HealthFailure | undefined {
    const reading = this.#read();
    if (reading?.isStopped) return "stopped";
    if (this.#rssBytes > ceilingBytes) return "memory";
    this.#silentMs += elapsedMs;
    if (this.#silentMs > ASK_AFTER_MS && !this.#wasAsked) {
      this.#wasAsked = true;
      ask();
    }
    return this.#silentMs > ASK_AFTER_MS + ANSWER_WITHIN_MS ? "hung" : undefined;
  }

  /** At one that has none, once a second: it may have been stopped, it may burn what it was not given, it may have grown. */
  lookIdle(ceilingBytes: number): HealthFailure | undefined {
    const reading = this.#read();
    if (reading === undefined) return undefined;
    const burnt = reading.cpuMs - (this.#idleCpuMs ?? reading.cpuMs);
    this.#idleCpuMs = reading.cpuMs;
    if (reading.isStopped) return "stopped";
    if (burnt > IDLE_CPU_MS) this.#idleLeftMs -= burnt;
    if (this.#idleLeftMs < 0) return "burning";
    return reading.rssBytes > ceilingBytes ? "memory" : undefined;
  }

  /** CPU time since the last time this was asked, in ms. */
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

  /** Somebody else has set it. */
  set niceness(niceness: number) {
    if (this.#meter !== undefined) this.#meter.niceness = niceness;
  }

  /** False when the operating system does not allow it. */
  setNiceness(niceness: number): boolean {
    return this.#meter?.setNiceness(niceness) ?? true;
  }

  [Symbol.dispose](): void {
    this.#meter?.[Symbol.dispose]();
  }
}
