// quickjs-emscripten: QuickJS in WebAssembly, in this process. JSON text in and out, promises resolved by pumping its jobs.
import { answer, type Job } from "../support/jobs.ts";
import { type LoadedJob, load, type Peer, type PeerAdapter } from "./peer.ts";

interface Handle {
  consume<T>(use: (handle: Handle) => T): T;
  dispose(): void;
}
interface Deferred {
  readonly handle: Handle;
  readonly settled: Promise<void>;
  resolve(value: Handle): void;
}
interface Context {
  readonly global: Handle;
  readonly undefined: Handle;
  readonly runtime: {
    setMemoryLimit(bytes: number): void;
    executePendingJobs(): { dispose(): void };
  };
  evalCode(code: string): unknown;
  unwrapResult(result: unknown): Handle;
  resolvePromise(handle: Handle): Promise<unknown>;
  callFunction(callee: Handle, self: Handle, ...args: Handle[]): unknown;
  newFunction(name: string, body: (...args: Handle[]) => Handle): Handle;
  newPromise(): Deferred;
  newString(text: string): Handle;
  newNumber(value: number): Handle;
  getString(handle: Handle): string;
  getNumber(handle: Handle): number;
  setProp(target: Handle, key: string, value: Handle): void;
  dispose(): void;
}
interface QuickJs {
  getQuickJS(): Promise<{ newContext(): Context }>;
}

const MEMORY_BYTES = 128 * 2 ** 20;

/** `ask` promises its answer, as a host function that waits for something does. */
function giveAsk(context: Context): void {
  const ask = context.newFunction("ask", (argument) => {
    const n = context.getNumber(argument as Handle);
    const deferred = context.newPromise();
    void Promise.resolve(answer(n)).then((value) => {
      context.newNumber(value).consume((handle) => deferred.resolve(handle));
      context.runtime.executePendingJobs().dispose();
    });
    return deferred.handle;
  });
  ask.consume((handle) => context.setProp(context.global, "ask", handle));
}

function loadJob(context: Context, { source }: Job): LoadedJob {
  context.runtime.setMemoryLimit(MEMORY_BYTES);
  giveAsk(context);
  const main = context.unwrapResult(
    context.evalCode(
      `((execute) => async (text) => JSON.stringify(await execute(JSON.parse(text), { ask })))(${source})`,
    ),
  );
  return {
    call: async (input) => {
      const text = context.newString(JSON.stringify(input));
      const promise = context.unwrapResult(context.callFunction(main, context.undefined, text));
      text.dispose();
      const settled = context.resolvePromise(promise);
      context.runtime.executePendingJobs().dispose();
      const result = context.unwrapResult(await settled);
      promise.dispose();
      return JSON.parse(result.consume((handle) => context.getString(handle)));
    },
    dispose: () => {
      main.dispose();
      context.dispose();
    },
  };
}

async function open(): Promise<Peer> {
  const { getQuickJS } = await load<QuickJs>("quickjs-emscripten");
  const quickJs = await getQuickJS();
  return {
    run: async (job) => {
      const loaded = loadJob(quickJs.newContext(), job);
      try {
        return await loaded.call(job.input);
      } finally {
        await loaded.dispose();
      }
    },
    load: async (job) => loadJob(quickJs.newContext(), job),
    [Symbol.asyncDispose]: async () => {},
  };
}

export const quickJs: PeerAdapter = { name: "quickjs-emscripten", canAsk: true, open };
