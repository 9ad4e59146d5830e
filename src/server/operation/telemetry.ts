// Sends traces and metrics of calls over OTLP, if the environment names a receiver (OTEL_EXPORTER_OTLP_ENDPOINT). The packages of the SDK are
// optional peer dependencies.
import { type TelemetryOptions, ToolError } from "../../host/index.ts";

const PACKAGES = [
  "@opentelemetry/api",
  "@opentelemetry/exporter-metrics-otlp-http",
  "@opentelemetry/exporter-trace-otlp-http",
  "@opentelemetry/resources",
  "@opentelemetry/sdk-metrics",
  "@opentelemetry/sdk-trace",
] as const;
/** Longest time in ms that closing waits for the receiver. */
const FLUSH_MS = 5_000;

export interface ServerTelemetry extends AsyncDisposable {
  readonly options: TelemetryOptions;
}

async function importSdk() {
  try {
    const [resources, metrics, traces, metricExporter, traceExporter] = await Promise.all([
      import("@opentelemetry/resources"),
      import("@opentelemetry/sdk-metrics"),
      import("@opentelemetry/sdk-trace"),
      import("@opentelemetry/exporter-metrics-otlp-http"),
      import("@opentelemetry/exporter-trace-otlp-http"),
    ]);
    return { resources, metrics, traces, metricExporter, traceExporter };
  } catch (cause) {
    const message = `OTEL_EXPORTER_OTLP_ENDPOINT needs packages that are not installed: npm install ${PACKAGES.join(" ")}`;
    throw new ToolError("PARAM_INVALID", message, { cause });
  }
}

/**
 * Opens the exporters, which read their own variables (`OTEL_EXPORTER_OTLP_HEADERS` and so on).
 * @throws {ToolError} PARAM_INVALID if a package is missing
 */
export async function openTelemetry(version: string): Promise<ServerTelemetry> {
  const { resources, metrics, traces, metricExporter, traceExporter } = await importSdk();
  const resource = resources.resourceFromAttributes({ "service.name": "glovebox", "service.version": version });
  const exporter = new traceExporter.OTLPTraceExporter();
  const tracerProvider = new traces.TracerProvider({
    resource,
    spanProcessors: [new traces.BatchSpanProcessor({ exporter })],
  });
  const reader = new metrics.PeriodicExportingMetricReader({ exporter: new metricExporter.OTLPMetricExporter() });
  const meterProvider = new metrics.MeterProvider({ resource, readers: [reader] });
  return {
    options: { tracerProvider, meterProvider },
    [Symbol.asyncDispose]: async () => {
      const flushed = Promise.allSettled([tracerProvider.shutdown(), meterProvider.shutdown()]);
      let timer: NodeJS.Timeout | undefined;
      const late = new Promise((resolve) => {
        timer = setTimeout(resolve, FLUSH_MS);
      });
      await Promise.race([flushed, late]);
      clearTimeout(timer);
    },
  };
}
