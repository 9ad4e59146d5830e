// The secrets of a tenant: their names and hosts. Values can be set and never be read.

import type { Secret } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button, Empty, Time } from "../parts/controls.tsx";
import { ConfirmButton, DialogButton } from "../parts/forms/dialog-form.tsx";
import { TextField } from "../parts/forms/fields.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { existsAlready } from "../state/changes.ts";
import { collect } from "../state/collect.ts";
import type { FormProps, TenantProps } from "../state/props.ts";
import { can, client } from "../state/session.ts";

export function SecretsPage({ tenantId }: TenantProps): JSX.Element {
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
          <DialogButton label="Add a secret" title="Add a secret" onDone={reload}>
            {(done) => <SecretForm tenantId={tenantId} onDone={done} />}
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
          cell: (secret) =>
            can("secrets:write") ? (
              <div class="row">
                <DialogButton label="Replace" kind="plain" title={`Replace the secret ${secret.name}`} onDone={reload}>
                  {(done) => <SecretForm tenantId={tenantId} stored={secret} onDone={done} />}
                </DialogButton>
                <ConfirmButton
                  label="Delete"
                  title={`Delete the secret ${secret.name}?`}
                  action="Delete the secret"
                  onConfirm={async () => {
                    await tenant.deleteSecret(secret.name);
                    reload();
                  }}
                >
                  Tools that use it fail from now on.
                </ConfirmButton>
              </div>
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

interface SecretFormProps extends FormProps {
  /** The secret to replace; undefined for a new one. */
  readonly stored?: Secret;
}

function SecretForm({ tenantId, stored, onDone }: SecretFormProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const [name, setName] = useState(stored?.name ?? "");
  const [value, setValue] = useState("");
  const [hosts, setHosts] = useState(stored?.hosts.join(", ") ?? "");
  const save = async (): Promise<void> => {
    if (stored === undefined && (await collect(tenant.secrets())).some((secret) => secret.name === name))
      throw existsAlready("secret", "name", "replace");
    const list = hosts.split(/[\s,]+/).filter((host) => host !== "");
    await tenant.setSecret(name, { value, hosts: list });
    onDone();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      {stored === undefined ? (
        <TextField label="Name" value={name} onInput={setName} isRequired />
      ) : (
        <p class="faint">Calls that begin later use the new value and the new hosts.</p>
      )}
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
