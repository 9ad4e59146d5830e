// What a server's process leaves for the operator: the end of its stderr, lines on stdout that are no messages, and how it ended.
import type { Readable } from "node:stream";

/** For the operator, never for a model: all of it is the server's own word. */
export interface ServerDiagnostics {
  /** The last of what it wrote to stderr. */
  readonly stderr: string;
  /** How it ended; undefined while it runs. */
  readonly ending: string | undefined;
  /** Lines on stdout that were no messages, and the last of them. */
  readonly strayLines: number;
  readonly lastStrayLine: string | undefined;
}

const STDERR_TAIL_BYTES = 8 * 1024;
/** Of stderr, in a rest of its own: what is more waits in the pipe. */
const STDERR_BYTES = 256 * 1024;
const STDERR_REST_MS = 50;
/** The most that a pipe holds, where a process without privileges makes it as large as it may (pipe(7), pipe-max-size). */
const PIPE_BYTES = 1024 * 1024;
const STRAY_UNITS = 200;

export class DiagnosticsRecorder {
  #stderr: Buffer = Buffer.alloc(0);
  #stderrStream: Readable | undefined;
  #stderrBytes = 0;
  #hasExited = false;
  #strayLines = 0;
  #lastStrayLine: string | undefined;
  ending: string | undefined;

  get current(): ServerDiagnostics {
    return {
      stderr: this.#stderr.toString("utf8").toWellFormed(),
      ending: this.ending,
      strayLines: this.#strayLines,
      lastStrayLine: this.#lastStrayLine,
    };
  }

  addStray(line: Buffer): void {
    this.#strayLines += 1;
    this.#lastStrayLine = line.toString("utf8", 0, STRAY_UNITS).toWellFormed();
  }

  /** Reads stderr until it ends, slowly where there is much of it; resolves then. */
  readStderr(stderr: Readable): Promise<void> {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    this.#stderrStream = stderr.once("close", resolve);
    stderr.on("data", (piece: Buffer) => {
      const tail = piece.length >= STDERR_TAIL_BYTES ? piece : Buffer.concat([this.#stderr, piece]);
      // A copy: what the piece is part of is not to be kept.
      this.#stderr = Buffer.from(tail.subarray(-STDERR_TAIL_BYTES));
      this.#stderrBytes += piece.length;
      if (this.#hasExited) {
        if (this.#stderrBytes >= PIPE_BYTES) stderr.destroy();
        return;
      }
      if (this.#stderrBytes < STDERR_BYTES) return;
      this.#stderrBytes = 0;
      stderr.pause();
      setTimeout(() => stderr.resume(), STDERR_REST_MS).unref();
    });
    return ended;
  }

  /** Reads what is left in the pipe at once: the process that wrote it has exited. */
  drainStderr(): void {
    this.#hasExited = true;
    this.#stderrBytes = 0;
    this.#stderrStream?.resume();
  }
}
