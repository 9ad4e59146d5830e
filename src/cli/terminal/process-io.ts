// The process as a command sees it: its streams, and one signal that tells a command to stop, from the first moment on. Installed before
// the rest of the command line is loaded, so that Ctrl-C during start-up ends the command in order.
import { constants } from "node:os";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { CliOutput } from "./output.ts";

/** The exit code that a shell shows for a program whose reader has gone: 128 and the number of SIGPIPE. */
const EXIT_CLOSED_PIPE = 128 + constants.signals.SIGPIPE;
const EXIT_FAILED = 1;
/** The exit code of a command that SIGINT stopped before its end. */
export const EXIT_INTERRUPTED: number = 128 + constants.signals.SIGINT;
/** Time in ms that a stopped command has to end in order. Then the process exits, and its workers end with it. */
const MAX_STOP_MS = 10_000;
const MAX_MESSAGE_LENGTH = 4_000;

/** Errors of a write that mean that the reader has gone: EIO comes from a terminal that was closed. */
const READER_GONE: ReadonlySet<string | undefined> = new Set(["EPIPE", "ECONNRESET", "EIO", "ERR_STREAM_DESTROYED"]);

/** Why a command is to stop before it has finished, and the exit code that says so. */
export class StopError extends Error {
  override readonly name = "StopError";
  readonly exitCode: number;

  constructor(message: string, exitCode: number) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** What a command gets of the process. */
export interface Io {
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: NodeJS.Process["stdin"];
  readonly stdout: CliOutput;
  readonly stderr: CliOutput;
  /** Aborts with a {@link StopError} on SIGINT or SIGTERM, and when stdout or stderr cannot be written. */
  readonly stop: AbortSignal;
}

/** Returns the exit code of a command that was stopped; undefined while it runs. */
export function stopCodeOf({ stop }: Pick<Io, "stop">): number | undefined {
  if (!stop.aborted) return undefined;
  return stop.reason instanceof StopError ? stop.reason.exitCode : EXIT_FAILED;
}

/** Returns what an unexpected error says, on one line and without a stack. */
function describeThrown(thrown: unknown): string {
  const text = Error.isError(thrown) ? thrown.message || thrown.name : `Expected an error, got ${describeKind(thrown)}`;
  const line = toVisibleLine(text);
  return line.length > MAX_MESSAGE_LENGTH ? `${line.slice(0, MAX_MESSAGE_LENGTH)}…` : line;
}

/** Tells whether an error is an answer of the operating system, such as ENAMETOOLONG: its message says all there is to know. */
const isSystemError = (thrown: Error): boolean => "syscall" in thrown;

/** The streams and signals of this process. Create one, and run one command with it. */
export class ProcessIo implements Io {
  readonly #process: NodeJS.Process;
  readonly #stop = new AbortController();
  /** Set by an output that failed and by an error that nothing caught: it counts whatever the command returns. */
  #failureCode: number | undefined;
  readonly stdout: CliOutput;
  readonly stderr: CliOutput;

  constructor(process: NodeJS.Process) {
    this.#process = process;
    this.stdout = new CliOutput(process.stdout, (error) => this.#outputFailed("stdout", error));
    this.stderr = new CliOutput(process.stderr, (error) => this.#outputFailed("stderr", error));
    for (const name of ["SIGINT", "SIGTERM"] as const) {
      process.on(name, () => this.#tellToStop(new StopError(`Stopped by ${name}`, 128 + constants.signals[name])));
    }
    // Rejections that nothing handles come here too.
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

  /** Runs the command and leaves its exit code to the process, which ends when nothing keeps it alive any more. */
  async run(command: (io: Io) => Promise<number>): Promise<void> {
    try {
      const code = await command(this);
      this.#process.exitCode = this.#failureCode ?? code;
    } catch (thrown) {
      if (this.stop.aborted) this.#process.exitCode = this.#failureCode ?? stopCodeOf(this);
      else this.#fail(thrown);
    }
  }

  #fail(thrown: unknown): void {
    this.stderr.print(`glovebox: ${describeThrown(thrown)}\n`);
    if (Error.isError(thrown) && !isSystemError(thrown)) {
      const isDebug = (this.env.GLOVEBOX_DEBUG ?? "") !== "";
      this.stderr.print(
        isDebug ? `${thrown.stack}\n` : "This is unexpected; GLOVEBOX_DEBUG=1 shows where it comes from\n",
      );
    }
    this.#endWith(EXIT_FAILED, "An unexpected error");
  }

  #outputFailed(name: "stdout" | "stderr", error: NodeJS.ErrnoException): void {
    if (READER_GONE.has(error.code)) {
      this.#endWith(EXIT_CLOSED_PIPE, `The reader of ${name} has gone`);
      return;
    }
    if (name === "stdout") this.stderr.print(`glovebox: Cannot write to stdout: ${describeThrown(error)}\n`);
    this.#endWith(EXIT_FAILED, `${name} cannot be written`);
  }

  #endWith(code: number, reason: string): void {
    this.#failureCode ??= code;
    this.#process.exitCode = this.#failureCode;
    this.#tellToStop(new StopError(reason, code));
  }

  #tellToStop(reason: StopError): void {
    if (this.stop.aborted) return;
    this.#stop.abort(reason);
    const exit = (): void => this.#process.exit(this.#process.exitCode ?? reason.exitCode);
    setTimeout(exit, MAX_STOP_MS).unref();
  }
}
