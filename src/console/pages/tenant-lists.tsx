// The lists of a tenant that have one page each: secrets, stored values, schedules, webhooks and approvals.

import type { Approval, Delivery, KvValue, Schedule, Secret, Webhook } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Copyable, Empty, ErrorBox, Loading, SelectField, TextField, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/dialog-form.tsx";
import { JsonView } from "../parts/json-view.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { JsonField } from "../parts/schema-form.tsx";
import { Table } from "../parts/table.tsx";
import { formatBytes, locale } from "../state/format.ts";
import { useResource } from "../state/resource.ts";
import { address, setQuery, urlOf } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";
import { collect } from "./call.tsx";

interface TenantProps {
  readonly tenantId: string;
}
interface FormProps extends TenantProps {
  /** Called when the form has succeeded. */
  readonly onDone: () => void;
}

export function Secrets({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  return (
    <ListPage<Secret>
      title="Secrets"
      id={`secrets ${tenantId}`}
      load={() => collect(tenant.secrets())}
      keyOf={({ name }) => name}
      actions={(reload) =>
        can("secrets:write") ? (
          <DialogButton label="Set a secret" title="Set a secret">
            {(close) => (
              <SecretForm
                tenantId={tenantId}
                onDone={() => {
                  reload();
                  close();
                }}
              />
            )}
          </DialogButton>
        ) : null
      }
      columns={(reload) => [
        { name: "Name", cell: ({ name }) => <code>{name}</code> },
        { name: "Sent only to", cell: ({ hosts }) => hosts.join(", ") },
        {
          name: "Changed",
          cell: ({ updatedAt, changedBy }) => (
            <span title={changedBy}>
              <Time at={updatedAt} isAge />
            </span>
          ),
        },
        {
          name: "Actions",
          cell: ({ name }) =>
            can("secrets:write") ? (
              <ConfirmButton
                label="Delete"
                title={`Delete the secret ${name}?`}
                action="Delete the secret"
                onConfirm={async () => {
                  await tenant.deleteSecret(name);
                  reload();
                }}
              >
                Tools that use it fail from now on.
              </ConfirmButton>
            ) : null,
        },
      ]}
      empty={
        <Empty
          title="No secrets"
          command={`npx glovebox secrets set NAME --allow-host api.example.com --tenant ${tenantId} < file`}
        >
          A secret is sent to its hosts in place of a placeholder. The code of a tool never sees the value, and neither
          does this page.
        </Empty>
      }
    />
  );
}

function SecretForm({ tenantId, onDone }: FormProps): JSX.Element {
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const [hosts, setHosts] = useState("");
  const save = async (): Promise<void> => {
    const list = hosts.split(/[\s,]+/).filter((host) => host !== "");
    await client.tenant(tenantId).setSecret(name, { value, hosts: list });
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Name" value={name} onInput={setName} isRequired />
      <TextField
        label="Value"
        value={value}
        onInput={setValue}
        type="password"
        hint="8 to 8,192 bytes. It is never shown again."
        isRequired
      />
      <TextField
        label="Hosts"
        value={hosts}
        onInput={setHosts}
        placeholder="api.example.com"
        hint="Separated by commas"
        isRequired
      />
      <Button kind="primary" type="submit" disabled={name === "" || value === "" || hosts === ""} onClick={save}>
        Save
      </Button>
    </form>
  );
}

interface Space {
  readonly tool: string;
  readonly keys: number;
  readonly bytes: number;
}

export function Values({ tenantId }: TenantProps): JSX.Element {
  const tool = address.value.query.tool;
  const spaces = (
    <ListPage<Space>
      title="Stored values"
      id={`kv ${tenantId}`}
      load={async () =>
        (await request<{ items: readonly Space[] }>("GET", `/v1/tenants/${encodeURIComponent(tenantId)}/kv`)).items
      }
      keyOf={(space) => space.tool}
      columns={() => [
        {
          name: "Tool",
          cell: (space) => (
            <button type="button" class="link" onClick={() => setQuery({ tool: space.tool })}>
              {space.tool}
            </button>
          ),
        },
        { name: "Keys", isNumber: true, cell: ({ keys }) => keys },
        { name: "Size", isNumber: true, cell: ({ bytes }) => formatBytes(bytes) },
      ]}
      empty={
        <Empty title="No tool has stored a value">
          A tool with the capability <code>kv</code> keeps values between its calls:{" "}
          <code>await ctx.kv.set("key", value)</code>.
        </Empty>
      }
    />
  );
  return (
    <>
      {spaces}
      {tool === undefined ? null : <ToolValues key={tool} tenantId={tenantId} tool={tool} />}
    </>
  );
}

function ToolValues({ tenantId, tool }: TenantProps & { readonly tool: string }): JSX.Element {
  const tenant = client.tenant(tenantId);
  const [prefix, setPrefix] = useState("");
  const { value, error, reload } = useResource(`kv ${tenantId} ${tool} ${prefix}`, () =>
    collect(tenant.values(tool, prefix === "" ? {} : { prefix })),
  );
  return (
    <section class="card stack">
      <div class="row spread">
        <h2>{tool}</h2>
        {can("kv:write") ? (
          <DialogButton label="Set a value" title={`Set a value of ${tool}`}>
            {(close) => (
              <ValueForm
                {...{ tenantId, tool }}
                onDone={() => {
                  reload();
                  close();
                }}
              />
            )}
          </DialogButton>
        ) : null}
      </div>
      <input
        type="search"
        aria-label="Beginning of the key"
        placeholder="Beginning of the key"
        value={prefix}
        onChange={(event) => setPrefix(event.currentTarget.value)}
      />
      {error === undefined ? null : <ErrorBox error={error} />}
      {value === undefined ? (
        error === undefined ? (
          <Loading />
        ) : null
      ) : (
        <Table<KvValue>
          caption={`Values of ${tool}`}
          items={value}
          keyOf={({ key }) => key}
          empty={<p class="faint">There is no such key.</p>}
          columns={[
            { name: "Key", cell: ({ key }) => <code>{key}</code> },
            {
              name: "Value",
              cell: (entry) =>
                entry.base64 === null ? (
                  <JsonView value={entry.value} label={entry.key} />
                ) : (
                  <code>{entry.base64.slice(0, 200)}</code>
                ),
            },
            { name: "Expires", cell: ({ expiresAt }) => <Time at={expiresAt} isAge /> },
            {
              name: "Actions",
              cell: ({ key }) =>
                can("kv:write") ? (
                  <Button
                    kind="danger"
                    onClick={async () => {
                      await tenant.deleteValue(tool, key);
                      reload();
                    }}
                  >
                    Delete
                  </Button>
                ) : null,
            },
          ]}
        />
      )}
    </section>
  );
}

function ValueForm({ tenantId, tool, onDone }: FormProps & { readonly tool: string }): JSX.Element {
  const [key, setKey] = useState("");
  const [value, setValue] = useState<unknown>(null);
  const save = async (): Promise<void> => {
    await client.tenant(tenantId).setValue(tool, key, value);
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Key" value={key} onInput={setKey} isRequired />
      <JsonField label="Value as JSON" value={value} onChange={setValue} />
      <Button kind="primary" type="submit" disabled={key === ""} onClick={save}>
        Save
      </Button>
    </form>
  );
}

export function Schedules({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  return (
    <ListPage<Schedule>
      title="Schedules"
      id={`schedules ${tenantId}`}
      load={() => collect(tenant.schedules())}
      keyOf={({ id }) => id}
      actions={(reload) =>
        can("schedules:write") ? (
          <DialogButton label="New schedule" title="New schedule">
            {(close) => (
              <ScheduleForm
                tenantId={tenantId}
                onDone={() => {
                  reload();
                  close();
                }}
              />
            )}
          </DialogButton>
        ) : null
      }
      columns={(reload) => [
        { name: "Name", cell: ({ name }) => name },
        {
          name: "Tool",
          cell: ({ tool, alias }) => <a href={urlOf(["t", tenantId, "tools", tool])}>{`${tool}:${alias}`}</a>,
        },
        {
          name: "Cron",
          cell: ({ cron, timeZone }) => (
            <>
              <code>{cron}</code> {timeZone}
            </>
          ),
        },
        { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        { name: "Next run", cell: ({ nextAt, timeZone }) => <InZone at={nextAt} timeZone={timeZone} /> },
        {
          name: "Last call",
          cell: ({ lastCallId, lastAt }) =>
            lastCallId === null ? (
              "–"
            ) : (
              <a href={urlOf(["t", tenantId, "calls", lastCallId])}>
                <Time at={lastAt} isAge />
              </a>
            ),
        },
        { name: "Skipped", isNumber: true, cell: ({ skipped }) => skipped },
        {
          name: "Actions",
          cell: ({ id, name, state }) =>
            can("schedules:write") ? (
              <div class="row">
                <Button
                  onClick={async () => {
                    await tenant.updateSchedule(id, { state: state === "active" ? "paused" : "active" });
                    reload();
                  }}
                >
                  {state === "active" ? "Pause" : "Resume"}
                </Button>
                <ConfirmButton
                  label="Delete"
                  title={`Delete the schedule ${name}?`}
                  action="Delete the schedule"
                  onConfirm={async () => {
                    await tenant.deleteSchedule(id);
                    reload();
                  }}
                >
                  Its calls stay in the list.
                </ConfirmButton>
              </div>
            ) : null,
        },
      ]}
      empty={
        <Empty title="No schedules">
          A schedule calls a tool at certain times, also after a restart of the server.
        </Empty>
      }
    />
  );
}

/** A time in a schedule's own zone, with the local time in its tooltip. */
function InZone({ at, timeZone }: { readonly at: number | null; readonly timeZone: string }): JSX.Element {
  if (at === null) return <span class="faint">none</span>;
  const text = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short", timeZone }).format(at);
  return (
    <time dateTime={new Date(at).toISOString()} title={`${new Date(at).toLocaleString(locale)} here`}>
      {text}
    </time>
  );
}

function ScheduleForm({ tenantId, onDone }: FormProps): JSX.Element {
  const [name, setName] = useState("");
  const [tool, setTool] = useState("");
  const [cron, setCron] = useState("0 * * * *");
  const [timeZone, setTimeZone] = useState(Intl.DateTimeFormat(locale).resolvedOptions().timeZone);
  const [input, setInput] = useState<unknown>({});
  const tools = useResource(`tools ${tenantId}`, () => collect(client.tenant(tenantId).tools()));
  const save = async (): Promise<void> => {
    await client.tenant(tenantId).createSchedule({ name, tool, cron, timeZone, input });
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Name" value={name} onInput={setName} isRequired />
      <SelectField
        label="Tool"
        value={tool}
        onInput={setTool}
        options={[["", "Choose a tool"], ...(tools.value ?? []).map((one) => [one.name, one.name] as const)]}
      />
      <TextField
        label="Cron"
        value={cron}
        onInput={setCron}
        hint="Minute, hour, day of the month, month, day of the week"
        isRequired
      />
      <TextField label="Time zone" value={timeZone} onInput={setTimeZone} isRequired />
      <JsonField label="Input as JSON" value={input} onChange={setInput} />
      <Button kind="primary" type="submit" disabled={name === "" || tool === ""} onClick={save}>
        Create
      </Button>
    </form>
  );
}

const EVENTS = [
  "call.failed",
  "call.succeeded",
  "call.cancelled",
  "version.deployed",
  "version.waiting_for_approval",
  "release.changed",
  "release.rolled_back",
  "quota.warning",
] as const;

export function Webhooks({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const selected = address.value.query.webhook;
  return (
    <>
      <ListPage<Webhook>
        title="Webhooks"
        id={`webhooks ${tenantId}`}
        load={() => collect(tenant.webhooks())}
        keyOf={({ id }) => id}
        actions={(reload) =>
          can("webhooks:write") ? (
            <DialogButton label="New webhook" title="New webhook">
              {() => <WebhookForm tenantId={tenantId} onDone={reload} />}
            </DialogButton>
          ) : null
        }
        columns={(reload) => [
          {
            name: "URL",
            cell: ({ id, url }) => (
              <button type="button" class="link" onClick={() => setQuery({ webhook: id })}>
                {url}
              </button>
            ),
          },
          { name: "Events", cell: ({ events }) => events.join(", ") },
          { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
          { name: "Created", cell: ({ createdAt }) => <Time at={createdAt} isAge /> },
          {
            name: "Actions",
            cell: ({ id, url }) =>
              can("webhooks:write") ? (
                <div class="row">
                  <Button
                    onClick={() => request("POST", `/v1/tenants/${encodeURIComponent(tenantId)}/webhooks/${id}/test`)}
                  >
                    Send a test
                  </Button>
                  <ConfirmButton
                    label="Delete"
                    title="Delete this webhook?"
                    action="Delete the webhook"
                    onConfirm={async () => {
                      await tenant.deleteWebhook(id);
                      reload();
                    }}
                  >
                    Nothing is sent to {url} any more.
                  </ConfirmButton>
                </div>
              ) : null,
          },
        ]}
        empty={
          <Empty title="No webhooks">
            A webhook sends a signed request to your service when a call ends or a release changes.
          </Empty>
        }
      />
      {selected === undefined ? null : <Deliveries key={selected} tenantId={tenantId} webhookId={selected} />}
    </>
  );
}

function WebhookForm({ tenantId, onDone }: FormProps): JSX.Element {
  const [url, setUrl] = useState("https://");
  const [events, setEvents] = useState<readonly string[]>(["call.failed"]);
  const [secret, setSecret] = useState<string>();
  const create = async (): Promise<void> => {
    const created = await client.tenant(tenantId).createWebhook({ url, events: events as Webhook["events"] });
    setSecret(created.secret);
    onDone();
  };
  if (secret !== undefined) {
    return (
      <div class="stack">
        <p>Verify the signature of each request with this secret. It is shown only now.</p>
        <Copyable text={secret} />
      </div>
    );
  }
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="URL" value={url} onInput={setUrl} type="url" isRequired />
      <fieldset>
        <legend>Events</legend>
        {EVENTS.map((event) => (
          <label class="checkbox" key={event}>
            <input
              type="checkbox"
              checked={events.includes(event)}
              onChange={({ currentTarget }) =>
                setEvents(currentTarget.checked ? [...events, event] : events.filter((one) => one !== event))
              }
            />{" "}
            {event}
          </label>
        ))}
      </fieldset>
      <Button kind="primary" type="submit" disabled={events.length === 0} onClick={create}>
        Create
      </Button>
    </form>
  );
}

const DELIVERIES_MS = 3_000;

function Deliveries({ tenantId, webhookId }: TenantProps & { readonly webhookId: string }): JSX.Element {
  const tenant = client.tenant(tenantId);
  const { value, error, reload } = useResource(
    `deliveries ${webhookId}`,
    () => collect(tenant.deliveries(webhookId), 100),
    DELIVERIES_MS,
  );
  return (
    <section class="card stack">
      <h2>Deliveries</h2>
      {error === undefined ? null : <ErrorBox error={error} />}
      {value === undefined ? (
        error === undefined ? (
          <Loading />
        ) : null
      ) : (
        <Table<Delivery>
          caption="Deliveries"
          items={value}
          keyOf={({ id }) => id}
          empty={<p class="faint">Nothing was sent yet.</p>}
          columns={[
            { name: "Event", cell: ({ event }) => event },
            { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
            { name: "Status", isNumber: true, cell: ({ status }) => status ?? "–" },
            { name: "Attempts", isNumber: true, cell: ({ attempts }) => attempts },
            { name: "Error", cell: ({ error: why }) => why ?? "" },
            { name: "Created", cell: ({ createdAt }) => <Time at={createdAt} isAge /> },
            { name: "Next attempt", cell: ({ nextAt }) => (nextAt === null ? "–" : <Time at={nextAt} isAge />) },
            {
              name: "Actions",
              cell: ({ id, state }) =>
                can("webhooks:write") && state !== "sending" ? (
                  <Button
                    onClick={async () => {
                      await tenant.redeliver(webhookId, id);
                      reload();
                    }}
                  >
                    Send again
                  </Button>
                ) : null,
            },
          ]}
        />
      )}
    </section>
  );
}

export function Approvals({ tenantId }: TenantProps): JSX.Element {
  const decide = async ({ tool, version }: Approval, decision: "approve" | "deny"): Promise<void> => {
    await request(
      "POST",
      `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(tool)}/versions/${version}/${decision}`,
    );
  };
  return (
    <ListPage<Approval>
      title="Approvals"
      id={`approvals ${tenantId}`}
      load={() => collect(client.tenant(tenantId).approvals())}
      keyOf={({ tool, version }) => `${tool} ${version}`}
      columns={(reload) => [
        {
          name: "Version",
          cell: ({ tool, version }) => (
            <a href={urlOf(["t", tenantId, "tools", tool], { tab: "versions" })}>{`${tool} v${version}`}</a>
          ),
        },
        {
          name: "Requests in addition",
          cell: ({ requests }) => (
            <ul class="plain-list">
              {requests.added.map((one) => (
                <li key={one}>
                  <code>+ {one}</code>
                </li>
              ))}
              {requests.removed.map((one) => (
                <li key={one}>
                  <code>− {one}</code>
                </li>
              ))}
            </ul>
          ),
        },
        {
          name: "Uploaded",
          cell: ({ createdAt, createdBy }) => (
            <>
              <Time at={createdAt} isAge /> <span class="faint">{createdBy}</span>
            </>
          ),
        },
        {
          name: "Actions",
          cell: (approval) =>
            can("tools:approve") ? (
              <div class="row">
                <Button
                  kind="primary"
                  onClick={async () => {
                    await decide(approval, "approve");
                    reload();
                  }}
                >
                  Approve
                </Button>
                <Button
                  kind="danger"
                  onClick={async () => {
                    await decide(approval, "deny");
                    reload();
                  }}
                >
                  Deny
                </Button>
              </div>
            ) : (
              <span class="faint">needs the scope tools:approve</span>
            ),
        },
      ]}
      empty={
        <Empty title="Nothing waits for approval">
          A version that requests more than the live one waits here: another capability, host, secret, or a higher
          limit.
        </Empty>
      }
    />
  );
}
