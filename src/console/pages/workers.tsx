// The processes of the server, what protects them, and what runs in them.

import type { Workers as WorkersData } from "glovebox/client";
import type { JSX } from "preact";
import { Badge, Empty, ErrorBox, Facts, Loading, PageHead } from "../parts/controls.tsx";
import { Table } from "../parts/table.tsx";
import { formatBytes, formatMs } from "../state/format.ts";
import { useResource } from "../state/resource.ts";
import { urlOf } from "../state/router.ts";
import { request } from "../state/session.ts";

const WORKERS_MS = 2_000;

const LAYER_TONES: { readonly [state: string]: string } = { holds: "good", missing: "warn", broken: "bad" };

export function Workers(): JSX.Element {
  const { value, error, reload } = useResource(
    "workers",
    (signal) => request<WorkersData>("GET", "/v1/workers", { signal }),
    WORKERS_MS,
  );
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  const { pid, uptimeSeconds, rssBytes, heapBytes, version, node, workers, running, hardening } = value;
  return (
    <>
      <PageHead title="Workers" />
      <div class="card">
        <Facts
          facts={[
            ["Server process", String(pid)],
            ["Up for", formatMs(uptimeSeconds * 1_000)],
            ["Resident memory", formatBytes(rssBytes)],
            ["Heap", formatBytes(heapBytes)],
            ["Glovebox", version],
            ["Node.js", node],
          ]}
        />
      </div>
      <h2>Worker processes</h2>
      <Table
        caption="Worker processes"
        items={workers}
        keyOf={(worker) => String(worker.pid)}
        empty={<Empty title="No worker process runs">One starts with the first call.</Empty>}
        columns={[
          { name: "Process", cell: (worker) => worker.pid },
          { name: "Resident memory", isNumber: true, cell: (worker) => formatBytes(worker.rssBytes) },
        ]}
      />
      <h2>Layers around a worker process</h2>
      <Table
        caption="Layers around a worker process"
        items={hardening}
        keyOf={({ layer }) => layer}
        empty={<p class="faint">There are none on this system.</p>}
        columns={[
          { name: "Layer", cell: ({ layer }) => layer.replaceAll("-", " ") },
          {
            name: "State",
            cell: ({ state }) => <Badge tone={LAYER_TONES[state] ?? "muted"}>{state.replaceAll("-", " ")}</Badge>,
          },
          { name: "Stops", cell: ({ stops }) => stops },
          { name: "To get it", cell: ({ state, get }) => (state === "missing" ? get : "") },
        ]}
      />
      <p class="faint">
        The command <code>npx glovebox doctor</code> tries each layer, and says how to get a missing one.
      </p>
      <h2>Running calls</h2>
      <Table
        caption="Running calls"
        items={running}
        keyOf={({ id }) => id}
        empty={<p class="faint">No call runs.</p>}
        columns={[
          { name: "Tool", cell: ({ tenantId, tool, id }) => <a href={urlOf(["t", tenantId, "calls", id])}>{tool}</a> },
          { name: "Tenant", cell: ({ tenantId }) => <a href={urlOf(["t", tenantId])}>{tenantId}</a> },
          { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
          { name: "For", isNumber: true, cell: ({ ageMs }) => formatMs(ageMs) },
        ]}
      />
    </>
  );
}
