// @sebastianwessel/quickjs: a sandbox with parts of Node around QuickJS in WebAssembly, in this process.
import { answer } from "../support/jobs.ts";
import { load, type Peer, type PeerAdapter } from "./peer.ts";

type Outcome =
  | { readonly ok: true; readonly data: unknown }
  | { readonly ok: false; readonly error: { readonly message: string } };
interface SandboxModule {
  loadQuickJs(variant: unknown): Promise<{
    runSandboxed(
      use: (sandbox: { evalCode(code: string): Promise<Outcome> }) => Promise<Outcome>,
      options: { readonly env: object; readonly executionTimeout: number; readonly memoryLimit: number },
    ): Promise<Outcome>;
  }>;
}

async function open(): Promise<Peer> {
  const { loadQuickJs } = await load<SandboxModule>("@sebastianwessel/quickjs");
  const variant = await load<{ readonly default: unknown }>("@jitl/quickjs-ng-wasmfile-release-sync");
  const { runSandboxed } = await loadQuickJs(variant.default);
  return {
    run: async ({ source, input }) => {
      const code = `export default await (${source})(env.input, { ask: env.ask });`;
      const env = { input, ask: async (n: number) => answer(n) };
      const outcome = await runSandboxed(({ evalCode }) => evalCode(code), {
        env,
        executionTimeout: 60_000,
        memoryLimit: 512 * 2 ** 20,
      });
      if (!outcome.ok) throw new Error(outcome.error.message);
      return outcome.data;
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

export const quickJsSandbox: PeerAdapter = { name: "@sebastianwessel/quickjs", canAsk: true, open };
