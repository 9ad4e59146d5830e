// What a tenant's tools used: by tool and outcome, for a time, with the same figures by hour as a CSV file.

import type { Usage as UsageRow } from "glovebox/client";
import type { JSX } from "preact";
import { Button, Empty, ErrorBox, Loading, PageHead } from "../../parts/controls.tsx";
import { FilterField } from "../../parts/forms/fields.tsx";
import { Table } from "../../parts/table.tsx";
import { serverNow } from "../../state/clock.ts";
import { download } from "../../state/download.ts";
import { formatBytes, formatCount, formatMs } from "../../state/format.ts";
import type { TenantProps } from "../../state/props.ts";
import { useResource } from "../../state/resource.ts";
import { address, setQuery, urlOf } from "../../state/router.ts";
import { client } from "../../state/session.ts";
import { UsedAndLeft } from "../settings.tsx";

const DAY_MS = 86_400_000;
const RANGES = [
  ["1", "Last day"],
  ["7", "Last 7 days"],
  ["30", "Last 30 days"],
  ["365", "Last year"],
] as const;
const DEFAULT_DAYS = "30";
const REFRESH_MS = 60_000;
/** Returns the usage by tool and outcome. The most calls come first. */
async function loadTotals(
  tenantId: string,
  filter: { readonly from: number; readonly tool?: string },
): Promise<readonly UsageRow[]> {
  const rows = await client.tenant(tenantId).usage({ ...filter, by: "total" });
  return rows.toSorted((one, other) => other.calls - one.calls);
}

export function UsagePage({ tenantId }: TenantProps): JSX.Element {
  const { query } = address.value;
  const days = RANGES.find(([id]) => id === query.days)?.[0] ?? DEFAULT_DAYS;
  const tool = query.tool === "" ? undefined : query.tool;
  const since = (): { readonly from: number; readonly tool?: string } => ({
    from: serverNow() - Number(days) * DAY_MS,
    ...(tool === undefined ? {} : { tool }),
  });
  const { value, error, reload } = useResource(
    `usage ${tenantId} ${days} ${tool}`,
    () => loadTotals(tenantId, since()),
    REFRESH_MS,
  );
  const saveCsv = (): Promise<void> => {
    const { from } = since();
    const params = new URLSearchParams({ format: "csv", from: String(from), ...(tool === undefined ? {} : { tool }) });
    return download(`/v1/tenants/${encodeURIComponent(tenantId)}/usage?${params}`, `${tenantId}-usage.csv`);
  };
  return (
    <>
      <PageHead title="Usage">
        <Button onClick={saveCsv}>Download as CSV, by hour</Button>
      </PageHead>
      <UsedAndLeft tenantId={tenantId} />
      <search class="filters">
        <FilterField label="Tool" value={tool ?? ""} onFilter={(value) => setQuery({ tool: value })} />
        <select
          aria-label="Time range"
          value={days}
          onChange={(event) => setQuery({ days: event.currentTarget.value })}
        >
          {RANGES.map(([id, text]) => (
            <option key={id} value={id}>
              {text}
            </option>
          ))}
        </select>
      </search>
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {value === undefined ? error === undefined ? <Loading /> : null : <UsageTable rows={value} tenantId={tenantId} />}
    </>
  );
}

const UsageTable = ({ rows, tenantId }: TenantProps & { readonly rows: readonly UsageRow[] }): JSX.Element => (
  <Table<UsageRow>
    caption="Usage by tool and outcome"
    items={rows}
    keyOf={({ tool, outcome }) => `${tool} ${outcome}`}
    empty={<Empty title="No usage in this time">Each call counts in the hour in which it ended.</Empty>}
    columns={[
      {
        name: "Tool",
        cell: ({ tool }) => (
          <a href={urlOf(["t", tenantId, "tools", tool])} title={tool}>
            {tool}
          </a>
        ),
      },
      { name: "Outcome", cell: ({ outcome }) => <code>{outcome}</code> },
      { name: "Calls", isNumber: true, cell: ({ calls }) => formatCount(calls) },
      { name: "CPU time", isNumber: true, cell: ({ cpuMs }) => formatMs(cpuMs) },
      { name: "Duration", isNumber: true, cell: ({ wallMs }) => formatMs(wallMs) },
      { name: "Input", isNumber: true, cell: ({ inputBytes }) => formatBytes(inputBytes) },
      { name: "Output", isNumber: true, cell: ({ outputBytes }) => formatBytes(outputBytes) },
      { name: "Received", isNumber: true, cell: ({ egressBytesIn }) => formatBytes(egressBytesIn) },
      { name: "Sent", isNumber: true, cell: ({ egressBytesOut }) => formatBytes(egressBytesOut) },
    ]}
  />
);
