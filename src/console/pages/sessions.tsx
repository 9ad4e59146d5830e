// The sessions of the key that is signed in.

import type { ConsoleSession } from "glovebox/client";
import type { JSX } from "preact";
import { Badge, Button, Empty, Time } from "../parts/controls.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { collect } from "../state/collect.ts";
import { client, request } from "../state/session.ts";

export function Sessions(): JSX.Element {
  return (
    <ListPage<ConsoleSession>
      title="Your sessions"
      id="sessions"
      load={() => collect(client.list<ConsoleSession>("/v1/console/sessions"))}
      keyOf={({ id }) => id}
      columns={(reload) => [
        {
          name: "Browser",
          cell: ({ userAgent, isCurrent }) => (
            <>
              {userAgent.slice(0, 80)} {isCurrent ? <Badge tone="info">this one</Badge> : null}
            </>
          ),
        },
        { name: "Address", cell: ({ ip }) => ip ?? "" },
        { name: "Began", cell: ({ createdAt }) => <Time at={createdAt} isAge /> },
        { name: "Ends", cell: ({ expiresAt }) => <Time at={expiresAt} isAge /> },
        {
          name: "Actions",
          cell: ({ id }) => (
            <Button
              onClick={async () => {
                await request("DELETE", `/v1/console/sessions/${id}`);
                reload();
              }}
            >
              End
            </Button>
          ),
        },
      ]}
      empty={<Empty title="No sessions" />}
    />
  );
}
