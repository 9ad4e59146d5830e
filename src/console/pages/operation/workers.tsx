// The processes of the server, what protects them, and what runs in them.

import type { Workers } from "glovebox/client";
import type { ComponentChildren, JSX } from "preact";
import { Badge, Empty, ErrorBox, Facts, Loading, PageHead } from "../../parts/controls.tsx";
import { type Column, Table } from "../../parts/table.tsx";
import { formatBytes, formatMs } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { urlOf } from "../../state/router.ts";
import { request } from "../../state/session.ts";

const WORKERS_MS = 2_000;

const LANGUAGES = { javascript: "JavaScript", python: "Python" } as const;
const STATE_TONES = { starting: "info", busy: "good", idle: "muted", ending: "warn" } as const;
/** Tenants of one process that are shown. */
const MAX_TENANTS = 5;

const LAYER_TONES: { readonly [state: string]: string } = { holds: "good", missing: "warn", broken: "bad" };

/** Shown only if a layer is missing. */
const TO_GET: Column<Workers["hardening"][number]> = {
  name: "To get it",
  cell: ({ state, get }) => (state === "missing" ? <span class="text">{get}</span> : ""),
};

/** Whose calls a process runs. */
function usersOf({ use, tenantIds }: Workers["workers"][number]): ComponentChildren {
  if (use === "warm") return <span class="faint">none yet: started ahead</span>;
  if (tenantIds.length === 0) return <span class="faint">none now: shared</span>;
  const more = tenantIds.length - MAX_TENANTS;
  return (
    <span class="row">
      {tenantIds.slice(0, MAX_TENANTS).map((id) => (
        <a key={id} href={urlOf(["t", id])}>
          {id}
        </a>
      ))}
      {more > 0 ? <span class="faint">and {more} more</span> : null}
    </span>
  );
}

export function WorkersPage(): JSX.Element {
  const { value, error, reload } = useResource(
    "workers",
    (signal) => request<Workers>("GET", "/v1/workers", { signal }),
    WORKERS_MS,
  );
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  const { pid, uptimeSeconds, rssBytes, heapBytes, version, node, workers, running, runningTotal, hardening } = value;
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
      <Processes workers={workers} />
      <Layers hardening={hardening} />
      <RunningCalls running={running} runningTotal={runningTotal} />
    </>
  );
}

function Processes({ workers }: Pick<Workers, "workers">): JSX.Element {
  return (
    <>
      <h2>Worker processes</h2>
      <Table
        caption="Worker processes"
        items={workers}
        keyOf={(worker) => String(worker.pid)}
        empty={<Empty title="No worker process runs">One starts with the first call.</Empty>}
        columns={[
          { name: "Process", cell: (worker) => worker.pid },
          { name: "Language", cell: ({ language }) => LANGUAGES[language] },
          { name: "State", cell: ({ state }) => <Badge tone={STATE_TONES[state]}>{state}</Badge> },
          { name: "Tenant", cell: usersOf },
          { name: "Running", isNumber: true, cell: ({ isolates }) => isolates.running },
          { name: "Warm", isNumber: true, cell: ({ isolates }) => isolates.warm },
          { name: "Sessions", isNumber: true, cell: ({ isolates }) => isolates.sessions },
          { name: "Resident memory", isNumber: true, cell: (worker) => formatBytes(worker.rssBytes) },
        ]}
      />
      <p class="faint">
        <strong>Running</strong>, <strong>Warm</strong> and <strong>Sessions</strong> count isolates: those with a call,
        those kept for the next call of a tool, and those of sessions between two calls. The server counts and measures
        all of it itself, because a worker process is not trusted.
      </p>
    </>
  );
}

function Layers({ hardening }: Pick<Workers, "hardening">): JSX.Element {
  return (
    <>
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
          { name: "Stops", cell: ({ stops }) => <span class="text">{stops}</span> },
          ...(hardening.some(({ state }) => state === "missing") ? [TO_GET] : []),
        ]}
      />
      <p class="faint">
        The command <code>npx glovebox doctor</code> tries each layer, and says how to get a missing one.
      </p>
    </>
  );
}

function RunningCalls({ running, runningTotal }: Pick<Workers, "running" | "runningTotal">): JSX.Element {
  return (
    <>
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
      {runningTotal > running.length ? (
        <p class="faint">
          These are the oldest {running.length} of {runningTotal} calls.
        </p>
      ) : null}
    </>
  );
}
