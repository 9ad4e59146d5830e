// The console's sessions: those of the key or user that is signed in, and for operators those of all.

import type { ConsoleSession } from "glovebox/client";
import type { JSX } from "preact";
import { Badge, Button, Empty, Time } from "../parts/controls.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import type { Column } from "../parts/table.tsx";
import { collect } from "../state/collect.ts";
import { can, client, isPlatform, request } from "../state/session.ts";

const BROWSER: Column<ConsoleSession> = {
  name: "Browser",
  cell: ({ userAgent, isCurrent }) => (
    <span class="phrase">
      {userAgent.slice(0, 80)} {isCurrent ? <Badge tone="info">this one</Badge> : null}
    </span>
  ),
};
const WHEN: readonly Column<ConsoleSession>[] = [
  { name: "Address", cell: ({ ip }) => ip ?? "" },
  { name: "Began", cell: ({ createdAt }) => <Time at={createdAt} isAge /> },
  { name: "Ends", cell: ({ expiresAt }) => <Time at={expiresAt} isAge /> },
];

/** A button that ends a session. */
function endColumn(path: string, reload: () => void): Column<ConsoleSession> {
  return {
    name: "Actions",
    cell: ({ id }) => (
      <Button
        onClick={async () => {
          await request("DELETE", `${path}/${id}`);
          reload();
        }}
      >
        End
      </Button>
    ),
  };
}

export function SessionsPage(): JSX.Element {
  return (
    <>
      <ListPage<ConsoleSession>
        title="Your sessions"
        id="sessions"
        load={() => collect(client.list<ConsoleSession>("/v1/console/sessions"))}
        keyOf={({ id }) => id}
        columns={(reload) => [BROWSER, ...WHEN, endColumn("/v1/console/sessions", reload)]}
        empty={<Empty title="No sessions" />}
      />
      {isPlatform.value && can("keys:read") ? <AllSessions /> : null}
    </>
  );
}

function AllSessions(): JSX.Element {
  return (
    <ListPage<ConsoleSession>
      title="Sessions of all keys and users"
      id="all-sessions"
      load={() => collect(client.list<ConsoleSession>("/v1/sessions"))}
      keyOf={({ id }) => id}
      textOf={({ keyId, tenantId, ip, userAgent }) => [keyId, tenantId, ip, userAgent].join(" ")}
      columns={(reload) => [
        { name: "Key or user", cell: ({ keyId }) => keyId },
        { name: "Tenant", cell: ({ tenantId }) => tenantId ?? "all" },
        BROWSER,
        ...WHEN,
        ...(can("keys:write") ? [endColumn("/v1/sessions", reload)] : []),
      ]}
      empty={<Empty title="No sessions" />}
    />
  );
}
