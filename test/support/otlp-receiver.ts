// A third-party OTLP receiver: that of autotel-mcp, over HTTP on loopback, with a store that can be queried.
import { createServer } from "node:net";
import { createBackend, loadConfig, type MetricSeries, type SpanRecord } from "autotel-mcp";

export interface OtlpReceiver extends AsyncDisposable {
  readonly url: string;
  /** All spans of one trace, by their names; of two with one name the later. */
  spans(traceId: string): Promise<ReadonlyMap<string, SpanRecord>>;
  /** Returns the received series of a metric. */
  metric(name: string): Promise<readonly MetricSeries[]>;
}

async function freePort(): Promise<number> {
  const server = createServer();
  const { promise, resolve } = Promise.withResolvers<number>();
  server.listen(0, "127.0.0.1", () => resolve((server.address() as { readonly port: number }).port));
  const port = await promise;
  await new Promise((closed) => server.close(closed));
  return port;
}

export async function openOtlpReceiver(): Promise<OtlpReceiver> {
  const port = await freePort();
  const { backend, start, stop } = await createBackend(
    loadConfig([], { AUTOTEL_BACKEND: "collector", AUTOTEL_COLLECTOR_PORT: String(port) }),
  );
  await start();
  return {
    url: `http://127.0.0.1:${port}`,
    spans: async (traceId) => {
      const trace = await backend.getTrace(traceId);
      return new Map((trace?.spans ?? []).map((span) => [span.operationName, span]));
    },
    metric: (name) => backend.getMetricSeries(name),
    [Symbol.asyncDispose]: async () => stop(),
  };
}
