// The process's streams and stop signal for commands. Installed before the rest of the command line is loaded, so that Ctrl-C also works
// during start-up.
import { constants } from "node:os";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { onNpmEnded } from "./npm-parent.ts";
import { CliOutput } from "./output.ts";

/** Exit code of a program whose output was closed: 128 plus the number of SIGPIPE, as a shell reports it. */
const EXIT_CLOSED_PIPE = 128 + constants.signals.SIGPIPE;
const EXIT_FAILED = 1;
/** Exit code of a command that SIGINT stopped. */
export const EXIT_INTERRUPTED: number = 128 + constants.signals.SIGINT;
const NPM_ENDED = 128 + constants.signals.SIGTERM;
/** Time in ms that a stopped command has to end in order. After that the process exits, which also ends its worker processes. */
const MAX_STOP_MS = 10_000;
/** Time in ms that the process has to end by itself after a command that asked for it. */
const LINGER_MS = 500;
/** Signals within this time in ms count as one. */
const SAME_SIGNAL_MS = 500;
const MAX_MESSAGE_LENGTH = 4_000;

/** Write errors which mean that the reader closed the stream. EIO comes from a closed terminal. */
const READER_GONE: ReadonlySet<string | undefined> = new Set(["EPIPE", "ECONNRESET", "EIO", "ERR_STREAM_DESTROYED"]);

/** The reason why a command must stop early, and the resulting exit code. */
export class StopError extends Error {
  override readonly name = "StopError";
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/**
 * Time in ms that a command which has not started yet may take to end after it was stopped: it may wait for NATS or Postgres, and no call runs. A
 * start that is almost complete ends in order, and prints the first admin key.
 */
export const START_STOP_MS = 1_000;

/** The parts of the process that a command uses. */
export interface Io {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: NodeJS.Process["stdin"];
  readonly stdout: CliOutput;
  readonly stderr: CliOutput;
  /** Aborts with a {@link StopError} on SIGINT or SIGTERM, when `npx` has ended, and if stdout or stderr cannot be written. */
  readonly stop: AbortSignal;
  /** Sets how long the command may take to end in order after it was stopped, in ms. @default 10_000 */
  setStopTimeout(ms: number): void;
  /** Lets the process end soon after the command, also if code of the user's that the command has run would keep it alive. */
  exitAfterCommand(): void;
}

/** Returns the exit code of a stopped command; undefined while it runs. */
export function stopCodeOf({ stop }: Pick<Io, "stop">): number | undefined {
  if (!stop.aborted) return undefined;
  return stop.reason instanceof StopError ? stop.reason.exitCode : EXIT_FAILED;
}

/** Returns the message of an unexpected error, on one line and without a stack. */
function describeThrown(thrown: unknown): string {
  const text = Error.isError(thrown) ? thrown.message || thrown.name : `Expected an error, got ${describeKind(thrown)}`;
  const line = toVisibleLine(text);
  return line.length > MAX_MESSAGE_LENGTH ? `${line.slice(0, MAX_MESSAGE_LENGTH)}…` : line;
}

/** Returns whether an error is from the operating system, such as ENAMETOOLONG, so that its message is sufficient. */
const isSystemError = (thrown: Error): boolean => "syscall" in thrown;

/** The streams and signals of this process. Create one instance and run one command with it. */
export class ProcessIo implements Io {
  readonly #process: NodeJS.Process;
  readonly #stop = new AbortController();
  /** Set by a failed output or an uncaught error. Takes precedence over the command's result. */
  #failureCode: number | undefined;
  #stopTimeoutMs: number = MAX_STOP_MS;
  #exitsAfterCommand = false;
  #stoppedAt = 0;
  readonly stdout: CliOutput;
  readonly stderr: CliOutput;

  constructor(process: NodeJS.Process) {
    this.#process = process;
    this.stdout = new CliOutput(process.stdout, (error) => this.#outputFailed("stdout", error));
    this.stderr = new CliOutput(process.stderr, (error) => this.#outputFailed("stderr", error));
    for (const name of ["SIGINT", "SIGTERM"] as const) {
      process.on(name, () => this.#signalled(new StopError(`Stopped by ${name}`, 128 + constants.signals[name])));
    }
    onNpmEnded(process, () => {
      this.#requestStop(new StopError("npm, which has started this command, has ended", NPM_ENDED));
    });
    // Also receives unhandled rejections.
    process.on("uncaughtException", (thrown) => this.#fail(thrown));
  }

  get env(): NodeJS.ProcessEnv {
    return this.#process.env;
  }

  get stdin(): NodeJS.Process["stdin"] {
    return this.#process.stdin;
  }

  get stop(): AbortSignal {
    return this.#stop.signal;
  }

  /** Runs the command and sets the process's exit code. The process ends when nothing keeps it alive. */
  async run(command: (io: Io) => Promise<number>): Promise<void> {
    try {
      const code = await command(this);
      this.#process.exitCode = this.#failureCode ?? code;
    } catch (thrown) {
      if (this.stop.aborted) this.#process.exitCode = this.#failureCode ?? stopCodeOf(this);
      else this.#fail(thrown);
    }
    await this.#exitSoon();
  }

  #fail(thrown: unknown): void {
    this.stderr.print(`glovebox: ${describeThrown(thrown)}\n`);
    if (Error.isError(thrown) && !isSystemError(thrown)) {
      const isDebug = (this.env.GLOVEBOX_DEBUG ?? "") !== "";
      this.stderr.print(
        isDebug ? `${thrown.stack}\n` : "This error is unexpected. Set GLOVEBOX_DEBUG=1 to see its stack\n",
      );
    }
    this.#endWith(EXIT_FAILED, "An unexpected error");
  }

  #outputFailed(name: "stdout" | "stderr", error: NodeJS.ErrnoException): void {
    if (READER_GONE.has(error.code)) {
      this.#endWith(EXIT_CLOSED_PIPE, `The reader of ${name} closed it`);
      return;
    }
    if (name === "stdout") this.stderr.print(`glovebox: Cannot write to stdout: ${describeThrown(error)}\n`);
    this.#endWith(EXIT_FAILED, `${name} cannot be written`);
  }

  #endWith(code: number, reason: string): void {
    this.#failureCode ??= code;
    this.#process.exitCode = this.#failureCode;
    this.#requestStop(new StopError(reason, code));
  }

  setStopTimeout(ms: number): void {
    this.#stopTimeoutMs = ms;
  }

  exitAfterCommand(): void {
    this.#exitsAfterCommand = true;
  }

  /** Ends the process after a while if the command has asked for it. Until then, it can end by itself, which loses no output. */
  async #exitSoon(): Promise<void> {
    if (!this.#exitsAfterCommand) return;
    await Promise.all([this.stdout.flushed(), this.stderr.flushed()]);
    setTimeout(() => this.#process.exit(), LINGER_MS).unref();
  }

  /** The first signal stops the command, a second one ends the process at once. npm passes on a signal that the terminal has sent as well. */
  #signalled(reason: StopError): void {
    if (this.stop.aborted && performance.now() - this.#stoppedAt > SAME_SIGNAL_MS) this.#process.exit(reason.exitCode);
    this.#requestStop(reason);
  }

  #requestStop(reason: StopError): void {
    if (this.stop.aborted) return;
    this.#stoppedAt = performance.now();
    this.#stop.abort(reason);
    const exit = (): void => this.#process.exit(this.#process.exitCode ?? reason.exitCode);
    setTimeout(exit, this.#stopTimeoutMs).unref();
  }
}
