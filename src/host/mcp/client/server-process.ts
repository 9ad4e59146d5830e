// An upstream server that is a program, as a transport of MCP's SDK. It is believed in nothing: what it writes is bounded before it is
// read, what it does not read is not kept without end, and it ends as a whole.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { chownSync, mkdtempSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, Transport, TransportSendOptions } from "@modelcontextprotocol/client";
import type { LongMessage } from "./reading/bounded-bytes.ts";
import { LineReader } from "./reading/line-reader.ts";
import { readMessage } from "./reading/read-message.ts";
import { readingBudget } from "./reading/reading-budget.ts";
import { DiagnosticsRecorder, type ServerDiagnostics } from "./server-diagnostics.ts";
import { type ServerLayer, type ServerSandbox, ServerSandboxSchema, toServerCommand } from "./server-sandbox.ts";
import { killTree, type ServerTree, terminateTree } from "./server-tree.ts";

export interface ServerProcessOptions {
  /** A path, or a name that is looked for in its PATH. */
  readonly command: string;
  readonly args?: readonly string[] | undefined;
  /** All of its environment but PATH and HOME, which it has of the host's, or a HOME of its own with a user of its own. */
  readonly env?: { readonly [name: string]: string } | undefined;
  /** The host's own folder unless stated. */
  readonly cwd?: string | undefined;
  /** The host's, to take those two from. */
  readonly environment: NodeJS.ProcessEnv;
  /** Of one message that it sends, and of what waits for it to read; 4 MiB unless stated. */
  readonly maxMessageBytes?: number | undefined;
  readonly sandbox?: ServerSandbox | undefined;
}

const DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024;
/** A line past the bound goes by unread, but not for ever. */
const MAX_LONG_LINES = 16;

/** From the end of its stdin to SIGTERM, and from that to SIGKILL (spec, lifecycle, "Shutdown": how long is left to the client). */
const END_MS = 1_000;
const TERMINATE_MS = 1_000;
/** From its exit until what it has written is read; a process that it left behind may hold a pipe open. Less than GIVE_UP_MS. */
const DRAIN_MS = 400;
/** SIGKILL may find a process in the kernel. */
const GIVE_UP_MS = 500;

/** Where nothing else ends them with the host (no setpriv, no namespaces), this does, unless the host is killed. */
const running = new Set<ServerProcess>();
let isListening = false;
function endWithHost(server: ServerProcess): void {
  running.add(server);
  if (isListening) return;
  isListening = true;
  process.on("exit", () => {
    for (const each of running) each.kill();
  });
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

export class ServerProcess implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  /** By it and `pid` the SDK knows a program's transport. */
  readonly stderr = null;
  readonly #options: ServerProcessOptions;
  readonly #maxBytes: number;
  readonly #lines: LineReader;
  readonly #aborter = new AbortController();
  #hasStarted = false;
  #child: Child | undefined;
  #tree: ServerTree | undefined;
  #home: string | undefined;
  #layers: ReadonlySet<ServerLayer> = new Set();
  readonly #exited = Promise.withResolvers<void>();
  readonly #closed = Promise.withResolvers<void>();
  #isClosed = false;
  #closing: Promise<void> | undefined;
  #hasExited = false;
  /** Settles when all that it has written has been read. */
  #reading: Promise<unknown> = Promise.resolve();
  readonly #diagnostics = new DiagnosticsRecorder();

  constructor(options: ServerProcessOptions) {
    this.#options = options;
    this.#maxBytes = options.maxMessageBytes ?? DEFAULT_MESSAGE_BYTES;
    this.#lines = new LineReader({ maxBytes: this.#maxBytes });
  }

  /** Of the outermost process, a wrapper where there is one; all others end with it. Null before the start, and after the end. */
  get pid(): number | null {
    return this.#hasExited ? null : (this.#child?.pid ?? null);
  }

  /** What holds of what it is wrapped in. */
  get layers(): ReadonlySet<ServerLayer> {
    return this.#layers;
  }

  get diagnostics(): ServerDiagnostics {
    return this.#diagnostics.current;
  }

  /** @throws {ToolError} TOOL_UNAVAILABLE, as a rejection, where it cannot be started */
  async start(): Promise<void> {
    if (this.#hasStarted) throw new Error("Expected a server that has not been started");
    this.#hasStarted = true;
    const { command, args = [], cwd = process.cwd(), environment, env = {} } = this.#options;
    const path = env.PATH ?? environment.PATH ?? "/usr/local/bin:/usr/bin:/bin";
    const sandbox = ServerSandboxSchema.parse(this.#options.sandbox ?? {});
    try {
      const { argv, layers, uid } = await toServerCommand({ command, args, cwd, path }, sandbox);
      if (this.#closing !== undefined) throw new Error("It was closed before it had started");
      this.#layers = layers;
      const home = uid === undefined || env.HOME !== undefined ? environment.HOME : this.#makeHome(uid);
      await this.#spawn(argv, cwd, { PATH: path, ...(home === undefined ? {} : { HOME: home }), ...env }, uid);
    } catch (thrown) {
      // The rejection says it.
      this.#finish(false);
      throw thrown;
    }
  }

  /** A user of its own has no folder of the host's to write to. */
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
    // A group of its own, out of reach of the host's terminal.
    const child: Child = spawn(program, args, { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
    const started = Promise.withResolvers<void>();
    child.once("spawn", started.resolve).on("error", (error) => {
      started.reject(error);
      this.#hasExited = true;
      this.#exited.resolve();
    });
    child.once("exit", (code, signal) => this.#exit(signal === null ? `code ${code}` : signal));
    for (const stream of [child.stdin, child.stdout, child.stderr]) {
      stream.on("error", (error) => this.#report(error));
      // Whoever waits for an answer has a timer; nobody else is to be held up by a server.
      (stream as unknown as { unref?: () => void }).unref?.();
    }
    child.unref();
    const { pid } = child;
    if (pid !== undefined) {
      this.#child = child;
      this.#tree = { pid, uid, isNamespace: this.#layers.has("namespaces") };
      endWithHost(this);
      this.#reading = Promise.all([this.#read(child.stdout), this.#diagnostics.readStderr(child.stderr)]);
    }
    await started.promise;
  }

  #report(error: unknown): void {
    if (!this.#isClosed && this.#closing === undefined)
      this.onerror?.(Error.isError(error) ? error : new Error("It could not be read"));
  }

  #exit(how: string): void {
    this.#hasExited = true;
    this.#diagnostics.ending = `It ended with ${how}`;
    // What it leaves behind ends with it, and is not waited for.
    if (this.#tree !== undefined) killTree(this.#tree, true);
    this.#exited.resolve();
    this.#diagnostics.drainStderr();
    const timer = setTimeout(() => this.#finish(), DRAIN_MS).unref();
    void this.#reading.then(() => {
      clearTimeout(timer);
      this.#finish();
    });
  }

  #finish(isTold = true): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    running.delete(this);
    this.#aborter.abort();
    for (const stream of [this.#child?.stdin, this.#child?.stdout, this.#child?.stderr]) stream?.destroy();
    const home = this.#home;
    // It may be large, and nobody waits for that.
    if (home !== undefined) rm(home, { recursive: true, force: true }).catch(() => {});
    this.#closed.resolve();
    if (isTold) this.onclose?.();
  }

  /** As fast as it is taken; what is more waits in the pipe, and then in the server. */
  async #read(stdout: Readable): Promise<void> {
    try {
      for await (const piece of stdout as AsyncIterable<Buffer>) {
        // It may have to write before it can end; nobody reads that any more.
        if (this.#closing !== undefined) continue;
        let began = performance.now();
        for (const line of this.#lines.read(piece)) {
          if (this.#isClosed || this.#closing !== undefined) break;
          const reading = this.#take(line);
          // What is parsed over several turns has time slices of its own.
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

  /** Takes one line; a promise where it takes more than a turn. */
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

  /** @throws {Error} as a rejection: it has ended, or does not read what it was sent before */
  async send(message: JSONRPCMessage, _options?: TransportSendOptions): Promise<void> {
    const stdin = this.#child?.stdin;
    if (stdin === undefined || this.#isClosed || !stdin.writable) throw new Error("The server has ended");
    const line = `${JSON.stringify(message)}\n`;
    const waiting = stdin.writableLength;
    if (waiting > 0 && waiting + Buffer.byteLength(line) > this.#maxBytes) {
      throw new Error(`The server does not read what it is sent: ${waiting} bytes wait for it`);
    }
    stdin.write(line);
  }

  /** SIGKILL for all of it, at once. */
  kill(): void {
    if (this.#tree !== undefined) killTree(this.#tree, this.#hasExited);
  }

  /** Its stdin ends, then it is asked to end, then it is killed, and all it has started with it. In bounded time; twice is a no-op. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const child = this.#child;
    const tree = this.#tree;
    if (child === undefined || tree === undefined) {
      // It may be starting, and will not.
      if (!this.#hasStarted) this.#finish();
      return;
    }
    // What it has not read it will not read.
    if (child.stdin.writableLength > 0) child.stdin.destroy();
    else child.stdin.end();
    if (!(await within(this.#exited.promise, END_MS))) terminateTree(tree);
    if (!(await within(this.#exited.promise, TERMINATE_MS))) this.kill();
    await within(this.#closed.promise, GIVE_UP_MS);
    this.#finish();
  }
}

/** Whether it has settled by then. */
async function within(promise: Promise<void>, ms: number): Promise<boolean> {
  const { promise: late, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), ms);
  const isThere = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return isThere;
}
