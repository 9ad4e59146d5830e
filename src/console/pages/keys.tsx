// API keys: those of the platform, or of a tenant.

import type { ApiKey, CreatedApiKey } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Copyable, Empty, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/forms/dialog-form.tsx";
import { Checkbox, SelectField, TextField } from "../parts/forms/fields.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { unchanged } from "../state/changes.ts";
import { serverNow } from "../state/clock.ts";
import { collect } from "../state/collect.ts";
import { firstKeyCommand } from "../state/first-commands.ts";
import { type OwnerProps, prefixOf } from "../state/props.ts";
import { can, client, me, request } from "../state/session.ts";

const stateOf = ({ revokedAt, expiresAt }: ApiKey): string =>
  revokedAt !== null ? "revoked" : expiresAt !== null && expiresAt <= serverNow() ? "expired" : "active";

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

export function KeysPage({ tenantId }: OwnerProps): JSX.Element {
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
        {
          name: "Name",
          cell: ({ name, id }) => (
            <span class="phrase" title={id}>
              {name}
            </span>
          ),
        },
        { name: "Key", cell: ({ prefix }) => <code>{prefix}…</code> },
        { name: "State", cell: (key) => <Badge>{stateOf(key)}</Badge> },
        {
          name: "Scopes",
          cell: ({ scopes }) => (
            <span class="one-line" title={scopes.join("\n")}>
              {scopes.length === 1 ? "1 scope" : `${scopes.length} scopes`}
            </span>
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
              <div class="row">
                <DialogButton label="Limits" kind="plain" title={`Limits of the key ${key.name}`} onDone={reload}>
                  {(done) => <LimitsForm of={key} path={path} onDone={done} />}
                </DialogButton>
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
              </div>
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

/** The limits of a key that a form has, as they are typed. Empty: none. */
const NO_LIMITS = { calls: "", per: "second", burst: "", monthly: "", concurrent: "" };
type TypedLimits = typeof NO_LIMITS;
type KeyLimits = Pick<ApiKey, "rateLimit" | "limits" | "quotas">;

const typed = (value: number | undefined): string => (value === undefined ? "" : String(value));
const toTyped = ({ rateLimit, limits, quotas }: KeyLimits): TypedLimits => ({
  calls: typed(rateLimit?.calls),
  per: rateLimit?.per ?? "second",
  burst: typed(rateLimit?.burst),
  monthly: typed(quotas?.calls?.month),
  concurrent: typed(limits?.maxConcurrentCalls),
});

/** Returns the limits for a request. Those that the form does not have stay. */
function toLimits({ calls, per, burst, monthly, concurrent }: TypedLimits, before: KeyLimits | undefined): object {
  const read = (text: string): number | undefined => (text.trim() === "" ? undefined : Number(text));
  const orNull = (value: object): object | null =>
    Object.values(value).some((member) => member !== undefined) ? value : null;
  const month = read(monthly);
  return {
    rateLimit: read(calls) === undefined ? null : { calls: read(calls), per, burst: read(burst) },
    limits: orNull({ ...before?.limits, maxConcurrentCalls: read(concurrent) }),
    quotas: orNull({ ...before?.quotas, calls: orNull({ ...before?.quotas?.calls, month }) ?? undefined }),
  };
}

function LimitFields({
  value,
  onInput,
}: {
  readonly value: TypedLimits;
  readonly onInput: (value: TypedLimits) => void;
}): JSX.Element {
  const set =
    (name: keyof TypedLimits) =>
    (text: string): void =>
      onInput({ ...value, [name]: text });
  return (
    <>
      <div class="row fields-top">
        <TextField
          label="Requests at most"
          value={value.calls}
          onInput={set("calls")}
          hint="Empty: no limit of the key"
        />
        <SelectField
          label="Per"
          value={value.per}
          onInput={set("per")}
          options={[
            ["second", "second"],
            ["minute", "minute"],
          ]}
        />
        <TextField label="Of these at once" value={value.burst} onInput={set("burst")} hint="Empty: the same number" />
      </div>
      <div class="row fields-top">
        <TextField
          label="Calls per month"
          value={value.monthly}
          onInput={set("monthly")}
          hint="Empty: the tenant's limit"
        />
        <TextField
          label="Calls at the same time"
          value={value.concurrent}
          onInput={set("concurrent")}
          hint="Empty: the tenant's limit"
        />
      </div>
    </>
  );
}

function LimitsForm({
  of,
  path,
  onDone,
}: {
  readonly of: ApiKey;
  readonly path: string;
  readonly onDone: () => void;
}): JSX.Element {
  const [opened] = useState(of);
  const [limits, setLimits] = useState(toTyped(of));
  const save = async (): Promise<void> => {
    const stored = await request<ApiKey>("GET", `${path}/${opened.id}`);
    const { ifMatch } = unchanged(`The key ${opened.name}`, opened, stored, ["rateLimit", "limits", "quotas"]);
    const body = toLimits(limits, opened);
    await request("PATCH", `${path}/${opened.id}`, {
      body,
      ...(ifMatch === undefined ? {} : { headers: { "if-match": ifMatch } }),
    });
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <LimitFields value={limits} onInput={setLimits} />
      <Button kind="primary" type="submit" onClick={save}>
        Save
      </Button>
    </form>
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
  const [limits, setLimits] = useState(NO_LIMITS);
  const [created, setCreated] = useState<CreatedApiKey>();
  const create = async (): Promise<void> => {
    const expires = lifetime.trim() === "" ? {} : { [unit]: Number(lifetime) };
    const given = Object.entries(toLimits(limits, undefined)).filter(([, value]) => value !== null);
    const body = { name, scopes, ...expires, ...Object.fromEntries(given) };
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
      <div class="row fields-top">
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
      <LimitFields value={limits} onInput={setLimits} />
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
