// API keys: those of the platform, or of a tenant.

import type { ApiKey, CreatedApiKey } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Copyable, Empty, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/dialog-form.tsx";
import { Checkbox, SelectField, TextField } from "../parts/fields.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { collect } from "../state/collect.ts";
import { firstKeyCommand } from "../state/first-commands.ts";
import { type OwnerProps, prefixOf } from "../state/props.ts";
import { can, client, me, request } from "../state/session.ts";

const stateOf = ({ revokedAt, expiresAt }: ApiKey): string =>
  revokedAt !== null ? "revoked" : expiresAt !== null && expiresAt <= Date.now() ? "expired" : "active";

const describeRate = (limit: ApiKey["rateLimit"]): string =>
  limit === null
    ? "–"
    : `${limit.calls} per ${limit.per}${limit.burst === undefined ? "" : `, ${limit.burst} at once`}`;

/** Returns the limits of the calls of a key, a line for each. */
const limitsOf = ({ limits, quotas, maxAsyncCalls }: ApiKey): readonly string[] => [
  ...Object.entries(limits ?? {}).map(([name, most]) => `${name}: ${most}`),
  ...Object.entries(quotas ?? {}).flatMap(([resource, periods]) =>
    Object.entries(periods ?? {}).map(([period, most]) => `${resource} per ${period}: ${most}`),
  ),
  ...(maxAsyncCalls === null ? [] : [`maxAsyncCalls: ${maxAsyncCalls}`]),
];

function CallLimits({ of }: { readonly of: ApiKey }): JSX.Element {
  const lines = limitsOf(of);
  const [first = "–"] = lines;
  return <span title={lines.join("\n")}>{lines.length > 1 ? `${lines.length} limits` : first}</span>;
}

export function Keys({ tenantId }: OwnerProps): JSX.Element {
  const path = `${prefixOf({ tenantId })}/keys`;
  return (
    <ListPage<ApiKey>
      title={tenantId === undefined ? "Keys of the platform" : "Keys"}
      id={path}
      load={() => collect(client.list<ApiKey>(path), 1_000)}
      textOf={({ name, prefix, id }) => `${name} ${prefix} ${id}`}
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
        {
          name: "Scopes",
          cell: ({ scopes }) => (
            <span title={scopes.join("\n")}>{scopes.length === 1 ? "1 scope" : `${scopes.length} scopes`}</span>
          ),
        },
        { name: "Rate limit", cell: ({ rateLimit }) => describeRate(rateLimit) },
        { name: "Limits of calls", cell: (key) => <CallLimits of={key} /> },
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
      empty={
        <Empty title="No keys" command={firstKeyCommand(location.origin, path)}>
          A key is what a program or a person signs in with.
        </Empty>
      }
    />
  );
}

const PLATFORM_ONLY = ["tenants:write", "metrics:read", "fleet:write"];

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
  const [lifetime, setLifetime] = useState("90");
  const [unit, setUnit] = useState("expiresInDays");
  const [calls, setCalls] = useState("");
  const [per, setPer] = useState("second");
  const [burst, setBurst] = useState("");
  const [monthly, setMonthly] = useState("");
  const [concurrent, setConcurrent] = useState("");
  const [created, setCreated] = useState<CreatedApiKey>();
  const create = async (): Promise<void> => {
    const expires = lifetime.trim() === "" ? {} : { [unit]: Number(lifetime) };
    const most = burst.trim() === "" ? {} : { burst: Number(burst) };
    const limit = calls.trim() === "" ? {} : { rateLimit: { calls: Number(calls), per, ...most } };
    const ofCalls = {
      ...(monthly.trim() === "" ? {} : { quotas: { calls: { month: Number(monthly) } } }),
      ...(concurrent.trim() === "" ? {} : { limits: { maxConcurrentCalls: Number(concurrent) } }),
    };
    const body = { name, scopes, ...expires, ...limit, ...ofCalls };
    setCreated(await request<CreatedApiKey>("POST", path, { body }));
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
      <div class="row">
        <TextField label="Time until it expires" value={lifetime} onInput={setLifetime} hint="Empty: never" />
        <SelectField
          label="Unit"
          value={unit}
          onInput={setUnit}
          options={[
            ["expiresInDays", "days"],
            ["expiresInMinutes", "minutes"],
          ]}
        />
      </div>
      <div class="row">
        <TextField label="Requests at most" value={calls} onInput={setCalls} hint="Empty: no limit of the key" />
        <SelectField
          label="Per"
          value={per}
          onInput={setPer}
          options={[
            ["second", "second"],
            ["minute", "minute"],
          ]}
        />
        <TextField label="At once" value={burst} onInput={setBurst} hint="Empty: as many" />
      </div>
      <div class="row">
        <TextField label="Calls per month" value={monthly} onInput={setMonthly} hint="Empty: as the tenant" />
        <TextField
          label="Calls at the same time"
          value={concurrent}
          onInput={setConcurrent}
          hint="Empty: as the tenant"
        />
      </div>
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
