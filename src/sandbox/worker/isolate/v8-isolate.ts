// One V8 isolate with its context: sets its memory limit, compiles scripts, makes their code caches, reads the heap, and opens DevTools sessions.
import ivm from "isolated-vm";
import { PRELUDE_SCRIPT_NAME, TOOL_SCRIPT_NAME } from "../../protocol/guest-messages.ts";
import type { PlatformModuleName } from "../../protocol/platform-modules.ts";
import { type CodeCache, type LoadableBundle, type PlatformModules, scriptOptions } from "./engine.ts";

/** Longest bundle that is compiled synchronously, in UTF-16 code units. It compiles in less than a millisecond. */
const SMALL_BUNDLE_LENGTH = 64 * 1024;

export interface V8IsolateOptions {
  readonly memoryMiB: number;
  /** Whether the isolate can be inspected. Only in a worker that the host started for inspection. */
  readonly inspector?: boolean;
}

export class V8Isolate {
  readonly #isolate: ivm.Isolate;
  #madeContext: ivm.Context | undefined;
  readonly #isInspectable: boolean;
  #inspector: ivm.InspectorSession | undefined;

  constructor({ memoryMiB, inspector = false }: V8IsolateOptions) {
    this.#isInspectable = inspector;
    this.#isolate = new ivm.Isolate({
      __proto__: null,
      memoryLimit: memoryMiB,
      inspector,
    } as unknown as ivm.IsolateOptions);
  }

  /** Created when it is first used, because a warm isolate is made in steps, between which the worker reads messages. */
  get #context(): ivm.Context {
    const inspector = this.#isInspectable;
    this.#madeContext ??= this.#isolate.createContextSync({
      __proto__: null,
      inspector,
    } as unknown as ivm.ContextOptions);
    return this.#madeContext;
  }

  /** Whether it was disposed. V8 does so by itself only for the memory limit. */
  get isDisposed(): boolean {
    return this.#isolate.isDisposed;
  }

  /** Wall-clock time in ms that threads have spent in the isolate. V8's counter is paused while the guest waits for a response. */
  get busyMs(): number {
    return Number(this.#isolate.cpuTime) / 1e6;
  }

  /**
   * Reads the size in bytes of the V8 heap and array buffers in use, which takes 6 to 17 µs and waits for a running guest.
   * @throws {Error} if the isolate has exceeded its memory limit, which V8 detects on this entry
   */
  readHeapBytes(): number {
    const statistics = this.#isolate.getHeapStatisticsSync();
    return statistics.used_heap_size + statistics.externally_allocated_size;
  }

  /**
   * Runs a script synchronously and returns its value. Only for scripts that do not run tool code: the prelude and function expressions.
   */
  evaluate(code: string, filename: string, cache?: CodeCache): ivm.Reference {
    const script = this.#isolate.compileScriptSync(code, scriptOptions(filename, cache));
    return script.runSync(this.#context, { reference: true }) as unknown as ivm.Reference;
  }

  /** Compiles a bundle. Its script only creates a function; the tool's code first runs when that is called. */
  async compileBundle({ code, codeCache }: LoadableBundle): Promise<ivm.Reference> {
    // Waking up another thread twice would take longer than compiling a small bundle here. This thread must not run code of an inspected
    // isolate, though: a breakpoint would block it, and only this thread can receive the message that continues the isolate.
    if (code.length <= SMALL_BUNDLE_LENGTH && !this.#isInspectable) {
      return this.evaluate(code, TOOL_SCRIPT_NAME, codeCache);
    }
    const script = await this.#isolate.compileScript(code, scriptOptions(TOOL_SCRIPT_NAME, codeCache));
    return (await script.run(this.#context, { reference: true })) as unknown as ivm.Reference;
  }

  /** Compiles a platform module to a function. Must be called before tool code runs in the isolate. */
  compileModule(modules: PlatformModules, name: PlatformModuleName): ivm.Reference {
    return this.evaluate(modules.source(name), PRELUDE_SCRIPT_NAME, modules.cache(name));
  }

  /** Compiles a script again that this isolate has run: V8 then caches all its functions, including those compiled lazily. */
  makeCache(code: string, filename: string): Uint8Array {
    const script = this.#isolate.compileScriptSync(code, { filename, produceCachedData: true }) as unknown as {
      readonly cachedData?: ivm.ExternalCopy<ArrayBuffer>;
    };
    return script.cachedData === undefined ? new Uint8Array(0) : new Uint8Array(script.cachedData.copy());
  }

  /**
   * Opens a DevTools session. Must be called before tool code is in the isolate. V8 opens a session only under the isolate's lock, which
   * this thread holds during a callback from code in the isolate.
   */
  openInspector(onMessage: (text: string) => void): void {
    // isolated-vm's callbacks do not end a turn of the event loop, so process.nextTick callbacks would wait for the next turn.
    const forward = (text: string): void => void setImmediate(() => onMessage(text));
    const open = new ivm.Callback(
      () => {
        const session = this.#isolate.createInspectorSession();
        session.onResponse = (_id, text) => forward(text);
        session.onNotification = forward;
        this.#inspector = session;
      },
      { sync: true },
    );
    this.evaluate("(open) => open()", PRELUDE_SCRIPT_NAME).applySync(undefined, [open]);
  }

  /** Sends a DevTools message to the isolate. Also works while the guest runs or is paused at a breakpoint. */
  inspect(message: string): void {
    this.#inspector?.dispatchProtocolMessage(message);
  }

  /**
   * Ends running code and disposes the isolate. Does nothing once a DevTools session is open: isolated-vm deletes V8's side of the session on
   * another thread, which can crash or block the process. The host ends the process instead.
   */
  dispose(): void {
    if (this.#inspector === undefined && !this.#isolate.isDisposed) this.#isolate.dispose();
  }
}
