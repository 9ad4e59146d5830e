// The durable runs of a tenant: a list with filters that the URL holds, and a form that starts a run.

import type { Run, RunSummary, ToolVersion } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { toVisibleText } from "../../../host/util/visible-text.ts";
import { Badge, Button, Empty, ErrorBox, Loading, PageHead, Time } from "../../parts/controls.tsx";
import { DialogButton } from "../../parts/forms/dialog-form.tsx";
import { FilterField } from "../../parts/forms/fields.tsx";
import { ToolField } from "../../parts/forms/tool-field.tsx";
import { type InputSchema, initialValue } from "../../parts/input-form/form-schema.ts";
import { InputForm } from "../../parts/input-form/input-form.tsx";
import { Table } from "../../parts/table.tsx";
import { collect } from "../../state/collect.ts";
import type { FormProps, TenantProps } from "../../state/props.ts";
import { useResource } from "../../state/resource.ts";
import { address, navigate, setQuery, urlOf } from "../../state/router.ts";
import { can, client, request } from "../../state/session.ts";

const REFRESH_MS = 2_000;
const PAGE = 100;
const KINDS = [
  ["tool", "Tools"],
  ["code", "Code"],
] as const;
const STATES = ["suspended", "running", "succeeded", "failed", "cancelled"] as const;

/** Says in a few words what a run waits for. */
export function describeWait({ kind, name, message }: Run["waits"][number]): string {
  if (kind === "event") return `event ${name}`;
  if (kind === "duration") return "time";
  return `${kind}: ${toVisibleText(message ?? "")}`;
}

export function RunsPage({ tenantId }: TenantProps): JSX.Element {
  const { kind, tool, state } = address.value.query;
  const filter = {
    kind: KINDS.find(([one]) => one === kind)?.[0],
    tool: tool === "" ? undefined : tool,
    state: STATES.find((one) => one === state),
  };
  const [limit, setLimit] = useState(PAGE);
  const { value, error, reload } = useResource(
    `runs ${tenantId} ${JSON.stringify(filter)}`,
    () => collect(client.tenant(tenantId).runs(filter), limit),
    REFRESH_MS,
  );
  const isFiltered = Object.values(filter).some((one) => one !== undefined);
  return (
    <>
      <PageHead title="Runs">
        {can("calls:run") && can("tools:read") ? (
          <DialogButton label="Start a run" title="Start a run">
            {(close) => <StartForm tenantId={tenantId} onDone={close} />}
          </DialogButton>
        ) : null}
      </PageHead>
      <search class="filters">
        <FilterField label="Tool" value={tool ?? ""} onFilter={(value) => setQuery({ tool: value })} />
        <select
          aria-label="Kind"
          value={filter.kind ?? ""}
          onChange={(event) => setQuery({ kind: event.currentTarget.value })}
        >
          <option value="">Tools and code</option>
          {KINDS.map(([id, text]) => (
            <option key={id} value={id}>
              {text}
            </option>
          ))}
        </select>
        <select
          aria-label="State"
          value={filter.state ?? ""}
          onChange={(event) => setQuery({ state: event.currentTarget.value })}
        >
          <option value="">Any state</option>
          {STATES.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </search>
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {value === undefined ? (
        error === undefined ? (
          <Loading />
        ) : null
      ) : (
        <RunTable runs={value} tenantId={tenantId} isFiltered={isFiltered} />
      )}
      {value !== undefined && value.length >= limit ? (
        <Button
          onClick={() => {
            setLimit(limit + PAGE);
            reload();
          }}
        >
          Show more
        </Button>
      ) : null}
    </>
  );
}

interface RunTableProps extends TenantProps {
  readonly runs: readonly RunSummary[];
  readonly isFiltered: boolean;
}

function RunTable({ runs, tenantId, isFiltered }: RunTableProps): JSX.Element {
  return (
    <Table<RunSummary>
      caption="Runs"
      items={runs}
      keyOf={({ id }) => id}
      empty={
        isFiltered ? (
          <Empty title="No run matches these filters">
            <button type="button" class="button plain" onClick={() => navigate(urlOf(address.value.path))}>
              Clear the filters
            </button>
          </Empty>
        ) : (
          <Empty title="No runs yet" command={`npx glovebox runs start NAME --input '{}' --tenant ${tenantId}`}>
            A run of a tool or of code can wait for days: for an event, for a person, or for a time. It takes no process
            meanwhile.
          </Empty>
        )
      }
      columns={[
        { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
        {
          name: "Tool",
          cell: ({ id, kind, tool }) => (
            <a href={urlOf(["t", tenantId, "runs", id])}>{kind === "code" ? "Code" : tool}</a>
          ),
        },
        { name: "Version", cell: ({ version }) => (version === null ? "–" : `v${version}`) },
        {
          name: "Waits for",
          cell: ({ waits }) => (
            <span class="phrase">{waits.length === 0 ? "–" : waits.map(describeWait).join(", ").slice(0, 120)}</span>
          ),
        },
        { name: "Started", cell: ({ createdAt }) => <Time at={createdAt} /> },
        { name: "Ended", cell: ({ endedAt }) => (endedAt === null ? "–" : <Time at={endedAt} />) },
      ]}
    />
  );
}

function StartForm({ tenantId, onDone }: FormProps): JSX.Element {
  const [tool, setTool] = useState("");
  const { value, error, reload } = useResource(`tool to run ${tenantId} ${tool}`, async () => {
    if (tool === "") return undefined;
    // A key that may not read tools enters the input as JSON.
    if (!can("tools:read")) return { tool, definition: {} };
    const path = `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(tool)}`;
    return await request<StartedTool>("GET", path);
  });
  return (
    <div class="stack">
      <ToolField tenantId={tenantId} value={tool} onInput={setTool} />
      {value !== undefined ? (
        <StartInput key={tool} tenantId={tenantId} version={value} onDone={onDone} />
      ) : error !== undefined ? (
        <ErrorBox error={error} onRetry={reload} />
      ) : tool === "" ? null : (
        <Loading />
      )}
    </div>
  );
}

type StartedTool = Pick<ToolVersion, "tool" | "definition">;

function StartInput({ tenantId, version, onDone }: FormProps & { readonly version: StartedTool }): JSX.Element {
  const schema = (version.definition.inputSchema ?? {}) as InputSchema;
  const [input, setInput] = useState<unknown>(() => initialValue(schema));
  const start = async (): Promise<void> => {
    const { id } = await client.tenant(tenantId).startRun(version.tool, { input }, { wait: false });
    onDone();
    navigate(urlOf(["t", tenantId, "runs", id]));
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <InputForm schema={schema} value={input} onChange={setInput} />
      <Button kind="primary" type="submit" onClick={start}>
        Start
      </Button>
    </form>
  );
}
