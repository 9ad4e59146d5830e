// Who may do what, and who did what: API keys, sessions of the console, the audit log, and the processes of the server.

import type { ApiKey, AuditEntry, ConsoleSession, CreatedApiKey, Workers as WorkersData } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import {
  Badge,
  Button,
  Checkbox,
  Copyable,
  Empty,
  ErrorBox,
  Facts,
  Loading,
  PageHead,
  TextField,
  Time,
} from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/dialog-form.tsx";
import { JsonView } from "../parts/json-view.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { Table } from "../parts/table.tsx";
import { formatBytes, formatMs } from "../state/format.ts";
import { useResource } from "../state/resource.ts";
import { urlOf } from "../state/router.ts";
import { can, client, me, request } from "../state/session.ts";
import { collect } from "./call.tsx";

interface OwnerProps {
  /** Undefined for the platform. */
  readonly tenantId: string | undefined;
}

const prefixOf = ({ tenantId }: OwnerProps): string =>
  tenantId === undefined ? "/v1" : `/v1/tenants/${encodeURIComponent(tenantId)}`;
const stateOf = ({ revokedAt, expiresAt }: ApiKey): string =>
  revokedAt !== null ? "revoked" : expiresAt !== null && expiresAt <= Date.now() ? "expired" : "active";

export function Keys({ tenantId }: OwnerProps): JSX.Element {
  const path = `${prefixOf({ tenantId })}/keys`;
  return (
    <ListPage<ApiKey>
      title={tenantId === undefined ? "Keys of the platform" : "Keys"}
      id={path}
      load={() => collect(client.list<ApiKey>(path))}
      keyOf={({ id }) => id}
      actions={(reload) =>
        can("keys:write") ? (
          <DialogButton label="New key" title="New key">
            {() => <KeyForm path={path} tenantId={tenantId} onDone={reload} />}
          </DialogButton>
        ) : null
      }
      columns={(reload) => [
        { name: "Name", cell: ({ name, id }) => <span title={id}>{name}</span> },
        { name: "Key", cell: ({ prefix }) => <code>{prefix}…</code> },
        { name: "State", cell: (key) => <Badge>{stateOf(key)}</Badge> },
        { name: "Scopes", cell: ({ scopes }) => <span title={scopes.join("\n")}>{scopes.length} scopes</span> },
        { name: "Last used", cell: ({ lastUsedAt }) => <Time at={lastUsedAt} isAge /> },
        { name: "Expires", cell: ({ expiresAt }) => <Time at={expiresAt} /> },
        {
          name: "Actions",
          cell: (key) =>
            can("keys:write") && stateOf(key) === "active" ? (
              <ConfirmButton
                label="Revoke"
                title={`Revoke the key ${key.name}?`}
                action="Revoke the key"
                onConfirm={async () => {
                  await request("DELETE", `${path}/${key.id}`);
                  reload();
                }}
              >
                {key.id === me.value?.keyId
                  ? "This is your own key: your session ends too."
                  : "Requests with it fail from now on, and its sessions end."}
              </ConfirmButton>
            ) : null,
        },
      ]}
      empty={<Empty title="No keys">A key is what a program or a person signs in with.</Empty>}
    />
  );
}

const PLATFORM_ONLY = ["tenants:write", "metrics:read"];

function KeyForm({
  path,
  tenantId,
  onDone,
}: OwnerProps & { readonly path: string; readonly onDone: () => void }): JSX.Element {
  const available = (me.value?.scopes ?? []).filter(
    (scope) => tenantId === undefined || !PLATFORM_ONLY.includes(scope),
  );
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly string[]>(available);
  const [days, setDays] = useState("90");
  const [created, setCreated] = useState<CreatedApiKey>();
  const create = async (): Promise<void> => {
    const expires = days.trim() === "" ? {} : { expiresInDays: Number(days) };
    setCreated(await request<CreatedApiKey>("POST", path, { body: { name, scopes, ...expires } }));
    onDone();
  };
  if (created !== undefined) {
    return (
      <div class="stack">
        <p>Copy the key now. Only its hash is stored, so it cannot be shown again.</p>
        <Copyable text={created.key} />
      </div>
    );
  }
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Name" value={name} onInput={setName} isRequired />
      <TextField label="Days until it expires" value={days} onInput={setDays} hint="Empty: never" />
      <fieldset>
        <legend>Scopes</legend>
        <div class="scopes">
          {available.map((scope) => (
            <Checkbox
              key={scope}
              label={scope}
              isChecked={scopes.includes(scope)}
              onInput={(isChecked) => setScopes(isChecked ? [...scopes, scope] : scopes.filter((one) => one !== scope))}
            />
          ))}
        </div>
      </fieldset>
      <Button kind="primary" type="submit" disabled={name === "" || scopes.length === 0} onClick={create}>
        Create
      </Button>
    </form>
  );
}

export function Audit({ tenantId }: OwnerProps): JSX.Element {
  const path = `${prefixOf({ tenantId })}/audit`;
  return (
    <ListPage<AuditEntry>
      title="Audit log"
      id={path}
      load={() => collect(client.list<AuditEntry>(path), 500)}
      keyOf={({ sequence }) => String(sequence)}
      actions={() => (tenantId === undefined ? <Verification /> : null)}
      columns={() => [
        { name: "Number", isNumber: true, cell: ({ sequence }) => sequence },
        { name: "Time", cell: ({ at }) => <Time at={at} /> },
        { name: "Who", cell: ({ actor, ip }) => <span title={ip ?? ""}>{actor}</span> },
        { name: "Action", cell: ({ action }) => <code>{action}</code> },
        ...(tenantId === undefined ? [{ name: "Tenant", cell: (entry: AuditEntry) => entry.tenantId ?? "" }] : []),
        { name: "What", cell: ({ target }) => target },
        {
          name: "Details",
          cell: ({ details }) =>
            Object.keys(details).length === 0 ? null : (
              <details>
                <summary>show</summary>
                <JsonView value={details} label="Details" />
              </details>
            ),
        },
      ]}
      empty={
        <Empty title="No changes yet">
          Each change of tenants, keys, tools and releases is listed here, with who made it.
        </Empty>
      }
    />
  );
}

/** Checks that no entry of the log was changed or removed. */
function Verification(): JSX.Element {
  const [text, setText] = useState<string>();
  const verify = async (): Promise<void> => {
    const { isIntact, brokenAt } = await request<{ isIntact: boolean; brokenAt: number | null }>(
      "GET",
      "/v1/audit/verification",
    );
    setText(isIntact ? "The chain is intact." : `The chain is broken at entry ${brokenAt}.`);
  };
  return (
    <>
      <span role="status">{text}</span>
      <Button onClick={verify}>Verify the chain</Button>
    </>
  );
}

export function Sessions(): JSX.Element {
  return (
    <ListPage<ConsoleSession>
      title="Your sessions"
      id="sessions"
      load={() => collect(client.list<ConsoleSession>("/v1/console/sessions"))}
      keyOf={({ id }) => id}
      columns={(reload) => [
        {
          name: "Browser",
          cell: ({ userAgent, isCurrent }) => (
            <>
              {userAgent.slice(0, 80)} {isCurrent ? <Badge tone="info">this one</Badge> : null}
            </>
          ),
        },
        { name: "Address", cell: ({ ip }) => ip ?? "" },
        { name: "Began", cell: ({ createdAt }) => <Time at={createdAt} isAge /> },
        { name: "Ends", cell: ({ expiresAt }) => <Time at={expiresAt} isAge /> },
        {
          name: "Actions",
          cell: ({ id }) => (
            <Button
              onClick={async () => {
                await request("DELETE", `/v1/console/sessions/${id}`);
                reload();
              }}
            >
              End
            </Button>
          ),
        },
      ]}
      empty={<Empty title="No sessions" />}
    />
  );
}

const WORKERS_MS = 2_000;
const LAYER_TONES: { readonly [state: string]: string } = { holds: "good", missing: "warn", broken: "bad" };

export function Workers(): JSX.Element {
  const { value, error, reload } = useResource(
    "workers",
    (signal) => request<WorkersData>("GET", "/v1/workers", { signal }),
    WORKERS_MS,
  );
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  const { pid, uptimeSeconds, rssBytes, heapBytes, version, node, workers, running, hardening } = value;
  return (
    <>
      <PageHead title="Workers" />
      <div class="card">
        <Facts
          facts={[
            ["Server process", String(pid)],
            ["Up for", formatMs(uptimeSeconds * 1_000)],
            ["Resident memory", formatBytes(rssBytes)],
            ["Heap", formatBytes(heapBytes)],
            ["Glovebox", version],
            ["Node.js", node],
          ]}
        />
      </div>
      <h2>Worker processes</h2>
      <Table
        caption="Worker processes"
        items={workers}
        keyOf={(worker) => String(worker.pid)}
        empty={<Empty title="No worker process runs">One starts with the first call.</Empty>}
        columns={[
          { name: "Process", cell: (worker) => worker.pid },
          { name: "Resident memory", isNumber: true, cell: (worker) => formatBytes(worker.rssBytes) },
        ]}
      />
      <h2>Layers around a worker process</h2>
      <Table
        caption="Layers around a worker process"
        items={hardening}
        keyOf={({ layer }) => layer}
        empty={<p class="faint">There are none on this system.</p>}
        columns={[
          { name: "Layer", cell: ({ layer }) => layer.replaceAll("-", " ") },
          {
            name: "State",
            cell: ({ state }) => <Badge tone={LAYER_TONES[state] ?? "muted"}>{state.replaceAll("-", " ")}</Badge>,
          },
          { name: "Stops", cell: ({ stops }) => stops },
          { name: "To get it", cell: ({ state, get }) => (state === "missing" ? get : "") },
        ]}
      />
      <p class="faint">
        The command <code>npx glovebox doctor</code> tries each layer, and says how to get a missing one.
      </p>
      <h2>Running calls</h2>
      <Table
        caption="Running calls"
        items={running}
        keyOf={({ id }) => id}
        empty={<p class="faint">No call runs.</p>}
        columns={[
          { name: "Tool", cell: ({ tenantId, tool, id }) => <a href={urlOf(["t", tenantId, "calls", id])}>{tool}</a> },
          { name: "Tenant", cell: ({ tenantId }) => <a href={urlOf(["t", tenantId])}>{tenantId}</a> },
          { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
          { name: "For", isNumber: true, cell: ({ ageMs }) => formatMs(ageMs) },
        ]}
      />
    </>
  );
}
