// The audit log: who changed what, and whether the log itself is complete.

import type { AuditEntry } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button, Empty, Time } from "../parts/controls.tsx";
import { ListPage } from "../parts/frame/list-page.tsx";
import { JsonView } from "../parts/values/json-view.tsx";
import { Who } from "../parts/who.tsx";
import { collect } from "../state/collect.ts";
import { formatNumber } from "../state/format.ts";
import { type OwnerProps, prefixOf } from "../state/props.ts";
import { client, request } from "../state/session.ts";

/** Entries that are loaded first, and each time that older ones are wanted. */
const PAGE = 500;
const PER_REQUEST = 200;

export function AuditPage({ tenantId }: OwnerProps): JSX.Element {
  const path = `${prefixOf({ tenantId })}/audit`;
  const [limit, setLimit] = useState(PAGE);
  return (
    <ListPage<AuditEntry>
      title="Audit log"
      id={path}
      load={() => collect(client.list<AuditEntry>(path, { limit: PER_REQUEST }), limit)}
      maxRows={limit}
      textOf={({ actor, action, tenantId: owner, target }) => `${actor} ${action} ${owner ?? ""} ${target}`}
      keyOf={({ sequence }) => String(sequence)}
      footer={(items, reload) =>
        items.length < limit ? null : (
          <div class="row">
            <span role="status">
              These are the newest {formatNumber(items.length)} entries. The search looks in these.
            </span>
            <Button
              onClick={() => {
                setLimit(limit + PAGE);
                reload();
              }}
            >
              Load older entries
            </Button>
          </div>
        )
      }
      actions={() => (tenantId === undefined ? <Verification /> : null)}
      columns={() => [
        { name: "Number", isNumber: true, cell: ({ sequence }) => sequence },
        { name: "Time", cell: ({ at }) => <Time at={at} /> },
        {
          name: "Who",
          cell: ({ actor, ip, tenantId: owner }) => (
            <span title={ip ?? ""}>
              <Who id={actor} tenantId={tenantId ?? owner ?? undefined} hasId />
            </span>
          ),
        },
        { name: "Action", cell: ({ action }) => <code>{action}</code> },
        ...(tenantId === undefined ? [{ name: "Tenant", cell: (entry: AuditEntry) => entry.tenantId ?? "" }] : []),
        { name: "What", cell: ({ target, isErased }) => (isErased ? "erased with its tenant" : target) },
        {
          name: "Details",
          cell: ({ details }) =>
            Object.keys(details).length === 0 ? null : (
              <details>
                <summary>show</summary>
                <JsonView value={details} label="Details" />
              </details>
            ),
        },
      ]}
      empty={
        <Empty title="No changes yet">
          Each change of tenants, keys, tools and releases is listed here, with who made it.
        </Empty>
      }
    />
  );
}

/** Checks that no entry of the log was changed or removed. */
function Verification(): JSX.Element {
  const [text, setText] = useState<string>();
  const verify = async (): Promise<void> => {
    const { isIntact, brokenAt, erased } = await request<{
      isIntact: boolean;
      brokenAt: number | null;
      erased: number;
    }>("GET", "/v1/audit/verification");
    const intact = erased === 0 ? "The chain is intact." : `The chain is intact. ${erased} entries are erased.`;
    setText(isIntact ? intact : `The chain is broken at entry ${brokenAt}.`);
  };
  return (
    <>
      <span role="status">{text}</span>
      <Button onClick={verify}>Verify the chain</Button>
    </>
  );
}
