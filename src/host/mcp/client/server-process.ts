// Runs an upstream server that is a local program, as a transport of the MCP SDK. The program is untrusted: its output is limited before it
// is parsed, unread input is limited, and closing ends all processes that it started.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { chownSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, Transport, TransportSendOptions } from "@modelcontextprotocol/client";
import { LONG_LATE_MS, RunningTimer } from "../../util/running-timer.ts";
import type { LongMessage } from "./reading/bounded-bytes.ts";
import { LineReader } from "./reading/line-reader.ts";
import { readMessage } from "./reading/read-message.ts";
import { readingBudget } from "./reading/reading-budget.ts";
import { DiagnosticsRecorder, type ServerDiagnostics } from "./server-diagnostics.ts";
import { type ServerLayer, type ServerSandbox, ServerSandboxSchema, toServerCommand } from "./server-sandbox.ts";
import { killTree, type ServerTree, terminateTree } from "./server-tree.ts";
import { releaseUid } from "./server-users.ts";

export interface ServerProcessOptions {
  /** A path, or a name that is searched in PATH. */
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** Environment variables. PATH and HOME default to the host's; a program with its own user has its own HOME. */
  readonly env?: { readonly [name: string]: string } | undefined;
  /** Working directory. Default: that of the host. */
  readonly cwd?: string | undefined;
  /** The host's environment, for PATH and HOME. */
  readonly environment: NodeJS.ProcessEnv;
  /** Limit in bytes on one message of the program, and on the input that it has not read. Default: 4 MiB. */
  readonly maxMessageBytes?: number | undefined;
  readonly sandbox?: ServerSandbox | undefined;
}

const DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024;
/** A line over the limit is skipped. The connection is closed if the line exceeds this many times the limit. */
const MAX_LONG_LINES = 16;

/** Time in ms between the end of stdin and SIGTERM. The specification leaves it to the client (lifecycle, "Shutdown"). */
const END_MS = 1_000;
/** Time in ms between SIGTERM and SIGKILL. */
const TERMINATE_MS = 1_000;
/** Longest time in ms to read the output after the exit: an orphaned process can keep a pipe open. Shorter than GIVE_UP_MS. */
const DRAIN_MS = 400;
/** Time in ms to wait after SIGKILL, which a process that is blocked in the kernel does not handle at once. */
const GIVE_UP_MS = 500;

/** Processes to kill when the host exits, for machines without setpriv and namespaces. It does not help if the host itself is killed. */
const running = new Set<ServerProcess>();
let isListening = false;
function killAtExit(server: ServerProcess): void {
  running.add(server);
  if (isListening) return;
  isListening = true;
  process.on("exit", () => {
    for (const one of running) one.kill();
  });
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

export class ServerProcess implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** The SDK recognizes the transport of a program by `stderr` and `pid`. */
  readonly stderr = null;
  readonly #options: ServerProcessOptions;
  readonly #maxBytes: number;
  readonly #lines: LineReader;
  readonly #aborter = new AbortController();
  #hasStarted = false;
  #child: Child | undefined;
  #tree: ServerTree | undefined;
  #home: string | undefined;
  /** The user that the program has for itself. */
  #uid: number | undefined;
  #layers: ReadonlySet<ServerLayer> = new Set();
  readonly #exited = Promise.withResolvers<void>();
  readonly #closed = Promise.withResolvers<void>();
  #isClosed = false;
  #closing: Promise<void> | undefined;
  #hasExited = false;
  /** Settles when all output has been read. */
  #reading: Promise<unknown> = Promise.resolve();
  readonly #diagnostics = new DiagnosticsRecorder();

  constructor(options: ServerProcessOptions) {
    this.#options = options;
    this.#maxBytes = options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES;
    this.#lines = new LineReader({ maxBytes: this.#maxBytes });
  }

  /** Id of the outermost process, which may be a wrapper. Null before the start and after the exit. */
  get pid(): number | null {
    return this.#hasExited ? null : (this.#child?.pid ?? null);
  }

  /** The isolation layers that are in effect. */
  get layers(): ReadonlySet<ServerLayer> {
    return this.#layers;
  }

  get diagnostics(): ServerDiagnostics {
    return this.#diagnostics.current;
  }

  /** Starts the program. @throws {ToolError} TOOL_UNAVAILABLE, as a rejection, if it cannot be started */
  async start(): Promise<void> {
    if (this.#hasStarted) throw new Error("The server has already been started");
    this.#hasStarted = true;
    const { command, args = [], cwd = process.cwd(), environment, env = {} } = this.#options;
    const path = env.PATH ?? environment.PATH ?? "/usr/local/bin:/usr/bin:/bin";
    const sandbox = ServerSandboxSchema.parse(this.#options.sandbox ?? {});
    try {
      const { argv, layers, uid } = await toServerCommand({ command, args, cwd, path }, sandbox);
      this.#uid = uid;
      if (this.#closing !== undefined) throw new Error("The server was closed while it was starting");
      this.#layers = layers;
      const home = uid === undefined || env.HOME !== undefined ? environment.HOME : this.#makeHome(uid);
      await this.#spawn(argv, cwd, { PATH: path, ...(home === undefined ? {} : { HOME: home }), ...env }, uid);
    } catch (thrown) {
      // Without `onclose`, because the rejection reports the failure.
      this.#finish(false);
      throw thrown;
    }
  }

  /** Creates a home folder for a user of its own, which cannot write to the host's folders. */
  #makeHome(uid: number): string {
    const home = mkdtempSync(join(tmpdir(), "glovebox-mcp-"));
    this.#home = home;
    chownSync(home, uid, uid);
    return home;
  }

  async #spawn(
    [program = "", ...args]: readonly string[],
    cwd: string,
    env: { readonly [name: string]: string },
    uid: number | undefined,
  ): Promise<void> {
    // Detached, so that the process leads a group, and signals of the host's terminal do not reach it.
    const child: Child = spawn(program, args, { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
    const started = Promise.withResolvers<void>();
    child.once("spawn", started.resolve).on("error", (error) => {
      started.reject(error);
      this.#hasExited = true;
      this.#exited.resolve();
    });
    child.once("exit", (code, signal) => this.#handleExit(signal === null ? `code ${code}` : signal));
    for (const stream of [child.stdin, child.stdout, child.stderr]) {
      stream.on("error", (error) => this.#report(error));
      // A server must not keep the host alive. Calls in progress do so by their timers.
      (stream as unknown as { unref?: () => void }).unref?.();
    }
    child.unref();
    const { pid } = child;
    if (pid !== undefined) {
      this.#child = child;
      this.#tree = { pid, uid, isNamespace: this.#layers.has("namespaces") };
      killAtExit(this);
      this.#reading = Promise.all([this.#read(child.stdout), this.#diagnostics.readStderr(child.stderr)]);
    }
    await started.promise;
  }

  #report(error: unknown): void {
    if (!this.#isClosed && this.#closing === undefined)
      this.onerror?.(Error.isError(error) ? error : new Error("The stream of the server failed"));
  }

  #handleExit(reason: string): void {
    this.#hasExited = true;
    this.#diagnostics.exit = `Exited with ${reason}`;
    // Orphaned processes are killed too, without waiting for their end.
    if (this.#tree !== undefined) killTree(this.#tree, true);
    this.#exited.resolve();
    this.#diagnostics.drainStderr();
    const timer = new RunningTimer(DRAIN_MS, () => this.#finish(), LONG_LATE_MS);
    void this.#reading.then(() => {
      timer[Symbol.dispose]();
      this.#finish();
    });
  }

  #finish(notify = true): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    running.delete(this);
    this.#aborter.abort();
    for (const stream of [this.#child?.stdin, this.#child?.stdout, this.#child?.stderr]) stream?.destroy();
    const home = this.#home;
    // Not awaited, because removing a large folder takes time.
    if (home !== undefined) rm(home, { recursive: true, force: true }).catch(() => {});
    if (this.#uid !== undefined) releaseUid(this.#uid);
    this.#closed.resolve();
    if (notify) this.onclose?.();
  }

  /** Reads stdout only as fast as messages are processed. Backpressure blocks a faster server. */
  async #read(stdout: Readable): Promise<void> {
    try {
      for await (const piece of stdout as AsyncIterable<Buffer>) {
        // While closing, output is discarded: a program that blocks on a full pipe could not exit.
        if (this.#closing !== undefined) continue;
        let began = performance.now();
        for (const line of this.#lines.read(piece)) {
          if (this.#isClosed || this.#closing !== undefined) break;
          const reading = this.#take(line);
          // A message that is parsed over several turns of the event loop has its own time slices.
          if (reading !== undefined) await reading;
          const wait = readingBudget.charge(reading === undefined ? began : performance.now());
          if (wait !== undefined) await wait;
          began = performance.now();
        }
        if (this.#lines.openBytes > MAX_LONG_LINES * this.#maxBytes) {
          throw new RangeError(`Expected a message of at most ${this.#maxBytes} bytes, got a line without an end`);
        }
      }
    } catch (thrown) {
      if (this.#hasExited) return;
      this.#report(thrown);
      void this.close();
    }
  }

  /** Processes one line. Returns a promise if that takes more than one turn of the event loop. */
  #take(line: Buffer | LongMessage): Promise<void> | undefined {
    if (!("head" in line) && line.length === 0) return undefined;
    const reading = readMessage(line, this.#maxBytes, this.#aborter.signal);
    if (!(reading instanceof Promise)) return this.#deliver(reading, line);
    return reading.then((message) => this.#deliver(message, line));
  }

  #deliver(message: JSONRPCMessage | undefined, line: Buffer | LongMessage): undefined {
    if (message === undefined) this.#diagnostics.addStray("head" in line ? line.head : line);
    else this.#pass(message);
  }

  #pass(message: JSONRPCMessage): void {
    if (this.#isClosed) return;
    try {
      this.onmessage?.(message);
    } catch (thrown) {
      this.#report(thrown);
    }
  }

  /** @throws {Error} as a rejection, if the process has ended or does not read its input */
  async send(message: JSONRPCMessage, _options?: TransportSendOptions): Promise<void> {
    const stdin = this.#child?.stdin;
    if (stdin === undefined || this.#isClosed || !stdin.writable) throw new Error("The server process has ended");
    const line = `${JSON.stringify(message)}\n`;
    const waiting = stdin.writableLength;
    if (waiting > 0 && waiting + Buffer.byteLength(line) > this.#maxBytes) {
      throw new Error(`The server does not read its stdin: ${waiting} bytes are waiting`);
    }
    stdin.write(line);
  }

  /** Sends SIGKILL to all processes of the server. */
  kill(): void {
    if (this.#tree !== undefined) killTree(this.#tree, this.#hasExited);
  }

  /** Ends stdin, then sends SIGTERM, then SIGKILL, to all processes of the server. Takes bounded time; a second call has no effect. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const child = this.#child;
    const tree = this.#tree;
    if (child === undefined || tree === undefined) {
      // If `start()` is in progress, it throws and finishes.
      if (!this.#hasStarted) this.#finish();
      return;
    }
    // Unread input would delay the end of stdin.
    if (child.stdin.writableLength > 0) child.stdin.destroy();
    else child.stdin.end();
    if (!(await within(this.#exited.promise, END_MS))) terminateTree(tree);
    if (!(await within(this.#exited.promise, TERMINATE_MS))) this.kill();
    await within(this.#closed.promise, GIVE_UP_MS);
    this.#finish();
  }
}

/** Returns whether a promise resolves within a time, in which neither the host nor the whole machine has paused. */
async function within(promise: Promise<void>, ms: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  using _timer = new RunningTimer(ms, () => resolve(false), LONG_LATE_MS);
  return await Promise.race([promise.then(() => true), late]);
}
