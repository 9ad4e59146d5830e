// Records diagnostics of a server's process for the operator: the end of its stderr, lines on stdout that are not messages, and its exit.
import type { Readable } from "node:stream";

/** Diagnostics of a server's process. They contain text of the server, so they are meant for the operator and not for a model. */
export interface ServerDiagnostics {
  /** The last 8 KiB that the process wrote to stderr. */
  readonly stderr: string;
  /** How the process ended; undefined while it runs. */
  readonly exit: string | undefined;
  /** Number of lines on stdout that were not messages. */
  readonly strayLines: number;
  /** The latest of these lines, truncated to 200 bytes. */
  readonly lastStrayLine: string | undefined;
}

const STDERR_TAIL_BYTES = 8 * 1024;
/** Bytes of stderr after which reading pauses for `STDERR_PAUSE_MS`, so that a flood cannot take up the event loop. */
const STDERR_BYTES = 256 * 1024;
const STDERR_PAUSE_MS = 50;
/** Largest capacity that an unprivileged process can give a pipe (pipe(7), pipe-max-size). */
const PIPE_BYTES = 1024 * 1024;
const STRAY_LINE_BYTES = 200;

export class DiagnosticsRecorder {
  #stderr: Buffer = Buffer.alloc(0);
  #stderrStream: Readable | undefined;
  #stderrBytes = 0;
  #hasExited = false;
  #strayLines = 0;
  #lastStrayLine: string | undefined;
  exit: string | undefined;

  get current(): ServerDiagnostics {
    return {
      stderr: this.#stderr.toString("utf8").toWellFormed(),
      exit: this.exit,
      strayLines: this.#strayLines,
      lastStrayLine: this.#lastStrayLine,
    };
  }

  addStray(line: Buffer): void {
    this.#strayLines += 1;
    this.#lastStrayLine = line.toString("utf8", 0, STRAY_LINE_BYTES).toWellFormed();
  }

  /** Reads stderr, at a limited rate while the process runs. Resolves when stderr has ended. */
  readStderr(stderr: Readable): Promise<void> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#stderrStream = stderr.once("close", resolve);
    stderr.on("data", (piece: Buffer) => {
      const tail = piece.length >= STDERR_TAIL_BYTES ? piece : Buffer.concat([this.#stderr, piece]);
      // A copy, because a view would keep the whole chunk in memory.
      this.#stderr = Buffer.from(tail.subarray(-STDERR_TAIL_BYTES));
      this.#stderrBytes += piece.length;
      if (this.#hasExited) {
        if (this.#stderrBytes >= PIPE_BYTES) stderr.destroy();
        return;
      }
      if (this.#stderrBytes < STDERR_BYTES) return;
      this.#stderrBytes = 0;
      stderr.pause();
      setTimeout(() => stderr.resume(), STDERR_PAUSE_MS).unref();
    });
    return ended;
  }

  /** Reads the rest of the pipe without pauses, after the process has exited. */
  drainStderr(): void {
    this.#hasExited = true;
    this.#stderrBytes = 0;
    this.#stderrStream?.resume();
  }
}
