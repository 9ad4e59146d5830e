// What happens now: calls over time, the slowest and most frequent tools, and what is wrong.

import type { Overview } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Chart } from "../../parts/chart.tsx";
import { Badge, Empty, ErrorBox, Loading, PageHead, Time } from "../../parts/controls.tsx";
import { formatCount, formatMs, formatNumber, formatPercent } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { address, setQuery, urlOf } from "../../state/router.ts";
import { isPlatform, request } from "../../state/session.ts";
import { TenantTable, ToolTable } from "./overview-tables.tsx";

const HOUR_MS = 3_600_000;
const RANGES: readonly (readonly [id: string, text: string, ms: number])[] = [
  ["1h", "Last hour", HOUR_MS],
  ["6h", "Last 6 hours", 6 * HOUR_MS],
  ["24h", "Last day", 24 * HOUR_MS],
  ["7d", "Last week", 7 * 24 * HOUR_MS],
  ["30d", "Last month", 30 * 24 * HOUR_MS],
];
const REFRESH_MS = 5_000;
const MAX_BUCKETS = 60;

const BAD_KINDS: readonly string[] = ["tool_failing", "webhook_failing"];

/** Problems that are shown at first: the charts below them must stay in reach, whatever one tenant does. */
const SHOWN_PROBLEMS = 10;

type Problem = Overview["problems"][number];

const rate = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const formatRate = (value: number): string => rate.format(value);

const QUOTA_TEXTS: { readonly [resource: string]: string } = {
  calls: "calls",
  cpuMs: "CPU time",
  egressBytes: "bytes sent",
};

/** Returns words for the name of a quota, such as `calls:month`. */
function describeQuota(name: string): string {
  const [resource = name, period] = name.split(":");
  return `${QUOTA_TEXTS[resource] ?? resource}${period === undefined ? "" : ` per ${period}`}`;
}

/** Returns what a problem means, and the page where it can be solved. */
function describeProblem({
  kind,
  tenantId: owner,
  target,
  count,
  details,
}: Problem): readonly [text: string, url: string] {
  const [tool = target] = target.split(/[@:]/);
  const tenantId = owner ?? "";
  const deliveries = count === 1 ? "1 delivery" : `${count} deliveries`;
  switch (kind) {
    case "version_waiting":
      return [`${target} waits for approval`, urlOf(["t", tenantId, "approvals"])];
    case "release_rolled_back":
      return [`${target} was rolled back, because too many calls failed`, urlOf(["t", tenantId, "tools", tool])];
    case "quota_warning":
      return [`Over 80 % of the quota of ${describeQuota(target)} is used`, urlOf(["t", tenantId, "usage"])];
    case "webhook_failing":
      return [
        details.failed === 0
          ? `A webhook does not accept ${deliveries}, which will be tried again`
          : `${deliveries} of a webhook failed`,
        urlOf(["t", tenantId, "webhooks"], { webhook: target }),
      ];
    case "tool_failing":
      return [
        `${count} calls of ${target} failed in the last hour`,
        urlOf(["t", tenantId, "calls"], { tool: target, state: "failed" }),
      ];
    case "calls_waiting_for_approval":
      return [
        count === 1 ? `1 call of ${target} waits for approval` : `${count} calls of ${target} wait for approval`,
        urlOf(["t", tenantId, "approvals"]),
      ];
    case "runs_waiting_for_approval":
      return [
        count === 1 ? `1 run of ${target} waits for approval` : `${count} runs of ${target} wait for approval`,
        urlOf(["t", tenantId, "approvals"]),
      ];
    case "schedule_failing":
      return [
        `The last run of the schedule ${String(details.name)} failed (${String(details.code)})`,
        urlOf(["t", tenantId, "calls", String(details.callId)]),
      ];
    case "tool_quarantined":
      return [`${target} may have ended a process: its calls run alone for now`, urlOf(["t", tenantId, "tools", tool])];
    case "circuit_open":
      return [`${target} is not called at present, because it keeps failing`, urlOf(["t", tenantId, "calls"])];
    case "worker_unhardened":
      return [`Worker processes run without the layer ${target}`, urlOf(["workers"])];
  }
}

export function OverviewPage({ tenantId }: { readonly tenantId: string | undefined }): JSX.Element {
  const selected = address.value.query.range ?? "1h";
  const ms = RANGES.find(([id]) => id === selected)?.[2] ?? HOUR_MS;
  const path = tenantId === undefined ? "/v1/overview" : `/v1/tenants/${encodeURIComponent(tenantId)}/overview`;
  const { value, error, reload } = useResource(
    `${path} ${ms}`,
    (signal) => request<Overview>("GET", path, { query: { ms, buckets: MAX_BUCKETS }, signal }),
    REFRESH_MS,
  );
  return (
    <>
      <PageHead title={tenantId === undefined ? "Overview" : `Overview of ${tenantId}`}>
        <select
          aria-label="Time range"
          value={selected}
          onChange={(event) => setQuery({ range: event.currentTarget.value })}
        >
          {RANGES.map(([id, text]) => (
            <option key={id} value={id}>
              {text}
            </option>
          ))}
        </select>
      </PageHead>
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {error === undefined || value !== undefined || tenantId === undefined || !isPlatform.value ? null : (
        <a href={urlOf(["tenants"])}>All tenants</a>
      )}
      {value === undefined && error === undefined ? <Loading /> : null}
      {value === undefined ? null : <Figures overview={value} ms={ms} tenantId={tenantId} />}
    </>
  );
}

interface FiguresProps {
  readonly overview: Overview;
  readonly ms: number;
  readonly tenantId: string | undefined;
}

function Figures({ overview, ms, tenantId }: FiguresProps): JSX.Element {
  const { total, buckets, tools, tenants, problems, cpuMs, queued, running, isPartial, completeFrom } = overview;
  const times = buckets.map(({ at }) => at);
  const seconds = ms / buckets.length / 1_000;
  const failed = total.calls === 0 ? 0 : total.failed / total.calls;
  return (
    <>
      <ul class="tiles">
        <Tile name="Calls" value={formatCount(total.calls)} />
        <Tile name="Failed" value={formatPercent(failed)} tone={failed > 0.05 ? "bad" : undefined} />
        <Tile name="p50" value={formatMs(total.p50)} />
        <Tile name="p95" value={formatMs(total.p95)} />
        <Tile name="p99" value={formatMs(total.p99)} />
        <Tile name="CPU time" value={formatMs(cpuMs)} />
        <Tile name="Waiting p95" value={formatMs(total.waitP95)} />
        <Tile name="Running" value={formatCount(running)} />
        <Tile name="Queued" value={formatCount(queued)} />
      </ul>
      {isPartial ? (
        <p class="faint">
          Durations and waiting times are those of the newest 20,000 calls, since <Time at={completeFrom} />. Numbers of
          calls and CPU time before that are by hour.
        </p>
      ) : null}
      <Problems problems={problems} hasTenants={tenantId === undefined} />
      {total.calls === 0 && queued === 0 ? (
        <Empty
          title="No calls in this time"
          command={`npx glovebox call NAME --input '{}'${tenantId === undefined ? "" : ` --tenant ${tenantId}`}`}
        >
          Each call appears here within seconds, with its duration and outcome.
        </Empty>
      ) : (
        <>
          <div class="charts">
            <Chart
              label="Calls per second"
              times={times}
              format={formatRate}
              series={[
                { label: "all", color: "--blue", values: buckets.map(({ calls }) => calls / seconds), isFilled: true },
                { label: "failed", color: "--red", values: buckets.map((bucket) => bucket.failed / seconds) },
              ]}
            />
            <Chart
              label="Duration"
              times={times}
              format={formatMs}
              series={[
                { label: "p99", color: "--violet", values: buckets.map(({ p99 }) => p99) },
                { label: "p95", color: "--orange", values: buckets.map(({ p95 }) => p95) },
                { label: "p50", color: "--blue", values: buckets.map(({ p50 }) => p50) },
              ]}
            />
            <Chart
              label="CPU time per second"
              times={times}
              format={formatMs}
              series={[
                {
                  label: "all calls",
                  color: "--teal",
                  values: buckets.map((bucket) => bucket.cpuMs / seconds),
                  isFilled: true,
                },
              ]}
            />
            <Chart
              label="Waiting time"
              times={times}
              format={formatMs}
              series={[{ label: "p95", color: "--orange", values: buckets.map(({ waitP95 }) => waitP95) }]}
            />
          </div>
          {tenantId === undefined ? <TenantTable tenants={tenants} /> : null}
          <ToolTable tools={tools} hasTenants={tenantId === undefined} />
        </>
      )}
    </>
  );
}

function Tile(props: {
  readonly name: string;
  readonly value: string;
  readonly tone?: string | undefined;
}): JSX.Element {
  return (
    <li class={props.tone ?? ""}>
      <span>{props.name}</span>
      <strong>{props.value}</strong>
    </li>
  );
}

/** What needs attention, each with a link to the page where it can be solved. */
function Problems({
  problems,
  hasTenants,
}: {
  readonly problems: readonly Problem[];
  readonly hasTenants: boolean;
}): JSX.Element {
  const [showsAll, setShowsAll] = useState(false);
  if (problems.length === 0) return <p class="card good-line">Nothing needs attention.</p>;
  return (
    <section class="card">
      <h2>Needs attention</h2>
      <ul class="plain-list">
        {(showsAll ? problems : problems.slice(0, SHOWN_PROBLEMS)).map((problem) => {
          const [text, url] = describeProblem(problem);
          return (
            <li key={`${problem.kind} ${problem.tenantId} ${problem.target}`} class="row">
              <Badge tone={BAD_KINDS.includes(problem.kind) ? "bad" : "warn"}>{problem.kind}</Badge>
              <a href={url}>{text}</a>
              <span class="faint">
                {hasTenants && problem.tenantId !== null ? `${problem.tenantId} · ` : ""}
                <Time at={problem.at} isAge />
              </span>
            </li>
          );
        })}
      </ul>
      {showsAll || problems.length <= SHOWN_PROBLEMS ? null : (
        <button type="button" class="button quiet" onClick={() => setShowsAll(true)}>
          Show all {formatNumber(problems.length)}
        </button>
      )}
    </section>
  );
}
