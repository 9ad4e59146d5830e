// A third-party OTLP receiver: that of autotel-mcp, over HTTP on loopback, with a store that can be queried.
import { createBackend, loadConfig, type MetricSeries, type SpanRecord } from "autotel-mcp";
import { freePort } from "./free-port.ts";

export interface OtlpReceiver extends AsyncDisposable {
  readonly url: string;
  /** All spans of one trace, by their names; of two with one name the later. */
  spans(traceId: string): Promise<ReadonlyMap<string, SpanRecord>>;
  /** Returns the received series of a metric. */
  metric(name: string): Promise<readonly MetricSeries[]>;
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
