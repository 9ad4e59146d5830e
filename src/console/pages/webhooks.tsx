// The webhooks of a tenant and what was delivered to them.

import type { Delivery, Webhook } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Copyable, Empty, ErrorBox, Loading, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/forms/dialog-form.tsx";
import { Checkbox, TextField } from "../parts/forms/fields.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { Table } from "../parts/table.tsx";
import { JsonView } from "../parts/values/json-view.tsx";
import { unchanged } from "../state/changes.ts";
import { collect } from "../state/collect.ts";
import { firstCommand } from "../state/first-commands.ts";
import { formatNumber } from "../state/format.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { useResource } from "../state/resource.ts";
import { address, setQuery } from "../state/router.ts";
import { can, client } from "../state/session.ts";

type EventType = Webhook["events"][number];
/** What each event of the API says. */
const EVENTS: { readonly [event in EventType]: string } = {
  "call.failed": "a call failed",
  "call.succeeded": "a call succeeded",
  "call.cancelled": "a call was cancelled",
  "approval.requested": "a call waits for approval",
  "approval.decided": "a call was approved or denied, or its approval has expired",
  "run.waiting": "a run waits for a person",
  "version.deployed": "a new version was stored",
  "version.waiting_for_approval": "a version waits for approval",
  "release.changed": "a release runs other versions",
  "release.rolled_back": "a release went back to its previous versions",
  "quota.warning": "80 % of a quota are used",
};

export function WebhooksPage({ tenantId }: TenantProps): JSX.Element {
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
          { name: "Events", cell: ({ events }) => <span class="phrase">{events.join(", ")}</span> },
          { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
          { name: "Created", cell: ({ createdAt }) => <Time at={createdAt} isAge /> },
          {
            name: "Actions",
            cell: (webhook) => {
              const { id, url, state } = webhook;
              if (!can("webhooks:write")) return null;
              return (
                <div class="row">
                  <Button onClick={() => tenant.testWebhook(id)}>Send a test</Button>
                  <DialogButton label="Edit" title="Edit the webhook" kind="plain" onDone={reload}>
                    {(done) => <WebhookForm tenantId={tenantId} webhook={webhook} onDone={done} />}
                  </DialogButton>
                  <Button
                    onClick={async () => {
                      await tenant.updateWebhook(id, { state: state === "active" ? "disabled" : "active" });
                      reload();
                    }}
                  >
                    {state === "active" ? "Disable" : "Enable"}
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
              );
            },
          },
        ]}
        empty={
          <Empty title="No webhooks" command={firstCommand(location.origin, tenantId, "webhooks")}>
            A webhook sends a signed request to your service when a call ends or a release changes.
          </Empty>
        }
      />
      {selected === undefined ? null : <Deliveries key={selected} tenantId={tenantId} webhookId={selected} />}
    </>
  );
}

interface WebhookFormProps extends FormProps {
  /** The webhook that is changed; undefined for a new one. */
  readonly webhook?: Webhook;
}

function WebhookForm({ tenantId, webhook, onDone }: WebhookFormProps): JSX.Element {
  const [url, setUrl] = useState(webhook?.url ?? "https://");
  const [events, setEvents] = useState<Webhook["events"]>(webhook?.events ?? ["call.failed"]);
  const [secret, setSecret] = useState<string>();
  const [opened] = useState(webhook);
  const tenant = client.tenant(tenantId);
  const save = async (): Promise<void> => {
    if (opened === undefined) setSecret((await tenant.createWebhook({ url, events })).secret);
    else {
      const stored = await collect(tenant.webhooks());
      const condition = unchanged(
        "The webhook",
        opened,
        stored.find(({ id }) => id === opened.id),
        ["url", "events"],
      );
      await tenant.updateWebhook(opened.id, { url, events }, condition);
    }
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
      <fieldset class="choices">
        <legend>Events</legend>
        {(Object.keys(EVENTS) as EventType[]).map((event) => (
          <Checkbox
            key={event}
            label={`${event}: ${EVENTS[event]}`}
            isChecked={events.includes(event)}
            onInput={(isChecked) => setEvents(isChecked ? [...events, event] : events.filter((one) => one !== event))}
          />
        ))}
      </fieldset>
      <Button kind="primary" type="submit" disabled={events.length === 0} onClick={save}>
        {webhook === undefined ? "Create" : "Save"}
      </Button>
    </form>
  );
}

const DELIVERIES_MS = 3_000;
/** Deliveries that are shown first, and each time that older ones are wanted. */
const PAGE = 100;

function Deliveries({ tenantId, webhookId }: TenantProps & { readonly webhookId: string }): JSX.Element {
  const tenant = client.tenant(tenantId);
  const [limit, setLimit] = useState(PAGE);
  const path = `/v1/tenants/${encodeURIComponent(tenantId)}/webhooks/${encodeURIComponent(webhookId)}/deliveries`;
  const { value, error, reload } = useResource(
    `deliveries ${webhookId}`,
    () => collect(client.list<Delivery>(path, { limit: PAGE }), limit),
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
            { name: "Error", cell: ({ error: why }) => <span class="phrase long">{why}</span> },
            {
              name: "Body",
              cell: ({ body }) => (
                <details>
                  <summary>show</summary>
                  <JsonView value={body} label="Body" />
                </details>
              ),
            },
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
      {(value?.length ?? 0) < limit ? null : (
        <div class="row">
          <span role="status">These are the newest {formatNumber(limit)} deliveries.</span>
          <Button
            onClick={() => {
              setLimit(limit + PAGE);
              reload();
            }}
          >
            Load older deliveries
          </Button>
        </div>
      )}
    </section>
  );
}
