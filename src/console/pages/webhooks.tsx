// The webhooks of a tenant and what was delivered to them.

import type { Delivery, Webhook } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Copyable, Empty, ErrorBox, Loading, TextField, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/dialog-form.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { Table } from "../parts/table.tsx";
import { collect } from "../state/collect.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { useResource } from "../state/resource.ts";
import { address, setQuery } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";

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
