// The triggers of a tenant: URLs at which other services call its tools with a signature.

import type { CreatedTrigger, Trigger } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Copyable, Empty, PauseButton, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/forms/dialog-form.tsx";
import { SelectField, TextField } from "../parts/forms/fields.tsx";
import { ToolField } from "../parts/forms/tool-field.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { unchanged } from "../state/changes.ts";
import { collect } from "../state/collect.ts";
import { firstCommand } from "../state/first-commands.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { urlOf } from "../state/router.ts";
import { can, client } from "../state/session.ts";

/** A tenant can have as many. */
const MAX_TRIGGERS = 1_000;
const VERIFICATIONS: { readonly [kind in Trigger["verification"]]: string } = {
  standard_webhooks: "Standard Webhooks",
  github: "GitHub",
};

const urlFor = ({ path }: Trigger): string => new URL(path, location.origin).href;

export function TriggersPage({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  return (
    <ListPage<Trigger>
      title="Triggers"
      id={`triggers ${tenantId}`}
      load={() => collect(tenant.triggers(), MAX_TRIGGERS)}
      textOf={({ name, tool }) => `${name} ${tool}`}
      keyOf={({ id }) => id}
      actions={(reload) =>
        can("webhooks:write") ? (
          <DialogButton label="New trigger" title="New trigger">
            {() => <TriggerForm tenantId={tenantId} onDone={reload} />}
          </DialogButton>
        ) : null
      }
      columns={(reload) => [
        { name: "Name", cell: ({ name }) => <span class="phrase">{name}</span> },
        {
          name: "Tool",
          cell: ({ tool, alias }) => <a href={urlOf(["t", tenantId, "tools", tool])}>{`${tool}:${alias}`}</a>,
        },
        { name: "URL", cell: (trigger) => <Copyable text={urlFor(trigger)} /> },
        { name: "Signature", cell: ({ verification }) => <span class="one-line">{VERIFICATIONS[verification]}</span> },
        { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        { name: "Created", cell: ({ createdAt }) => <Time at={createdAt} isAge /> },
        {
          name: "Actions",
          cell: ({ id, name, state, alias }) =>
            can("webhooks:write") ? (
              <div class="row">
                <PauseButton
                  state={state}
                  onChange={async (next) => {
                    await tenant.updateTrigger(id, { state: next });
                    reload();
                  }}
                />
                <DialogButton label="Edit" title={`Edit the trigger ${name}`} kind="plain" onDone={reload}>
                  {(done) => (
                    <AliasForm
                      alias={alias}
                      onSave={async (next, before) => {
                        const stored = (await collect(tenant.triggers(), MAX_TRIGGERS)).find((one) => one.id === id);
                        const what = `The trigger ${name}`;
                        const condition = unchanged<Pick<Trigger, "alias">>(what, { alias: before }, stored, ["alias"]);
                        await tenant.updateTrigger(id, { alias: next }, condition);
                        done();
                      }}
                    />
                  )}
                </DialogButton>
                <ConfirmButton
                  label="Delete"
                  title={`Delete the trigger ${name}?`}
                  action="Delete the trigger"
                  onConfirm={async () => {
                    await tenant.deleteTrigger(id);
                    reload();
                  }}
                >
                  Requests to its URL fail from now on.
                </ConfirmButton>
              </div>
            ) : null,
        },
      ]}
      empty={
        <Empty title="No triggers" command={firstCommand(location.origin, tenantId, "triggers")}>
          A trigger is a URL at which another service calls a tool. It verifies the signature of each request.
        </Empty>
      }
    />
  );
}

interface AliasFormProps {
  readonly alias: string;
  /** @param before the alias that the form was opened with */
  readonly onSave: (alias: string, before: string) => Promise<void>;
}

function AliasForm({ alias, onSave }: AliasFormProps): JSX.Element {
  const [text, setText] = useState(alias);
  const [before] = useState(alias);
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Release" value={text} onInput={setText} isRequired />
      <Button kind="primary" type="submit" disabled={text === ""} onClick={() => onSave(text, before)}>
        Save
      </Button>
    </form>
  );
}

function TriggerForm({ tenantId, onDone }: FormProps): JSX.Element {
  const [name, setName] = useState("");
  const [tool, setTool] = useState("");
  const [alias, setAlias] = useState("live");
  const [verification, setVerification] = useState<Trigger["verification"]>("standard_webhooks");
  const [secret, setSecret] = useState("");
  const [created, setCreated] = useState<CreatedTrigger>();
  const create = async (): Promise<void> => {
    const given = secret.trim() === "" ? {} : { secret: secret.trim() };
    setCreated(await client.tenant(tenantId).createTrigger({ name, tool, alias, verification, ...given }));
    onDone();
  };
  if (created !== undefined) {
    return (
      <div class="stack">
        <p>Enter this URL in the other service:</p>
        <Copyable text={urlFor(created)} />
        <p>It signs its requests with this secret, which is shown only now:</p>
        <Copyable text={created.secret} />
      </div>
    );
  }
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Name" value={name} onInput={setName} isRequired />
      <ToolField tenantId={tenantId} value={tool} onInput={setTool} />
      <TextField label="Release" value={alias} onInput={setAlias} isRequired />
      <SelectField
        label="Signature"
        value={verification}
        options={Object.entries(VERIFICATIONS)}
        onInput={(kind) => setVerification(kind as Trigger["verification"])}
      />
      <TextField
        label="Secret"
        type="password"
        value={secret}
        onInput={setSecret}
        hint="Of a service that chooses it itself. Empty: a new one"
      />
      <Button kind="primary" type="submit" disabled={name === "" || tool === "" || alias === ""} onClick={create}>
        Create
      </Button>
    </form>
  );
}
