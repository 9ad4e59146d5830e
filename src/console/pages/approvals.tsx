// What waits for a decision: calls that a model or a program wants to make, and versions that request more than the live ones.

import type { CallApproval } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Empty, ErrorBox, Loading, PageHead, Tabs, Time } from "../parts/controls.tsx";
import { Table } from "../parts/table.tsx";
import { collect } from "../state/collect.ts";
import type { TenantProps } from "../state/props.ts";
import { useResource } from "../state/resource.ts";
import { address, setQuery, urlOf } from "../state/router.ts";
import { can, client } from "../state/session.ts";
import { CallCard, Outcome, VersionCard } from "./approval-cards.tsx";

const REFRESH_MS = 3_000;
const MAX_SHOWN = 100;
const TABS = [
  ["pending", "Waiting"],
  ["decided", "Decided"],
] as const;
const DECIDED = ["approved", "denied", "expired", "cancelled"] as const;

export function Approvals({ tenantId }: TenantProps): JSX.Element {
  const tab = address.value.query.tab === "decided" ? "decided" : "pending";
  return (
    <>
      <PageHead title="Approvals" />
      <Tabs label="Approvals by state" tabs={TABS} selected={tab} onSelect={(next) => setQuery({ tab: next })} />
      {tab === "pending" ? <Waiting tenantId={tenantId} /> : <Decided tenantId={tenantId} />}
    </>
  );
}

function Waiting({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  /** What was decided on this page since it was opened, the latest first. */
  const [decided, setDecided] = useState<readonly CallApproval[]>([]);
  const { value, error, reload } = useResource(
    `approvals ${tenantId}`,
    async () => ({
      calls: can("calls:read") ? await collect(tenant.callApprovals(), MAX_SHOWN) : [],
      versions: await collect(tenant.approvals(), MAX_SHOWN),
    }),
    REFRESH_MS,
  );
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  const { versions } = value;
  const calls = value.calls.filter(({ id }) => decided.every((one) => one.id !== id));
  const onDecided = (approval: CallApproval): void => {
    setDecided((before) => [approval, ...before]);
    reload();
  };
  return (
    <div class="stack">
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {decided.map((approval) => (
        <Outcome key={approval.id} {...{ tenantId, approval }} />
      ))}
      {calls.length + versions.length === 0 ? (
        <Empty title="Nothing waits for approval">
          A call of a destructive tool waits here until someone approves it, and so does a version that requests more
          than the live one: another capability, host, secret, or a higher limit.
        </Empty>
      ) : null}
      {calls.map((approval) => (
        <CallCard key={approval.id} {...{ tenantId, approval, onDecided }} />
      ))}
      {versions.map((approval) => (
        <VersionCard key={`${approval.tool} ${approval.version}`} {...{ tenantId, approval, onDecided: reload }} />
      ))}
      {Math.max(value.calls.length, versions.length) < MAX_SHOWN ? null : (
        <p class="faint">
          {MAX_SHOWN} of each kind are shown. The others appear when these are decided; the API lists all of them.
        </p>
      )}
    </div>
  );
}

function Decided({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const { value, error, reload } = useResource(`decided approvals ${tenantId}`, async () => {
    if (!can("calls:read")) return [];
    const lists = await Promise.all(DECIDED.map((state) => collect(tenant.callApprovals({ state }), MAX_SHOWN)));
    return lists.flat().toSorted((one, other) => other.createdAt - one.createdAt);
  });
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  return (
    <Table<CallApproval>
      caption={`Decided approvals, the latest ${MAX_SHOWN} of each state`}
      items={value}
      keyOf={({ id }) => id}
      empty={<Empty title="No call was decided yet">Approved, denied and expired calls appear here.</Empty>}
      columns={[
        { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        {
          name: "Call",
          cell: ({ tool, callId }) => <a href={urlOf(["t", tenantId, "calls", callId])}>{tool}</a>,
        },
        { name: "Requested", cell: ({ createdAt }) => <Time at={createdAt} /> },
        { name: "Decided", cell: ({ decidedAt }) => <Time at={decidedAt} /> },
        { name: "By", cell: ({ decidedBy }) => decidedBy ?? "–" },
        { name: "Reason", cell: ({ reason }) => reason ?? "–" },
      ]}
    />
  );
}
