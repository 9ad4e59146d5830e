// Rehearses a version of a tool: replays its recorded calls on the version, and shows what would have been different.

import type { Rehearsal } from "glovebox/client";
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Badge, Button, Empty, ErrorBox, MissingScope } from "../../parts/controls.tsx";
import { SelectField, TextField } from "../../parts/forms/fields.tsx";
import { RecordingHelp } from "../../parts/recording-help.tsx";
import { Table } from "../../parts/table.tsx";
import { ChunkChanges, JsonChanges } from "../../parts/values/json-changes.tsx";
import { serverNow } from "../../state/clock.ts";
import { formatBytes, formatMs, formatNumber, formatPercent } from "../../state/format.ts";
import { address, setQuery, urlOf } from "../../state/router.ts";
import { can, request } from "../../state/session.ts";
import { toneOf } from "../calls/replay.tsx";
import { pathOf, type ToolData, type ToolProps } from "./tool-data.ts";

const HOUR_MS = 3_600_000;
const PERIODS: { readonly [name: string]: readonly [text: string, ms: number] } = {
  "1h": ["Last hour", HOUR_MS],
  "24h": ["Last 24 hours", 24 * HOUR_MS],
  "7d": ["Last 7 days", 168 * HOUR_MS],
  "30d": ["Last 30 days", 720 * HOUR_MS],
  all: ["Everything that is kept", Number.POSITIVE_INFINITY],
};
const DEFAULT_PERIOD = "7d";
const DEFAULT_SAMPLE = "500";
const MAX_SAMPLE = 5_000;
/** Calls of a group that are listed before all are requested. */
const FEW_CALLS = 8;

interface Shown {
  readonly report: Rehearsal;
  readonly version: string;
}

export function RehearsalTab({ tenantId, name, data }: ToolProps & { readonly data: ToolData }): JSX.Element {
  const { shown, error, running, run } = useRehearsal(`${pathOf({ tenantId, name })}/rehearsals`);
  if (!can("calls:replay")) return <MissingScope scope="calls:replay" />;
  const ready = data.versions.filter(({ state }) => state === "ready").map(({ version }) => version);
  const [newest] = ready;
  if (newest === undefined) return <Empty title="No version can run">Approve one of the versions first.</Empty>;
  const { query } = address.value;
  const version = ready.find((one) => String(one) === query.version) ?? newest;
  const period = query.since !== undefined && Object.hasOwn(PERIODS, query.since) ? query.since : DEFAULT_PERIOD;
  const sample = query.sample ?? DEFAULT_SAMPLE;
  const isValid = /^\d{1,4}$/.test(sample) && Number(sample) >= 1 && Number(sample) <= MAX_SAMPLE;
  const live = data.releases.find(({ alias }) => alias === "live")?.versions.map((one) => one.version) ?? [];
  const rehearse = async (): Promise<void> => {
    const since = Math.max(0, serverNow() - (PERIODS[period]?.[1] ?? 0));
    await run({ version, since, sample: Number(sample) });
  };
  return (
    <div class="stack">
      <form class="card stack" onSubmit={(event) => event.preventDefault()}>
        <p class="faint">
          Recorded calls run again on a version, with the answers that were recorded: nothing leaves the server, and
          nothing is stored.
        </p>
        <div class="row fields">
          <SelectField
            label="Version"
            value={String(version)}
            options={ready.map((one) => [String(one), live.includes(one) ? `v${one} (live)` : `v${one}`])}
            onInput={(next) => setQuery({ version: next })}
          />
          <SelectField
            label="Calls of"
            value={period}
            options={Object.entries(PERIODS).map(([id, [text]]) => [id, text])}
            onInput={(next) => setQuery({ since: next === DEFAULT_PERIOD ? undefined : next })}
          />
          <TextField
            label="Maximum number of calls"
            type="number"
            value={sample}
            onInput={(next) => setQuery({ sample: next === DEFAULT_SAMPLE ? undefined : next })}
            error={isValid ? undefined : `A number from 1 to ${formatNumber(MAX_SAMPLE)}.`}
          />
        </div>
        <div class="row">
          <Button kind="primary" type="submit" disabled={!isValid || running !== undefined} onClick={rehearse}>
            Rehearse
          </Button>
          {running === undefined ? null : (
            <>
              <Button onClick={() => running.abort()}>Stop</Button>
              <span role="status">Replaying up to {formatNumber(Number(sample))} calls…</span>
            </>
          )}
        </div>
      </form>
      {error === undefined ? null : <ErrorBox error={error} onRetry={() => void rehearse()} />}
      <section aria-live="polite" aria-label="Report">
        {shown === undefined ? (
          <p class="faint">The report appears here: which calls are identical, and how the others differ.</p>
        ) : shown.report.replayed === 0 ? (
          <Nothing tenantId={tenantId} name={name} report={shown.report} />
        ) : (
          <Report tenantId={tenantId} {...shown} />
        )}
      </section>
    </div>
  );
}

interface RehearsalRequest {
  readonly version: number;
  /** Ms since 1970. */
  readonly since: number;
  readonly sample: number;
}

interface RunningRehearsal {
  readonly shown: Shown | undefined;
  readonly error: unknown;
  /** Set while a rehearsal runs, which it stops. */
  readonly running: AbortController | undefined;
  readonly run: (body: RehearsalRequest) => Promise<void>;
}

/** Runs rehearsals, and keeps the report of the last one. Leaving the page stops the one that runs. */
function useRehearsal(path: string): RunningRehearsal {
  const [shown, setShown] = useState<Shown>();
  const [error, setError] = useState<unknown>();
  const [running, setRunning] = useState<AbortController>();
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);
  const run = async (body: RehearsalRequest): Promise<void> => {
    const stop = new AbortController();
    current.current = stop;
    setRunning(stop);
    setError(undefined);
    try {
      const report = await request<Rehearsal>("POST", path, { body, signal: stop.signal });
      setShown({ report, version: String(body.version) });
    } catch (thrown) {
      if (!stop.signal.aborted) setError(thrown);
    } finally {
      setRunning(undefined);
    }
  };
  return { shown, error, running, run };
}

function Nothing({ tenantId, name, report }: ToolProps & { readonly report: Rehearsal }): JSX.Element {
  return report.skipped === 0 ? (
    <RecordingHelp tenantId={tenantId} tool={name} title="No recorded calls in this period" />
  ) : (
    <Empty title="No recording was replayed">
      <Skipped {...report} />
    </Empty>
  );
}

const recordings = (count: number): string => (count === 1 ? "1 recording" : `${formatNumber(count)} recordings`);

/** Says why recordings were not replayed. */
function Skipped({ skippedFor: { recording, limit, chunks } }: Rehearsal): JSX.Element {
  return (
    <>
      {recording === 0
        ? null
        : `Skipped ${recordings(recording)}: incomplete, for example because of policy.recording.maxBytes, or too old for this version of the server. `}
      {limit === 0
        ? null
        : `Skipped ${recordings(limit)}: a limit of the tenant, such as a quota of calls, or the load of the server did not let them run for a minute. `}
      {chunks === 0
        ? null
        : `Skipped ${recordings(chunks)}: an earlier version of the server did not record the chunks of streams, so they cannot be compared.`}
    </>
  );
}

interface ReportProps extends Shown {
  readonly tenantId: string;
}

function Report({ tenantId, report, version }: ReportProps): JSX.Element {
  const { replayed, identical, different, diverged, failed, skipped, groups, resources } = report;
  const tiles: readonly (readonly [name: string, count: number, isBad: boolean])[] = [
    ["Replayed", replayed, false],
    ["Identical", identical, false],
    ["Different", different, different > 0],
    ["Diverged", diverged, diverged > 0],
    ["Failed", failed, failed > 0],
    ["Skipped", skipped, skipped > 0],
  ];
  return (
    <div class="stack">
      <h2>
        {identical === replayed
          ? `v${version} gives the same outcome for all ${formatNumber(replayed)} calls${skipped === 0 ? "" : " that were replayed"}`
          : `v${version} gives another outcome for ${formatNumber(replayed - identical)} of ${formatNumber(replayed)} calls`}
      </h2>
      <ul class="tiles verdicts" aria-label="Calls by verdict">
        {tiles.map(([name, count, isBad]) => (
          <li key={name} class={isBad ? "bad" : ""}>
            <span>{name}</span>
            <strong>{formatNumber(count)}</strong>
          </li>
        ))}
      </ul>
      {skipped === 0 ? null : (
        <p class="faint">
          <Skipped {...report} />
        </p>
      )}
      {groups.map((group) => (
        <Group key={`${group.verdict} ${group.summary}`} tenantId={tenantId} group={group} version={version} />
      ))}
      <Resources resources={resources} />
    </div>
  );
}

interface GroupProps {
  readonly tenantId: string;
  readonly group: Rehearsal["groups"][number];
  readonly version: string;
}

function Group({ tenantId, group, version }: GroupProps): JSX.Element {
  const { verdict, summary, count, callIds, changes, chunks } = group;
  const [hasAll, setHasAll] = useState(false);
  const ids = hasAll ? callIds : callIds.slice(0, FEW_CALLS);
  return (
    <section class="card stack rehearsal-group">
      <div class="row spread">
        <h3>{summary}</h3>
        <span class="row">
          <Badge tone={toneOf(verdict)}>{verdict}</Badge>
          <span>{count === 1 ? "1 call" : `${formatNumber(count)} calls`}</span>
        </span>
      </div>
      {changes === undefined ? null : (
        <div>
          <p class="faint">In the first of these calls:</p>
          <JsonChanges changes={changes} />
        </div>
      )}
      {chunks === undefined ? null : <ChunkChanges chunks={chunks} />}
      <div>
        <ul class="call-links" aria-label="Calls">
          {ids.map((id) => (
            <li key={id}>
              <a href={urlOf(["t", tenantId, "calls", id], { tab: "replay", version })}>{id}</a>
            </li>
          ))}
        </ul>
        {ids.length < callIds.length ? (
          <button type="button" class="link" onClick={() => setHasAll(true)}>
            Show {formatNumber(callIds.length - ids.length)} more
          </button>
        ) : null}
        {hasAll && callIds.length < count ? <p class="faint">The first {callIds.length} calls are listed.</p> : null}
      </div>
    </section>
  );
}

interface ResourceRow {
  readonly name: string;
  readonly before: number;
  readonly after: number;
  readonly format: (value: number) => string;
}

/** Says how much more or less it is, with its sign. */
function changeOf({ before, after }: ResourceRow): string {
  if (before === after) return "same";
  if (before === 0) return "–";
  const share = (after - before) / before;
  return `${share < 0 ? "−" : "+"}${formatPercent(Math.abs(share))}`;
}

function Resources({ resources }: Pick<Rehearsal, "resources">): JSX.Element {
  const { cpuMs, executeMs, heapBytes, peakBytes } = resources;
  const rows: readonly ResourceRow[] = [
    { name: "CPU time, median", before: cpuMs.before.p50, after: cpuMs.after.p50, format: formatMs },
    { name: "CPU time, 95th percentile", before: cpuMs.before.p95, after: cpuMs.after.p95, format: formatMs },
    {
      name: "Duration, median",
      before: executeMs.before.p50,
      after: executeMs.after.p50,
      format: formatMs,
    },
    {
      name: "Duration, 95th percentile",
      before: executeMs.before.p95,
      after: executeMs.after.p95,
      format: formatMs,
    },
    { name: "Memory, median", before: heapBytes.before.p50, after: heapBytes.after.p50, format: formatBytes },
    { name: "Memory, 95th percentile", before: heapBytes.before.p95, after: heapBytes.after.p95, format: formatBytes },
    { name: "Peak of memory, median", before: peakBytes.before.p50, after: peakBytes.after.p50, format: formatBytes },
    {
      name: "Peak of memory, 95th percentile",
      before: peakBytes.before.p95,
      after: peakBytes.after.p95,
      format: formatBytes,
    },
  ];
  return (
    <section>
      <h2 class="part-heading">Resources</h2>
      <Table<ResourceRow>
        caption="Resources"
        items={rows}
        keyOf={({ name }) => name}
        empty={<span />}
        columns={[
          { name: "Resource", cell: ({ name }) => name },
          { name: "Recorded", isNumber: true, cell: ({ before, format }) => format(before) },
          { name: "Replayed", isNumber: true, cell: ({ after, format }) => format(after) },
          { name: "Change", isNumber: true, cell: changeOf },
        ]}
      />
    </section>
  );
}
