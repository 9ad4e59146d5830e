// One durable run: its state, what it waits for with forms that answer it, its journal, and its input and output.

import type { Run, RunEntry } from "glovebox/client";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { toVisibleText } from "../../../host/util/visible-text.ts";
import { Badge, Button, Empty, ErrorBox, Facts, Loading, PageHead, Tabs, Time } from "../../parts/controls.tsx";
import { ErrorView, type StoredError } from "../../parts/error-view.tsx";
import { ConfirmButton } from "../../parts/forms/dialog-form.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { collect } from "../../state/collect.ts";
import { formatNumber } from "../../state/format.ts";
import type { TenantProps } from "../../state/props.ts";
import { useResource } from "../../state/resource.ts";
import { address, setQuery, urlOf } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";
import { EventForm, WaitCard } from "./run-waits.tsx";

interface RunProps extends TenantProps {
  readonly id: string;
}

const REFRESH_MS = 1_500;
const PAGE = 200;
const TABS = [
  ["journal", "Journal"],
  ["input", "Input and output"],
] as const;

const isOver = ({ state }: Pick<Run, "state">): boolean => state !== "running" && state !== "suspended";

export function RunPage({ tenantId, id }: RunProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const [hasEnded, setEnded] = useState(false);
  const { value, error, reload } = useResource(
    `run ${tenantId} ${id}`,
    async (): Promise<Run> => {
      const run = await tenant.getRun(id);
      setEnded(isOver(run));
      return run;
    },
    hasEnded ? undefined : REFRESH_MS,
  );
  if (value === undefined) {
    return (
      <>
        <PageHead title={id} />
        {error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />}
        <p>
          <a href={urlOf(["t", tenantId, "runs"])}>All runs of {tenantId}</a>
        </p>
      </>
    );
  }
  const tab = address.value.query.tab === "input" ? "input" : "journal";
  return (
    <>
      <PageHead
        title={
          <>
            {value.kind === "code" ? "Code" : <a href={urlOf(["t", tenantId, "tools", value.tool])}>{value.tool}</a>}{" "}
            <small class="faint">{id}</small>
          </>
        }
      >
        <Badge>{value.state}</Badge>
        {isOver(value) || !can("calls:cancel") ? null : (
          <ConfirmButton
            label="Cancel"
            title="Cancel the run"
            action="Cancel the run"
            onConfirm={async () => {
              await tenant.cancelRun(id);
              reload();
            }}
          >
            The run ends, and what it has registered to undo its work runs. It cannot be continued.
          </ConfirmButton>
        )}
      </PageHead>
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      <RunFacts run={value} tenantId={tenantId} />
      {value.error === null ? null : <ErrorView error={value.error as StoredError} files={undefined} />}
      {isOver(value) ? null : <Waits tenantId={tenantId} run={value} onAnswered={reload} />}
      <Tabs label="Parts of the run" tabs={TABS} selected={tab} onSelect={(next) => setQuery({ tab: next })} />
      <section class="tab-panel">
        {tab === "journal" ? <Journal tenantId={tenantId} run={value} /> : <Contents run={value} />}
      </section>
    </>
  );
}

function RunFacts({ run, tenantId }: TenantProps & { readonly run: Run }): JSX.Element {
  const { id, kind, version, createdAt, endedAt, expiresAt, wakeAt, attempts, entries, keyId } = run;
  const facts: (readonly [string, ComponentChildren])[] = [
    kind === "code" ? ["Runs", "Code of a model"] : ["Version", version === null ? "–" : `v${version}`],
    ["Started", <Time key="at" at={createdAt} />],
    ["Started by", keyId ?? "–"],
    ["Attempts", formatNumber(attempts)],
    ["Journal", `${formatNumber(entries)} entries`],
  ];
  if (endedAt !== null) facts.push(["Ended", <Time key="ended" at={endedAt} />]);
  else facts.push(["Deadline", <Time key="expires" at={expiresAt} isAge />]);
  if (wakeAt !== null) facts.push(["Continues by itself", <Time key="wake" at={wakeAt} isAge />]);
  return (
    <div class="card">
      <Facts facts={facts} />
      {endedAt === null ? null : <a href={urlOf(["t", tenantId, "calls", id])}>The call that the run has become</a>}
    </div>
  );
}

interface WaitsProps extends TenantProps {
  readonly run: Run;
  readonly onAnswered: () => void;
}

function Waits({ tenantId, run, onAnswered }: WaitsProps): JSX.Element {
  const needsEvent = run.waits.every(({ kind }) => kind !== "event");
  return (
    <section class="stack" aria-label="What the run waits for">
      {run.waits.length === 0 ? (
        <p class="faint" role="status">
          {run.state === "running" ? "The run is under way." : "The run continues as soon as there is room for it."}
        </p>
      ) : null}
      {run.waits.map((wait) => (
        <WaitCard key={wait.id} tenantId={tenantId} id={run.id} wait={wait} onAnswered={onAnswered} />
      ))}
      {needsEvent && can("calls:run") ? (
        <details class="card">
          <summary>Send an event before the run waits for it</summary>
          <EventForm tenantId={tenantId} id={run.id} onAnswered={onAnswered} />
        </details>
      ) : null}
    </section>
  );
}

/** What an entry is about, in a few words. */
function describe({ type, name, call, wait, approved, action, turns, state }: RunEntry): string {
  switch (type) {
    case "start":
      return "The run begins";
    case "turns":
      return turns === 1 ? "1 answer or timer reached the run" : `${turns} answers and timers reached the run`;
    case "request":
      return name === "waitFor" ? `Request ${call}: waits` : `Request ${call}: ${name}`;
    case "answer":
      return `Answer to request ${call}`;
    case "event":
      return `Event ${name}`;
    case "decision":
      return `${approved === true ? "Approval" : "Denial"} of request ${wait}`;
    case "elicited":
      return `Answer of a person to request ${wait}: ${action}`;
    case "rollback":
      return `The run is undone (${state})`;
    default:
      return type;
  }
}

/** The content of an entry; undefined if its description says everything. */
function contentOf({ type, position: _, at: __, call: ___, name, ...entry }: RunEntry): unknown {
  if (type === "request") return entry.input;
  if (type === "answer") return entry.error ?? entry.value;
  if (type === "event") return entry.value;
  if (type === "decision") return entry.reason;
  if (type === "elicited") return entry.content;
  if (type === "turns") return undefined;
  return name === undefined ? entry : { name, ...entry };
}

function Journal({ tenantId, run }: TenantProps & { readonly run: Run }): JSX.Element {
  const [limit, setLimit] = useState(PAGE);
  const { value, error, reload } = useResource(`journal ${run.id}`, () =>
    collect(client.tenant(tenantId).runJournal(run.id), limit),
  );
  // Loaded again when it has grown, while the entries that are read stay.
  const loaded = `${run.entries} ${run.state} ${limit}`;
  const latest = useRef(loaded);
  useEffect(() => {
    if (latest.current !== loaded) reload();
    latest.current = loaded;
  }, [loaded]);
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  if (value.length === 0)
    return (
      <Empty title="The journal is empty">The tenant's policy keeps no contents, or the run has not begun yet.</Empty>
    );
  return (
    <>
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      <ol class="journal" aria-label="Journal">
        {value.map((entry) => (
          <Entry key={entry.position} entry={entry} />
        ))}
      </ol>
      {value.length >= limit ? <Button onClick={() => setLimit(limit + PAGE)}>Show more</Button> : null}
    </>
  );
}

function Entry({ entry }: { readonly entry: RunEntry }): JSX.Element {
  const content = contentOf(entry);
  const isFailed = entry.type === "answer" && entry.error !== undefined;
  return (
    <li class={isFailed ? "bad" : undefined}>
      <span class="position" title="Position in the journal">
        {entry.position}
      </span>
      {content === undefined || content === null ? (
        <span>{describe(entry)}</span>
      ) : (
        <details>
          <summary>{describe(entry)}</summary>
          <JsonView value={content} label={`Content of entry ${entry.position}`} />
        </details>
      )}
      {entry.at === null ? null : (
        <span class="faint">
          <Time at={entry.at} />
        </span>
      )}
    </li>
  );
}

function Contents({ run }: { readonly run: Run }): JSX.Element {
  const { code } = (run.kind === "code" ? (run.input ?? {}) : {}) as { readonly code?: unknown };
  return (
    <div class="columns">
      <section>
        <h2>Input</h2>
        {typeof code === "string" ? (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: It scrolls.
          <pre tabIndex={0}>{toVisibleText(code)}</pre>
        ) : (
          <JsonView value={run.input} label="Input" />
        )}
      </section>
      <section>
        <h2>Output</h2>
        {run.state === "succeeded" ? (
          <JsonView value={run.output} label="Output" />
        ) : (
          <p class="faint">{isOver(run) ? "The run did not succeed." : "The run has not ended."}</p>
        )}
      </section>
    </div>
  );
}
