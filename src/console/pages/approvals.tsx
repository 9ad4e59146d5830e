// The versions that wait for approval, with what they request in addition to the live ones.

import type { Approval } from "glovebox/client";
import type { JSX } from "preact";
import { Button, Empty, Time } from "../parts/controls.tsx";
import { ListPage } from "../parts/list-page.tsx";
import { collect } from "../state/collect.ts";
import type { TenantProps } from "../state/props.ts";
import { urlOf } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";

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
