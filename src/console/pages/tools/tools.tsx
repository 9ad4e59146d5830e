// The tools of a tenant.

import type { ToolSummary } from "glovebox/client";
import type { JSX } from "preact";
import { Empty } from "../../parts/controls.tsx";
import { ListPage } from "../../parts/frame/list-page.tsx";
import { collectTools } from "../../state/collect.ts";
import { urlOf } from "../../state/router.ts";
import { can } from "../../state/session.ts";

const MAX_TOOLS = 10_000;

export function ToolsPage({ tenantId }: { readonly tenantId: string }): JSX.Element {
  return (
    <ListPage<ToolSummary>
      title="Tools"
      id={`tools ${tenantId}`}
      load={() => collectTools(tenantId, MAX_TOOLS)}
      keyOf={({ name }) => name}
      textOf={({ name }) => name}
      actions={() =>
        can("tools:deploy") ? (
          <a class="button primary" href={urlOf(["t", tenantId, "new-tool"])}>
            New tool
          </a>
        ) : null
      }
      columns={() => [
        {
          name: "Name",
          cell: ({ name }) => (
            <a href={urlOf(["t", tenantId, "tools", name])} title={name}>
              {name}
            </a>
          ),
        },
        { name: "Latest version", isNumber: true, cell: ({ latestVersion }) => `v${latestVersion}` },
        { name: "Versions", isNumber: true, cell: ({ versions }) => versions },
        { name: "Calls", cell: ({ name }) => <a href={urlOf(["t", tenantId, "calls"], { tool: name })}>show calls</a> },
      ]}
      empty={
        <Empty title="No tools yet" command={`npx glovebox deploy tool.ts --tenant ${tenantId}`}>
          A tool is a file that exports a function. Deploy one from the command line, or write one here.
        </Empty>
      }
    />
  );
}
