// Makes a warm isolate of a tool in a process that runs, before a call of it arrives.
import type { WorkerToolProfile } from "../../../sandbox/protocol/host-messages.ts";
import type { CallListener } from "../process/call-events.ts";
import type { WorkerProcess } from "../process/worker-process.ts";
import type { SentBundle } from "../worker-job.ts";

export interface WarmIsolate {
  readonly profile: WorkerToolProfile;
  readonly bundle: SentBundle;
  readonly tenantId: string;
  /** Id of the tool whose call rate predicts this one's. */
  readonly like: number | undefined;
}

/**
 * Lets a process load a tool as for a call, without calling it. Resolves when the isolate is ready or could not be made. Never rejects.
 * @param onStarted called when the process has the order
 */
export async function prewarm(
  worker: WorkerProcess,
  { profile, bundle, tenantId, like }: WarmIsolate,
  onStarted: () => void,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const listener: CallListener = {
    onPlaced() {},
    onLog() {},
    onProgress() {},
    onCapability() {},
    onPaused() {},
    onStuck() {},
    onEnded: () => resolve(),
    onLost: () => resolve(),
  };
  const order = { type: "call", tool: profile, callId: "prewarm", tenantId, prewarm: { like } } as const;
  let timer: NodeJS.Timeout | undefined;
  try {
    const seq = worker.start({ order, bundle, input: "" }, listener);
    timer = setTimeout(() => worker.cancel(seq), profile.limits.timeoutMs);
    onStarted();
    await promise;
  } catch {
    // The process has ended. The next call of the tool starts another one.
  } finally {
    clearTimeout(timer);
  }
}
