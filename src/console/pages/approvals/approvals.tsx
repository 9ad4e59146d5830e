// What waits for a person: calls that a model or a program wants to make, durable runs, and versions that request more than the live ones.

import type { CallApproval, RunSummary } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Empty, ErrorBox, Loading, MissingScope, PageHead, Tabs, Time } from "../../parts/controls.tsx";
import { Table } from "../../parts/table.tsx";
import { Who } from "../../parts/who.tsx";
import { collect } from "../../state/collect.ts";
import type { TenantProps } from "../../state/props.ts";
import { useResource } from "../../state/resource.ts";
import { address, setQuery, urlOf } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";
import { type AnsweredWait, WaitCard, WaitOutcome } from "../runs/run-waits.tsx";
import { CallCard, Outcome, VersionCard } from "./approval-cards.tsx";

const REFRESH_MS = 3_000;
const MAX_SHOWN = 100;
const TABS = [
  ["pending", "Waiting"],
  ["decided", "Decided"],
] as const;
const DECIDED = ["approved", "denied", "expired", "cancelled"] as const;

export function ApprovalsPage({ tenantId }: TenantProps): JSX.Element {
  const tab = address.value.query.tab === "decided" ? "decided" : "pending";
  return (
    <>
      <PageHead title="Approvals" />
      <Tabs label="Approvals by state" tabs={TABS} selected={tab} onSelect={(next) => setQuery({ tab: next })} />
      {tab === "pending" ? <Waiting tenantId={tenantId} /> : <Decided tenantId={tenantId} />}
    </>
  );
}

/** Kinds of waits that need a person. */
const PERSON_WAITS = ["approval", "elicitation"] as const;

const isForPerson = ({ kind }: RunSummary["waits"][number]): boolean => PERSON_WAITS.some((one) => one === kind);

/** Returns the runs that wait for a person, the oldest first. */
async function listWaitingRuns(tenantId: string): Promise<readonly RunSummary[]> {
  const tenant = client.tenant(tenantId);
  const lists = await Promise.all(
    PERSON_WAITS.map((wait) => collect(tenant.runs({ state: "suspended", wait }), MAX_SHOWN)),
  );
  const byId = new Map(lists.flat().map((run) => [run.id, run]));
  return [...byId.values()].toSorted((one, other) => one.createdAt - other.createdAt);
}

/** Loads what waits for a person, and keeps what was decided and answered on this page since it was opened, the latest first. */
function useWaiting(tenantId: string) {
  const tenant = client.tenant(tenantId);
  const [decided, setDecided] = useState<readonly CallApproval[]>([]);
  const [answered, setAnswered] = useState<readonly AnsweredWait[]>([]);
  const { value, error, reload } = useResource(
    `approvals ${tenantId}`,
    async () => ({
      calls: can("calls:read") ? await collect(tenant.callApprovals(), MAX_SHOWN) : [],
      runs: can("calls:read") ? await listWaitingRuns(tenantId) : [],
      versions: await collect(tenant.approvals(), MAX_SHOWN),
    }),
    REFRESH_MS,
  );
  const waiting = value && {
    calls: value.calls.filter(({ id }) => decided.every((one) => one.id !== id)),
    waits: value.runs.flatMap((run) =>
      run.waits
        .filter((wait) => isForPerson(wait) && answered.every((one) => one.id !== run.id || one.wait.id !== wait.id))
        .map((wait) => ({ run, wait })),
    ),
    versions: value.versions,
    hasMore: Math.max(value.calls.length, value.runs.length, value.versions.length) >= MAX_SHOWN,
  };
  const onDecided = (approval: CallApproval): void => {
    setDecided((before) => [approval, ...before]);
    reload();
  };
  const onAnswered = (answer: AnsweredWait): void => {
    setAnswered((before) => [answer, ...before]);
    reload();
  };
  return { waiting, decided, answered, error, reload, onDecided, onAnswered };
}

function Waiting({ tenantId }: TenantProps): JSX.Element {
  const { waiting, decided, answered, error, reload, onDecided, onAnswered } = useWaiting(tenantId);
  if (waiting === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  const { calls, waits, versions, hasMore } = waiting;
  return (
    <div class="stack">
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {decided.map((approval) => (
        <Outcome key={approval.id} tenantId={tenantId} approval={approval} />
      ))}
      {answered.map((one) => (
        <WaitOutcome key={`${one.id} ${one.wait.id}`} tenantId={tenantId} {...one} />
      ))}
      {can("calls:read") ? null : <MissingScope scope="calls:read" />}
      {can("calls:read") && calls.length + versions.length + waits.length === 0 ? (
        <Empty title="Nothing waits for approval" command={`npx glovebox approvals --tenant ${tenantId}`}>
          A call of a destructive tool waits here until someone approves it. So does a durable run that needs a decision
          or an answer, and a version that requests more than the live one: another capability, host, secret, or a
          higher limit.
        </Empty>
      ) : null}
      {calls.map((approval) => (
        <CallCard key={approval.id} tenantId={tenantId} approval={approval} onDecided={onDecided} />
      ))}
      {waits.map(({ run, wait }) => (
        <WaitCard
          key={`${run.id} ${wait.id}`}
          tenantId={tenantId}
          id={run.id}
          run={run}
          wait={wait}
          onAnswered={({ state }, outcome) => onAnswered({ id: run.id, wait, outcome, state })}
        />
      ))}
      {versions.map((approval) => (
        <VersionCard
          key={`${approval.tool} ${approval.version}`}
          tenantId={tenantId}
          approval={approval}
          onDecided={reload}
        />
      ))}
      {hasMore ? (
        <p class="faint">
          {MAX_SHOWN} of each kind are shown. The others appear when these are decided; the API lists all of them.
        </p>
      ) : null}
    </div>
  );
}

function Decided({ tenantId }: TenantProps): JSX.Element {
  return can("calls:read") ? <DecidedCalls tenantId={tenantId} /> : <MissingScope scope="calls:read" />;
}

function DecidedCalls({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const { value, error, reload } = useResource(`decided approvals ${tenantId}`, async () => {
    const lists = await Promise.all(DECIDED.map((state) => collect(tenant.callApprovals({ state }), MAX_SHOWN)));
    return lists.flat().toSorted((one, other) => other.createdAt - one.createdAt);
  });
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  return (
    <Table<CallApproval>
      caption={`Decided approvals, the latest ${MAX_SHOWN} of each state`}
      items={value}
      keyOf={({ id }) => id}
      empty={
        <Empty title="No call was decided yet">
          Calls that were approved, denied, cancelled or expired appear here.
        </Empty>
      }
      columns={[
        { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        {
          name: "Call",
          cell: ({ tool, callId }) => <a href={urlOf(["t", tenantId, "calls", callId])}>{tool}</a>,
        },
        { name: "Requested", cell: ({ createdAt }) => <Time at={createdAt} /> },
        { name: "Decided", cell: ({ decidedAt }) => <Time at={decidedAt} /> },
        {
          name: "By",
          cell: ({ decidedBy }) => (decidedBy === null ? "–" : <Who id={decidedBy} tenantId={tenantId} />),
        },
        { name: "Reason", cell: ({ reason }) => <span class="phrase long">{reason ?? "–"}</span> },
      ]}
    />
  );
}
