// The settings of a tenant: its policy, what is used and left of its limits, suspension, export and deletion.

import type { Quotas, Tenant } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, ErrorBox, Facts, Loading, PageHead, Time } from "../parts/controls.tsx";
import { ConfirmButton } from "../parts/forms/dialog-form.tsx";
import { JsonField } from "../parts/input-form/value-fields.tsx";
import { isAnswer } from "../state/changes.ts";
import { download } from "../state/download.ts";
import { formatBytes, formatCount, formatJson, formatMs } from "../state/format.ts";
import { useResource } from "../state/resource.ts";
import { navigate, urlOf } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";

const REFRESH_MS = 5_000;

export function SettingsPage({ tenantId }: { readonly tenantId: string }): JSX.Element {
  const tenant = client.tenant(tenantId);
  const { value, error, reload } = useResource(`settings ${tenantId}`, () => tenant.get());
  if (value === undefined)
    return error === undefined ? (
      <Loading />
    ) : (
      <>
        <PageHead title={`Settings of ${tenantId}`} />
        <ErrorBox error={error} onRetry={reload} />
      </>
    );
  return (
    <>
      <PageHead title={`Settings of ${tenantId}`}>
        <Badge>{value.state}</Badge>
      </PageHead>
      <div class="stack">
        <div class="card">
          <Facts
            facts={[
              ["Name", value.name],
              ["Created", <Time key="created" at={value.createdAt} />],
              ["Changed", <Time key="changed" at={value.updatedAt} isAge />],
            ]}
          />
        </div>
        {can("usage:read") ? <UsedAndLeft tenantId={tenantId} /> : null}
        <Policy key={value.id} tenant={value} reload={reload} />
        <Dangers tenant={value} reload={reload} />
      </div>
    </>
  );
}

/** What is used and left of a tenant's limits. It needs `usage:read`, and not `tenants:read` as its settings do. */
export function UsedAndLeft({ tenantId }: { readonly tenantId: string }): JSX.Element {
  const { value, error, reload } = useResource(
    `quotas ${tenantId}`,
    () => client.tenant(tenantId).quotas(),
    REFRESH_MS,
  );
  return (
    <section class="card">
      <h2>Used and left</h2>
      {value !== undefined ? (
        <QuotaList quotas={value} />
      ) : error === undefined ? (
        <Loading />
      ) : (
        <ErrorBox error={error} onRetry={reload} />
      )}
    </section>
  );
}

const QUOTA_NAMES: { readonly [name: string]: string } = {
  calls: "Calls",
  cpuMs: "CPU time",
  egressBytes: "Bytes sent",
};

function QuotaList({ quotas }: { readonly quotas: Quotas }): JSX.Element {
  const rows: readonly (readonly [
    name: string,
    used: number,
    limit: number,
    format: (value: number) => string,
    note: string,
  ])[] = [
    ["Tools", quotas.tools.used, quotas.tools.limit, formatCount, ""],
    ["Stored data", quotas.storedBytes.used, quotas.storedBytes.limit, formatBytes, ""],
    ...quotas.quotas.map(({ name, used, limit, resetSeconds }) => {
      const format = name.startsWith("cpuMs") ? formatMs : name.startsWith("egressBytes") ? formatBytes : formatCount;
      return [name, used, limit, format, `resets in ${formatMs(resetSeconds * 1_000)}`] as const;
    }),
  ];
  return (
    <ul class="weights used-and-left">
      {rows.map(([name, used, limit, format, note]) => {
        const share = limit === 0 ? 1 : used / limit;
        const [what = name, period] = name.split(":");
        const text = `${QUOTA_NAMES[what] ?? what}${period === undefined ? "" : ` per ${period}`}`;
        return (
          <li key={name}>
            <strong>{text}</strong>
            <span class="share-track">
              <i class={`bar ${share > 0.8 ? "bad" : "execute"}`} style={{ width: `${Math.min(100, share * 100)}%` }} />
            </span>
            <span>
              {format(used)} of {format(limit)}
            </span>
            <span class="faint">{note}</span>
          </li>
        );
      })}
    </ul>
  );
}

interface PartProps {
  readonly tenant: Tenant;
  readonly reload: () => void;
}

function Policy({ tenant, reload }: PartProps): JSX.Element {
  const [policy, setPolicy] = useState<unknown>(tenant.policy);
  const [isSaved, setSaved] = useState(false);
  // What the text was made from: it replaces the whole policy, and must not undo what another operator has changed since.
  const [base, setBase] = useState(tenant);
  const change = (text: unknown): void => {
    setPolicy(text);
    setSaved(false);
  };
  const save = async (): Promise<void> => {
    // A change of the state on this page leaves the policy as it was.
    const { etag } = formatJson(tenant.policy) === formatJson(base.policy) ? tenant : base;
    const saved = await client
      .tenant(tenant.id)
      .update({ policy: policy as object }, { ifMatch: etag })
      .catch((thrown: unknown) => {
        if (!isAnswer(thrown, "PRECONDITION_FAILED")) throw thrown;
        throw new Error(
          "The tenant has been changed since this page was opened, so your policy was not saved. Copy your text, reload the page, and make your change again",
        );
      });
    setBase(saved);
    setSaved(true);
    reload();
  };
  return (
    <section class="card stack" data-form>
      <h2>Policy</h2>
      <p>
        Limits of calls, hosts that tools may reach, capabilities, rate, quotas and retention. The{" "}
        <a href="/reference#schema-NewTenant">reference</a> lists every field.
      </p>
      <JsonField label="Policy as JSON" value={policy} onChange={change} />
      {can("tenants:write") ? (
        <div class="row">
          <Button kind="primary" onClick={save}>
            Save the policy
          </Button>
          {isSaved ? <span role="status">Saved</span> : null}
        </div>
      ) : null}
    </section>
  );
}

function Dangers({ tenant, reload }: PartProps): JSX.Element {
  const { id, state } = tenant;
  const isSuspended = state === "suspended";
  const change = async (): Promise<void> => {
    await client.tenant(id).update({ state: isSuspended ? "active" : "suspended" });
    reload();
  };
  const remove = async (): Promise<void> => {
    await request("DELETE", `/v1/tenants/${encodeURIComponent(id)}`);
    navigate(urlOf(["tenants"]));
  };
  return (
    <section class="card stack">
      <h2>Tenant</h2>
      <div class="row">
        {can("tenants:export") ? (
          <Button onClick={() => download(`/v1/tenants/${encodeURIComponent(id)}/export`, `${id}.ndjson`)}>
            Export all data
          </Button>
        ) : null}
        {can("tenants:write") ? <Button onClick={change}>{isSuspended ? "Resume" : "Suspend"}</Button> : null}
        {can("tenants:write") ? (
          <ConfirmButton
            label="Delete the tenant"
            title={`Delete ${id}?`}
            action="Delete the tenant"
            typed={id}
            onConfirm={remove}
          >
            All tools, calls, secrets, keys and values of the tenant are removed, and cannot be brought back. Export
            them before.
          </ConfirmButton>
        ) : null}
      </div>
      <p class="faint">A suspended tenant keeps its data, and its calls are denied.</p>
    </section>
  );
}
