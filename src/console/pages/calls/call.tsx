// One call: its timeline, logs, input and output, usage and limits. It can be cancelled, copied, and run again with another input or version.

import type { Call, CallTimeline } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import {
  Badge,
  Button,
  CopyButton,
  chosenTab,
  ErrorBox,
  Facts,
  Loading,
  PageHead,
  Tabs,
  Time,
} from "../../parts/controls.tsx";
import { JsonField } from "../../parts/input-form/value-fields.tsx";
import { LogView } from "../../parts/log-view.tsx";
import { Timeline } from "../../parts/timeline/timeline.tsx";
import { ContentParts } from "../../parts/values/content-parts.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { WaitingCall } from "../../parts/waiting-call.tsx";
import { toCopies } from "../../state/copies.ts";
import { formatBytes, formatMs } from "../../state/format.ts";
import { isOutputKept } from "../../state/kept-output.ts";
import { useResource } from "../../state/resource.ts";
import { address, setQuery, urlOf } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";
import { CallError } from "./call-error.tsx";
import { CallTree } from "./call-tree.tsx";
import { useLiveCall } from "./live-call.ts";
import { ReplayTab } from "./replay.tsx";
import { MissingInput, RunAgain } from "./run-again.tsx";

interface CallProps {
  readonly tenantId: string;
  readonly id: string;
}

const TABS = [
  ["timeline", "Timeline"],
  ["logs", "Logs"],
  ["nested", "Nested calls"],
  ["input", "Input and output"],
  ["again", "Run again"],
  ["replay", "Replay"],
  ["copy", "Copy as"],
] as const;

export function CallPage({ tenantId, id }: CallProps): JSX.Element {
  const live = useLiveCall(tenantId, id);
  const { call, lines, error } = live;
  const tab = chosenTab(TABS, address.value.query.tab);
  if (error !== undefined) {
    return (
      <>
        <PageHead title={id} />
        <ErrorBox error={error} />
        <p>
          <a href={urlOf(["t", tenantId, "calls"])}>All calls of {tenantId}</a>
        </p>
      </>
    );
  }
  const title = call === undefined ? "Running call" : call.tool;
  const isOver = call !== undefined && call.endedAt !== null;
  const startedAt = call?.createdAt ?? lines[0]?.time ?? 0;
  const log = { lines, startedAt, isLive: !isOver, dropped: (call?.usage as Usage | null | undefined)?.logsDropped };
  return (
    <>
      <PageHead
        title={
          <>
            {call === undefined ? title : <a href={urlOf(["t", tenantId, "tools", call.tool])}>{title}</a>}{" "}
            <small class="faint">{id}</small>
          </>
        }
      >
        <Badge>{call?.state ?? "running"}</Badge>
        {call?.isRecorded === true && tab !== "replay" && can("calls:replay") ? (
          <Button onClick={() => setQuery({ tab: "replay" })}>Replay</Button>
        ) : null}
        {isOver || !can("calls:cancel") ? null : (
          <Button kind="danger" onClick={() => client.tenant(tenantId).cancelCall(id)}>
            Cancel
          </Button>
        )}
      </PageHead>
      {call?.state === "waiting_for_approval" ? <WaitingCall tenantId={tenantId} /> : null}
      {call === undefined ? null : <CallFacts call={call} tenantId={tenantId} />}
      {call === undefined || call.error === null ? null : <CallError tenantId={tenantId} call={call} />}
      <Tabs label="Parts of the call" tabs={TABS} selected={tab} onSelect={(next) => setQuery({ tab: next })} />
      <section class="tab-panel">
        {tab === "timeline" ? (
          <TimelinePanel
            tenantId={tenantId}
            id={id}
            call={call}
            isOver={isOver}
            logs={
              <section aria-label="Logs">
                <h2 class="logs-heading">Logs</h2>
                <LogView {...log} />
              </section>
            }
          />
        ) : null}
        {tab === "logs" ? <LogView {...log} /> : null}
        {tab === "nested" ? <CallTree tenantId={tenantId} id={id} isOver={isOver} /> : null}
        {tab === "input" && call !== undefined ? <Contents call={call} /> : null}
        {tab === "again" && call !== undefined ? <RunAgain tenantId={tenantId} call={call} /> : null}
        {tab === "replay" && call !== undefined ? <ReplayTab tenantId={tenantId} call={call} /> : null}
        {tab === "copy" && call !== undefined ? <CopyAs tenantId={tenantId} call={call} /> : null}
        {call === undefined && !["logs", "timeline", "nested"].includes(tab) ? <Loading /> : null}
      </section>
    </>
  );
}

interface Usage {
  readonly cpuMs: number;
  readonly queueMs: number;
  readonly startMs: number;
  readonly executeMs: number;
  readonly peakBytes: number;
  readonly heapBytes: number;
  readonly inputBytes: number;
  readonly outputBytes: number;
  readonly egressBytesIn: number;
  readonly egressBytesOut: number;
  readonly logsDropped?: number;
}

const EFFECTS = {
  none: "none: no effect has left the sandbox, so a retry is safe",
  possible: "possible: the tool began, and did not end well",
  complete: "complete: the tool has returned",
} as const;

function CallFacts({ call, tenantId }: { readonly call: Call; readonly tenantId: string }): JSX.Element {
  const { version, alias, mode, createdAt, endedAt, effects, keyId, sessionId, attempts, parentId } = call;
  const usage = call.usage as Usage | null;
  const facts: (readonly [string, JSX.Element | string])[] = [
    ["Version", version === null ? "–" : `v${version} (${alias})`],
    ["Accepted", <Time key="at" at={createdAt} />],
    ["Duration", endedAt === null ? "–" : formatMs(endedAt - createdAt)],
    ["Mode", mode],
    [
      "Effects",
      <span key="effects" title={EFFECTS[effects]}>
        {effects}
      </span>,
    ],
    ["Caller", keyId],
  ];
  if (sessionId !== null) facts.push(["Session", sessionId]);
  if (parentId !== null)
    facts.push([
      "Made by",
      <a key="parent" href={urlOf(["t", tenantId, "calls", parentId])}>
        {parentId}
      </a>,
    ]);
  if (attempts > 1) facts.push(["Attempts", String(attempts)]);
  if (usage !== null) {
    facts.push(
      ["CPU time", formatMs(usage.cpuMs)],
      ["Memory", formatBytes(Math.max(usage.peakBytes, usage.heapBytes))],
      ["Input", formatBytes(usage.inputBytes)],
      ["Output", formatBytes(usage.outputBytes)],
      ["Sent", formatBytes(usage.egressBytesOut)],
      ["Received", formatBytes(usage.egressBytesIn)],
    );
  }
  return (
    <div class="card call-facts">
      <Facts facts={facts} />
      {endedAt === null ? <a href={urlOf(["t", tenantId, "calls"])}>All calls</a> : null}
    </div>
  );
}

interface TimelinePanelProps extends CallProps {
  readonly call: Call | undefined;
  readonly isOver: boolean;
  readonly logs: JSX.Element;
}

/** How often the timeline of a running call is loaded, in ms; more rarely if it is long. */
const FOLLOW_MS = { short: 1_000, long: 3_000 } as const;
const LONG_SPANS = 300;

function TimelinePanel({ tenantId, id, call, isOver, logs }: TimelinePanelProps): JSX.Element {
  const [isLong, setLong] = useState(false);
  const { value, error, reload } = useResource<CallTimeline>(
    `timeline ${id}`,
    async () => {
      const loaded = await client.tenant(tenantId).timeline(id);
      setLong(loaded.spans.length > LONG_SPANS);
      return loaded;
    },
    isOver ? undefined : isLong ? FOLLOW_MS.long : FOLLOW_MS.short,
  );
  if (value === undefined) {
    return error === undefined ? (
      <Loading />
    ) : (
      <div class="timeline-and-logs">
        <ErrorBox error={error} onRetry={reload} />
        {logs}
      </div>
    );
  }
  const soFarMs = value.spans.reduce((end, { startMs, durationMs }) => Math.max(end, startMs + durationMs), 0);
  return (
    <Timeline
      timeline={value}
      isRunning={!value.isOver}
      totalMs={call === undefined || call.endedAt === null ? soFarMs : call.endedAt - call.createdAt}
      usage={call?.usage}
      beside={logs}
      urlOfCall={(callId) => urlOf(["t", tenantId, "calls", callId])}
    />
  );
}

function Contents({ call }: { readonly call: Call }): JSX.Element {
  return (
    <div class="columns">
      <section>
        <h2>Input</h2>
        {call.input === null ? (
          <p class="faint">The input of this call was not kept.</p>
        ) : (
          <JsonView value={call.input} label="Input" />
        )}
      </section>
      <section>
        <h2>Output</h2>
        {call.endedAt === null ? (
          <p class="faint">The call has not ended.</p>
        ) : call.error === null ? (
          <>
            {isOutputKept(call) ? (
              <JsonView value={call.output} label="Output" />
            ) : (
              <p class="faint">The output of this call was not kept.</p>
            )}
            <ContentParts content={call.content} />
          </>
        ) : (
          <p class="faint">There is no output, because the call did not succeed.</p>
        )}
      </section>
    </div>
  );
}

function CopyAs({ tenantId, call }: { readonly tenantId: string; readonly call: Call }): JSX.Element {
  const [given, setGiven] = useState<unknown>(call.input);
  const texts = toCopies(location.origin, tenantId, call, given);
  return (
    <div class="stack">
      {call.input === null ? (
        <>
          <MissingInput />
          <JsonField label="Input as JSON" value={{}} onChange={setGiven} />
        </>
      ) : null}
      {(given === null ? [] : texts).map(([name, text]) => (
        <section key={name}>
          <div class="row">
            <h2>{name}</h2>
            <CopyButton text={text} label={`Copy ${name.toLowerCase()}`} />
          </div>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
          <pre tabIndex={0}>{text}</pre>
        </section>
      ))}
    </div>
  );
}
