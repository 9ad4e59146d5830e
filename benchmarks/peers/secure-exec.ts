// secure-exec: a V8 isolate with parts of Node around it, in a process beneath this one.
import { load, type Peer, type PeerAdapter } from "./peer.ts";

interface Runtime {
  run(
    code: string,
    path: string,
  ): Promise<{ readonly code: number; readonly exports?: unknown; readonly errorMessage?: string }>;
  terminate(): Promise<void>;
}
interface SecureExec {
  readonly NodeRuntime: new (options: object) => Runtime;
  createNodeDriver(): object;
  createNodeRuntimeDriverFactory(): object;
}

async function open(): Promise<Peer> {
  const { NodeRuntime, createNodeDriver, createNodeRuntimeDriverFactory } = await load<SecureExec>("secure-exec");
  const create = (): Runtime =>
    new NodeRuntime({
      systemDriver: createNodeDriver(),
      runtimeDriverFactory: createNodeRuntimeDriverFactory(),
      memoryLimit: 128,
    });
  // Its process ends with the last runtime: one that stays spares each call the start of a process.
  const keeper = create();
  await keeper.run("export default 1;", "/keeper.mjs");
  return {
    run: async ({ source, input }) => {
      const runtime = create();
      try {
        const code = `export default await (${source})(${JSON.stringify(input)}, {});`;
        const { exports, errorMessage } = await runtime.run(code, "/entry.mjs");
        if (errorMessage !== undefined) throw new Error(errorMessage);
        return (exports as { readonly default?: unknown } | undefined)?.default;
      } finally {
        await runtime.terminate();
      }
    },
    [Symbol.asyncDispose]: () => keeper.terminate(),
  };
}

export const secureExec: PeerAdapter = { name: "secure-exec", canAsk: false, open };
