// One call: its timeline, logs, input and output, usage and limits. It can be cancelled, copied, and run again with another input or version.

import { ApiError, type Call as CallData, type CallTimeline as TimelineData } from "glovebox/client";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ContentParts } from "../parts/content-parts.tsx";
import {
  Badge,
  Button,
  CopyButton,
  ErrorBox,
  Facts,
  Loading,
  PageHead,
  SelectField,
  Tabs,
  Time,
} from "../parts/controls.tsx";
import { DiffView } from "../parts/diff-view.tsx";
import { ErrorView, type SourceFiles, type StoredError } from "../parts/error-view.tsx";
import { JsonView } from "../parts/json-view.tsx";
import { type LogLine, LogView } from "../parts/log-view.tsx";
import { type FormSchema, InputForm, initialValue, JsonField } from "../parts/schema-form.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { collect } from "../state/collect.ts";
import { formatBytes, formatJson, formatMs } from "../state/format.ts";
import { useResource } from "../state/resource.ts";
import { address, setQuery, urlOf } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";
import { CallTree } from "./call-tree.tsx";
import { Replay } from "./replay.tsx";

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

export function Call({ tenantId, id }: CallProps): JSX.Element {
  const live = useLiveCall(tenantId, id);
  const { call, lines, error } = live;
  const tab = address.value.query.tab ?? "timeline";
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
      {call?.state === "waiting_for_approval" ? <Waiting tenantId={tenantId} /> : null}
      {call === undefined ? null : <CallFacts call={call} tenantId={tenantId} />}
      {call === undefined || call.error === null ? null : <CallError tenantId={tenantId} call={call} />}
      <Tabs label="Parts of the call" tabs={TABS} selected={tab} onSelect={(next) => setQuery({ tab: next })} />
      <section class="tab-panel">
        {tab === "timeline" ? (
          <TimelinePanel
            {...{ tenantId, id, call, isOver }}
            logs={
              <section aria-label="Logs">
                <h2 class="logs-heading">Logs</h2>
                <LogView lines={lines} startedAt={startedAt} isLive={!isOver} />
              </section>
            }
          />
        ) : null}
        {tab === "logs" ? <LogView lines={lines} startedAt={startedAt} isLive={!isOver} /> : null}
        {tab === "nested" ? <CallTree {...{ tenantId, id, isOver }} /> : null}
        {tab === "input" && call !== undefined ? <Contents call={call} /> : null}
        {tab === "again" && call !== undefined ? <RunAgain tenantId={tenantId} call={call} /> : null}
        {tab === "replay" && call !== undefined ? <Replay tenantId={tenantId} call={call} /> : null}
        {tab === "copy" && call !== undefined ? <CopyAs tenantId={tenantId} call={call} /> : null}
        {call === undefined && !["logs", "timeline", "nested"].includes(tab) ? <Loading /> : null}
      </section>
    </>
  );
}

/** Says why a call does not run yet, and where it is decided. */
const Waiting = ({ tenantId }: Pick<CallProps, "tenantId">): JSX.Element => (
  <p class="card" role="status">
    This call has not run: it waits until someone approves or denies it.{" "}
    <a href={urlOf(["t", tenantId, "approvals"])}>Go to the approvals</a>
  </p>
);

interface LiveCall {
  readonly call: CallData | undefined;
  readonly lines: readonly LogLine[];
  readonly error: unknown;
}

/** Log lines that the page keeps of a call that writes without end. */
const MAX_LINES = 100_000;
const DRAW_MS = 100;
/** Time in ms until a call is followed again after a failure. */
const RETRY_MS = 2_000;

/** Loads a call and follows it until it ends. Log lines are added in groups, because a call may write thousands in a second. */
function useLiveCall(tenantId: string, id: string): LiveCall {
  const [state, setState] = useState<LiveCall>({ call: undefined, lines: [], error: undefined });
  useEffect(() => {
    const stop = new AbortController();
    let waiting: LogLine[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    setState({ call: undefined, lines: [], error: undefined });
    const flush = (): void => {
      timer = undefined;
      const added = waiting;
      waiting = [];
      setState((before) => ({ ...before, lines: [...before.lines, ...added].slice(-MAX_LINES) }));
    };
    const showEnded = (call: CallData): void => {
      clearTimeout(timer);
      waiting = [];
      setState({ call, lines: (call.logs ?? []) as readonly LogLine[], error: undefined });
    };
    const follow = async (): Promise<void> => {
      waiting = [];
      const path = `/v1/tenants/${encodeURIComponent(tenantId)}/calls/${encodeURIComponent(id)}`;
      try {
        const found = await request<CallData>("GET", path, { signal: stop.signal, accept: (status) => status === 404 });
        const isKnown = "state" in found;
        if (isKnown && found.endedAt !== null) return showEnded(found);
        // The stream begins with the lines that the call has written.
        setState((before) => ({ ...before, ...(isKnown ? { call: found } : {}), lines: [] }));
        for await (const { event, data } of client.tenant(tenantId).watch(id, stop.signal)) {
          if (event === "result") return showEnded(data as CallData);
          if (event !== "log") continue;
          waiting.push(data as LogLine);
          timer ??= setTimeout(flush, DRAW_MS);
        }
        retry = setTimeout(() => void follow(), RETRY_MS);
      } catch (error) {
        if (stop.signal.aborted) return;
        // The server restarts, or the connection broke: what is shown stays until it answers again.
        const isTemporary = !(error instanceof ApiError) || error.status === 0 || error.status >= 500;
        if (isTemporary) retry = setTimeout(() => void follow(), RETRY_MS);
        else setState((before) => ({ ...before, error }));
      }
    };
    void follow();
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearTimeout(retry);
    };
  }, [tenantId, id]);
  return state;
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
}

const EFFECTS = {
  none: "none: no line of the tool ran, so a retry is safe",
  possible: "possible: the tool began, and did not end well",
  complete: "complete: the tool has returned",
} as const;

function CallFacts({ call, tenantId }: { readonly call: CallData; readonly tenantId: string }): JSX.Element {
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
    <div class="card">
      <Facts facts={facts} />
      {endedAt === null ? <a href={urlOf(["t", tenantId, "calls"])}>All calls</a> : null}
    </div>
  );
}

interface CallErrorProps {
  readonly tenantId: string;
  readonly call: CallData;
}

/** The error of a call, with the source of the version that ran. */
function CallError({ tenantId, call }: CallErrorProps): JSX.Element {
  const { tool, version } = call;
  const error = call.error as StoredError;
  const hasPlace = typeof error.details?.file === "string" && version !== null && can("tools:read");
  const { value } = useResource(`source ${tenantId} ${tool} ${version} ${hasPlace}`, async (signal) => {
    if (!hasPlace) return undefined;
    const path = `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(tool)}/versions/${version}/source`;
    return await request<{ readonly files: SourceFiles; readonly originals?: SourceFiles }>("GET", path, { signal });
  });
  return <ErrorView error={error} files={value?.originals ?? value?.files} />;
}

interface TimelinePanelProps extends CallProps {
  readonly call: CallData | undefined;
  readonly isOver: boolean;
  readonly logs: JSX.Element;
}

function TimelinePanel({ tenantId, id, call, isOver, logs }: TimelinePanelProps): JSX.Element {
  const { value, error } = useResource(`timeline ${id} ${isOver}`, async (): Promise<TimelineData> => {
    return isOver ? await client.tenant(tenantId).timeline(id) : { spans: [], calls: [] };
  });
  if (error !== undefined) return <ErrorBox error={error} />;
  if (!isOver) {
    return (
      <div class="timeline-and-logs">
        <p class="faint">The timeline appears when the call has ended. Its logs are live.</p>
        {logs}
      </div>
    );
  }
  if (value === undefined || call === undefined) return <Loading />;
  return (
    <Timeline
      timeline={value}
      totalMs={(call.endedAt ?? call.createdAt) - call.createdAt}
      usage={call.usage}
      beside={logs}
      urlOfCall={(callId) => urlOf(["t", tenantId, "calls", callId])}
    />
  );
}

function Contents({ call }: { readonly call: CallData }): JSX.Element {
  return (
    <div class="columns">
      <section>
        <h2>Input</h2>
        <JsonView value={call.input} label="Input" />
      </section>
      <section>
        <h2>Output</h2>
        {call.endedAt === null ? (
          <p class="faint">The call has not ended.</p>
        ) : call.error === null ? (
          <>
            <JsonView value={call.output} label="Output" />
            <ContentParts content={call.content} />
          </>
        ) : (
          <p class="faint">There is no output, because the call did not succeed.</p>
        )}
      </section>
    </div>
  );
}

/** Says why a form does not have the input of the call. */
const MissingInput = (): JSX.Element => (
  <p role="status">The input of this call was not kept. Enter an input: it may differ from what the call had.</p>
);

function RunAgain({ tenantId, call }: { readonly tenantId: string; readonly call: CallData }): JSX.Element {
  const tenant = client.tenant(tenantId);
  const versions = useResource(`versions ${call.tool}`, () => collect(tenant.versions(call.tool)));
  const [version, setVersion] = useState(call.version === null ? "" : String(call.version));
  const [edited, setInput] = useState<unknown>(call.input);
  const [result, setResult] = useState<CallData>();
  if (!can("calls:run")) return <p class="faint">Your key does not have the scope calls:run.</p>;
  const list = (versions.value ?? []).filter(({ state }) => state === "ready");
  const definition = list.find((one) => String(one.version) === version)?.definition ?? list[0]?.definition;
  const schema = (definition?.inputSchema ?? {}) as FormSchema;
  const input = edited ?? initialValue(schema);
  const run = async (): Promise<void> => {
    const chosen = version === "" ? {} : { version: Number(version) };
    setResult(await tenant.call(call.tool, { input, ...chosen }));
  };
  return (
    <div class="columns">
      <section class="stack">
        <SelectField
          label="Version"
          value={version}
          options={[
            ["", `The alias ${call.alias}`],
            ...list.map(({ version: one }) => [String(one), `v${one}`] as const),
          ]}
          onInput={setVersion}
        />
        {call.input === null ? <MissingInput /> : null}
        {versions.value === undefined ? <Loading /> : <InputForm schema={schema} value={input} onChange={setInput} />}
        <Button kind="primary" disabled={edited === null} onClick={run}>
          Run again
        </Button>
      </section>
      <section class="stack">
        {result === undefined ? (
          <p class="faint">The new result appears here, next to the one before.</p>
        ) : (
          <>
            <h2>
              <a href={urlOf(["t", tenantId, "calls", result.id])}>New result</a> <Badge>{result.state}</Badge>
            </h2>
            {result.error === null ? (
              <JsonView value={result.output} label="New output" />
            ) : (
              <CallError tenantId={tenantId} call={result} />
            )}
            {formatJson(result.output) === formatJson(call.output) ? (
              <p class="faint">The output is the same as before.</p>
            ) : (
              <DiffView name="output" before={formatJson(call.output)} after={formatJson(result.output)} />
            )}
          </>
        )}
      </section>
    </div>
  );
}

/** Quotes text for a POSIX shell. */
const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

function CopyAs({ tenantId, call }: { readonly tenantId: string; readonly call: CallData }): JSX.Element {
  const [given, setGiven] = useState<unknown>(call.input);
  const input = JSON.stringify(given);
  const body = JSON.stringify({ input: given, ...(call.version === null ? {} : { version: call.version }) });
  const url = `${location.origin}/v1/tenants/${tenantId}/tools/${call.tool}/calls`;
  const expectation =
    call.error === null
      ? `expect(await tool.output(${input})).toEqual(${JSON.stringify(call.output)});`
      : `expect(await tool.failure(${input})).toMatch(/^${call.error.code}/);`;
  const texts: readonly (readonly [string, string])[] = [
    [
      "curl",
      `curl -X POST ${quote(url)} \\\n  -H "authorization: Bearer $GLOVEBOX_KEY" -H 'content-type: application/json' \\\n  -d ${quote(body)}`,
    ],
    ["Command line", `npx glovebox call ${call.tool} --tenant ${tenantId} --input ${quote(input)}`],
    [
      "Test",
      `import { openTool } from "glovebox/testing";\nimport { expect, test } from "vitest";\n\ntest("${call.tool}: ${call.id}", async () => {\n  await using tool = await openTool(import.meta.dirname);\n  ${expectation}\n});`,
    ],
  ];
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
            <CopyButton text={text} label={`Copy ${name}`} />
          </div>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll by keyboard */}
          <pre tabIndex={0}>{text}</pre>
        </section>
      ))}
    </div>
  );
}
