// The secrets of a tenant: their names and hosts. Values can be set and never be read.

import type { Secret } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button, Empty, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/dialog-form.tsx";
import { TextField } from "../parts/fields.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { collect } from "../state/collect.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { can, client } from "../state/session.ts";

export function Secrets({ tenantId }: TenantProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  return (
    <ListPage<Secret>
      title="Secrets"
      id={`secrets ${tenantId}`}
      load={() => collect(tenant.secrets())}
      textOf={({ name }) => name}
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
        { name: "Sent only to", cell: ({ hosts }) => <span class="phrase long">{hosts.join(", ")}</span> },
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
