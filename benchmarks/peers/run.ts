// run: QuickJS in a worker thread; every run has a context of its own.
import { answer } from "../support/jobs.ts";
import { load, type Peer, type PeerAdapter } from "./peer.ts";

interface RunModule {
  run(options: {
    readonly source: string;
    readonly hostFunctions: { readonly host: { readonly ask: (n: number) => Promise<number> } };
    readonly limits: { readonly [name: string]: number };
  }): Promise<{ readonly status: string; readonly value?: unknown }>;
}

/** Its defaults allow 32 host calls at one time and 256 KiB of source, in which the input is. */
const LIMITS = {
  timeoutMs: 60_000,
  memoryLimitBytes: 512 * 2 ** 20,
  maxSourceBytes: 64 * 2 ** 20,
  maxResultBytes: 64 * 2 ** 20,
  maxBridgeRequests: 1_000,
  maxInFlightBridgeRequests: 1_000,
};

async function open(): Promise<Peer> {
  const { run } = await load<RunModule>("run");
  return {
    run: async ({ source, input }) => {
      const result = await run({
        source: `return await (${source})(${JSON.stringify(input)}, host);`,
        hostFunctions: { host: { ask: async (n) => answer(n) } },
        limits: LIMITS,
      });
      if (result.status !== "completed") throw new Error(`Expected a completed run, got ${result.status}`);
      return result.value;
    },
    [Symbol.asyncDispose]: async () => {},
  };
}

export const run: PeerAdapter = { name: "run", canAsk: true, open };
