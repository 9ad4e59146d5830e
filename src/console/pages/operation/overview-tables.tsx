// The tables of the overview: the same figures for each tenant and for each tool.

import type { Overview } from "glovebox/client";
import type { JSX } from "preact";
import { type Column, Table } from "../../parts/table.tsx";
import { formatCount, formatMs, formatPercent } from "../../state/format.ts";
import { urlOf } from "../../state/router.ts";

type Tenant = Overview["tenants"][number];
type Tool = Overview["tools"][number];

/** Returns the columns that both tables have. */
const figures = <Row extends Tenant>(callsUrl: (row: Row) => string): readonly Column<Row>[] => [
  { name: "Calls", isNumber: true, cell: (row) => <a href={callsUrl(row)}>{formatCount(row.calls)}</a> },
  {
    name: "Failed",
    isNumber: true,
    cell: ({ calls, failed }) => (
      <span class={failed > 0 ? "bad-text" : ""}>{calls === 0 ? "–" : formatPercent(failed / calls)}</span>
    ),
  },
  { name: "p50", isNumber: true, cell: ({ p50 }) => formatMs(p50) },
  { name: "p95", isNumber: true, cell: ({ p95 }) => formatMs(p95) },
  { name: "p99", isNumber: true, cell: ({ p99 }) => formatMs(p99) },
  { name: "CPU time", isNumber: true, cell: ({ cpuMs }) => formatMs(cpuMs) },
  { name: "Waiting p95", isNumber: true, cell: ({ waitP95 }) => formatMs(waitP95) },
  { name: "Queued", isNumber: true, cell: ({ queued }) => formatCount(queued) },
];

const tenantColumn = <Row extends Tenant>(): Column<Row> => ({
  name: "Tenant",
  cell: ({ tenantId }) => <a href={urlOf(["t", tenantId])}>{tenantId}</a>,
});

export const TenantTable = ({ tenants }: { readonly tenants: readonly Tenant[] }): JSX.Element | null => (
  <Table<Tenant>
    caption="Tenants by number of calls"
    isCaptionShown
    items={tenants}
    keyOf={({ tenantId }) => tenantId}
    columns={[tenantColumn(), ...figures<Tenant>(({ tenantId }) => urlOf(["t", tenantId, "calls"]))]}
  />
);

interface ToolTableProps {
  readonly tools: readonly Tool[];
  readonly hasTenants: boolean;
}

export const ToolTable = ({ tools, hasTenants }: ToolTableProps): JSX.Element | null => (
  <Table<Tool>
    caption="Tools by number of calls"
    isCaptionShown
    items={tools}
    keyOf={({ tenantId, tool }) => `${tenantId} ${tool}`}
    columns={[
      ...(hasTenants ? [tenantColumn<Tool>()] : []),
      {
        name: "Tool",
        cell: ({ tenantId, tool }) => (
          <a href={urlOf(["t", tenantId, "tools", tool])} title={tool}>
            {tool}
          </a>
        ),
      },
      ...figures<Tool>(({ tenantId, tool }) => urlOf(["t", tenantId, "calls"], { tool })),
    ]}
  />
);
