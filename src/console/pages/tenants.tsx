// The tenants of the server.

import type { Tenant } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Empty, Time } from "../parts/controls.tsx";
import { DialogButton } from "../parts/forms/dialog-form.tsx";
import { TextField } from "../parts/forms/fields.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { collect } from "../state/collect.ts";
import { firstTenantCommand } from "../state/first-commands.ts";
import { navigate, urlOf } from "../state/router.ts";
import { can, client } from "../state/session.ts";

const MAX_TENANTS = 10_000;

export function TenantsPage(): JSX.Element {
  return (
    <ListPage<Tenant>
      title="Tenants"
      id="tenants"
      load={() => collect(client.tenants(), MAX_TENANTS)}
      keyOf={({ id }) => id}
      textOf={({ id, name }) => `${id} ${name}`}
      actions={(reload) =>
        can("tenants:write") ? (
          <DialogButton label="New tenant" title="New tenant">
            {(close) => <NewTenant onCreated={reload} onClose={close} />}
          </DialogButton>
        ) : null
      }
      columns={() => [
        { name: "Id", cell: ({ id }) => <a href={urlOf(["t", id])}>{id}</a> },
        { name: "Name", cell: ({ name }) => <span class="phrase">{name}</span> },
        { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        { name: "Created", cell: ({ createdAt }) => <Time at={createdAt} /> },
        { name: "Settings", cell: ({ id }) => <a href={urlOf(["t", id, "settings"])}>policy and quotas</a> },
      ]}
      empty={
        <Empty title="No tenants yet" command={firstTenantCommand(location.origin)}>
          A tenant owns tools, calls, secrets and keys, and sees nothing of other tenants. Create the first one with the
          button above.
        </Empty>
      }
    />
  );
}

function NewTenant({
  onCreated,
  onClose,
}: {
  readonly onCreated: () => void;
  readonly onClose: () => void;
}): JSX.Element {
  const [id, setId] = useState("");
  const [name, setName] = useState("");
  const create = async (): Promise<void> => {
    await client.createTenant({ id, ...(name === "" ? {} : { name }) });
    onCreated();
    onClose();
    navigate(urlOf(["t", id]));
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField
        label="Id"
        value={id}
        onInput={setId}
        hint="1 to 63 of a-z 0-9 . _ -. It cannot be changed."
        isRequired
      />
      <TextField label="Name" value={name} onInput={setName} />
      <Button kind="primary" type="submit" disabled={id === ""} onClick={create}>
        Create
      </Button>
    </form>
  );
}
