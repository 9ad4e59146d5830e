// The page that `glovebox run --trace` writes: one call with its timeline, logs, input and output, without a server.
import type { CallTimeline } from "glovebox/client";
import { type JSX, render } from "preact";
import { useState } from "preact/hooks";
import { Badge, Facts, PageHead, Tabs } from "../parts/controls.tsx";
import { ErrorView, type StoredError } from "../parts/error-view.tsx";
import { type LogLine, LogView } from "../parts/log-view.tsx";
import { Timeline } from "../parts/timeline/timeline.tsx";
import type { TimelineUsage } from "../parts/timeline/timeline-facts.tsx";
import { JsonView } from "../parts/values/json-view.tsx";
import { formatBytes, formatMs, formatUtc } from "../state/format.ts";
import "../assets/style.css";

interface TraceResult {
  readonly toolName: string;
  readonly success: boolean;
  readonly output?: unknown;
  readonly error?: StoredError;
  readonly durationMs: number;
  readonly usage: TimelineUsage & { readonly [name: string]: number };
  readonly logs: readonly LogLine[];
  readonly timeline?: CallTimeline["spans"];
  readonly calls?: CallTimeline["calls"];
}
interface Trace {
  readonly startedAt: number;
  readonly version: string;
  readonly input: unknown;
  readonly result: TraceResult;
}

const TABS = [
  ["timeline", "Timeline"],
  ["logs", "Logs"],
  ["input", "Input and output"],
] as const;

function Page({ trace }: { readonly trace: Trace }): JSX.Element {
  const [tab, setTab] = useState<string>("timeline");
  const { result, input, startedAt, version } = trace;
  const { usage, error } = result;
  const log = { lines: result.logs, startedAt, isLive: false, dropped: usage.logsDropped };
  return (
    <main class="trace">
      <PageHead title={result.toolName}>
        <Badge>{result.success ? "succeeded" : "failed"}</Badge>
      </PageHead>
      <div class="card">
        <Facts
          facts={[
            ["Started", formatUtc(startedAt)],
            ["Duration", formatMs(result.durationMs)],
            ["Build", formatMs(usage.bundleMs)],
            ["CPU time", formatMs(usage.cpuMs)],
            ["Memory", formatBytes(Math.max(usage.peakBytes ?? 0, usage.heapBytes ?? 0))],
            ["Sent", formatBytes(usage.egressBytesOut)],
            ["Received", formatBytes(usage.egressBytesIn)],
            ["Glovebox", version],
          ]}
        />
      </div>
      {error === undefined ? null : <ErrorView error={error} />}
      <Tabs label="Parts of the call" tabs={TABS} selected={tab} onSelect={setTab} />
      {tab === "timeline" ? (
        <Timeline
          timeline={{ spans: result.timeline ?? [], calls: result.calls ?? [] }}
          totalMs={result.durationMs}
          usage={usage}
          beside={
            <section aria-label="Logs">
              <h2 class="logs-heading">Logs</h2>
              <LogView {...log} />
            </section>
          }
        />
      ) : null}
      {tab === "logs" ? <LogView {...log} /> : null}
      {tab === "input" ? (
        <div class="columns">
          <section>
            <h2>Input</h2>
            <JsonView value={input} label="Input" />
          </section>
          <section>
            <h2>Output</h2>
            <JsonView value={result.output ?? null} label="Output" />
          </section>
        </div>
      ) : null}
    </main>
  );
}

const text = document.querySelector("#trace")?.textContent ?? "null";
render(<Page trace={JSON.parse(text) as Trace} />, document.querySelector("#app") as HTMLElement);
