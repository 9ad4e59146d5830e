// One tool: call it, edit it, compare its versions, and decide which of them run.

import type { Call, Release, ToolVersion, VersionStats } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import {
  Badge,
  Button,
  Empty,
  ErrorBox,
  Facts,
  Loading,
  PageHead,
  SelectField,
  Tabs,
  TextField,
  Time,
} from "../parts/controls.tsx";
import { ConfirmButton } from "../parts/dialog-form.tsx";
import { DiffView } from "../parts/diff-view.tsx";
import { JsonView } from "../parts/json-view.tsx";
import { type LogLine, LogView } from "../parts/log-view.tsx";
import { InputForm, initialValue, type JsonSchema } from "../parts/schema-form.tsx";
import { Table } from "../parts/table.tsx";
import { formatCount, formatJson, formatMs, formatPercent } from "../state/format.ts";
import { type Resource, useResource } from "../state/resource.ts";
import { address, navigate, setQuery, urlOf } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";
import { collect } from "./call.tsx";
import { Draft } from "./draft.tsx";

const REFRESH_MS = 3_000;
const TABS = [
  ["run", "Call it"],
  ["edit", "Edit"],
  ["versions", "Versions"],
  ["releases", "Releases"],
] as const;

interface ToolProps {
  readonly tenantId: string;
  readonly name: string;
}
interface ToolData {
  readonly versions: readonly ToolVersion[];
  readonly releases: readonly Release[];
  readonly stats: readonly VersionStats[];
}
interface SourceFiles {
  readonly files: { readonly [path: string]: string };
  readonly entry: string;
}

const pathOf = ({ tenantId, name }: ToolProps): string =>
  `/v1/tenants/${encodeURIComponent(tenantId)}/tools/${encodeURIComponent(name)}`;

const loadSource = (tool: ToolProps, version: number): Promise<SourceFiles> =>
  request<SourceFiles>("GET", `${pathOf(tool)}/versions/${version}/source`);

export function Tool(props: ToolProps): JSX.Element {
  const { tenantId, name } = props;
  const tenant = client.tenant(tenantId);
  const data = useResource(
    `tool ${tenantId} ${name}`,
    async (signal): Promise<ToolData> => ({
      versions: await collect(tenant.versions(name)),
      releases: (await request<{ items: readonly Release[] }>("GET", `${pathOf(props)}/releases`, { signal })).items,
      stats: (await request<{ items: readonly VersionStats[] }>("GET", `${pathOf(props)}/stats`, { signal })).items,
    }),
    REFRESH_MS,
  );
  const tab = address.value.query.tab ?? "run";
  if (data.value === undefined)
    return data.error === undefined ? <Loading /> : <ErrorBox error={data.error} onRetry={data.reload} />;
  const { versions, releases } = data.value;
  const live = releases.find(({ alias }) => alias === "live");
  const shown = versions.find(({ version }) => version === live?.versions[0]?.version) ?? versions[0];
  const description = shown?.definition.description;
  return (
    <>
      <PageHead title={name}>
        <a class="button plain" href={urlOf(["t", tenantId, "calls"], { tool: name })}>
          Calls
        </a>
        {can("tools:deploy") ? (
          <ConfirmButton
            label="Delete"
            title={`Delete ${name}?`}
            action="Delete the tool"
            typed={name}
            onConfirm={async () => {
              await tenant.deleteTool(name);
              navigate(urlOf(["t", tenantId, "tools"]));
            }}
          >
            All its versions and releases are removed. Its calls stay in the list.
          </ConfirmButton>
        ) : null}
      </PageHead>
      {typeof description === "string" ? <p>{description}</p> : null}
      <Tabs label="Parts of the tool" tabs={TABS} selected={tab} onSelect={(next) => setQuery({ tab: next })} />
      <section class="tab-panel">
        {tab === "run" && shown !== undefined ? <Run {...props} version={shown} isLive={live !== undefined} /> : null}
        {tab === "edit" && versions[0] !== undefined ? (
          <EditTool {...props} latest={versions[0]} onDeployed={data.reload} />
        ) : null}
        {tab === "versions" ? <Versions {...props} data={data.value} reload={data.reload} /> : null}
        {tab === "releases" ? <Releases {...props} data={data} /> : null}
      </section>
    </>
  );
}

function Run({
  tenantId,
  name,
  version,
  isLive,
}: ToolProps & { readonly version: ToolVersion; readonly isLive: boolean }): JSX.Element {
  const schema = (version.definition.inputSchema ?? {}) as JsonSchema;
  const [input, setInput] = useState<unknown>(() => initialValue(schema));
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const [call, setCall] = useState<Call>();
  const [id, setId] = useState<string>();
  const [startedAt, setStartedAt] = useState(0);
  if (!can("calls:run")) return <p class="faint">Your key does not have the scope calls:run.</p>;
  if (!isLive) {
    return (
      <Empty title="No version is live">
        Approve or release one of the <a href={urlOf(["t", tenantId, "tools", name], { tab: "versions" })}>versions</a>{" "}
        first.
      </Empty>
    );
  }
  const run = async (): Promise<void> => {
    setLines([]);
    setCall(undefined);
    setStartedAt(Date.now());
    for await (const { event, data } of client.tenant(tenantId).stream(name, { input })) {
      if (event === "started") setId((data as { readonly id: string }).id);
      if (event === "log") setLines((before) => [...before, data as LogLine]);
      if (event === "result") setCall(data as Call);
    }
  };
  return (
    <div class="columns">
      <form class="stack" onSubmit={(event) => event.preventDefault()}>
        <InputForm schema={schema} value={input} onChange={setInput} />
        <Button kind="primary" type="submit" onClick={run}>
          Call {name}
        </Button>
      </form>
      <section class="stack" aria-live="polite">
        {id === undefined ? <p class="faint">The result appears here.</p> : null}
        {id === undefined ? null : (
          <p class="row">
            <Badge>{call?.state ?? "running"}</Badge>{" "}
            <a href={urlOf(["t", tenantId, "calls", id])}>Timeline and details</a>
          </p>
        )}
        {call?.error === null || call?.error === undefined ? null : (
          <div class="error-box" role="alert">
            <strong>{call.error.code}</strong> {call.error.message}
          </div>
        )}
        {call !== undefined && call.error === null ? <JsonView value={call.output} label="Output" /> : null}
        {lines.length === 0 ? null : <LogView lines={lines} startedAt={startedAt} isLive={call === undefined} />}
      </section>
    </div>
  );
}

function EditTool(props: ToolProps & { readonly latest: ToolVersion; readonly onDeployed: () => void }): JSX.Element {
  const { tenantId, name, latest, onDeployed } = props;
  const { value, error } = useResource(`source ${tenantId} ${name} ${latest.version}`, () =>
    loadSource(props, latest.version),
  );
  if (error !== undefined) return <ErrorBox error={error} />;
  if (value === undefined) return <Loading />;
  const source = value.files[value.entry] ?? Object.values(value.files)[0] ?? "";
  if (Object.keys(value.files).length > 1) {
    return (
      <Empty title="This tool has several files" command={`npx glovebox deploy PATH --tenant ${tenantId}`}>
        The editor is for tools of one file. Deploy this one from the command line.
      </Empty>
    );
  }
  return (
    <Draft {...{ tenantId, name, source, onDeployed }} schema={(latest.definition.inputSchema ?? {}) as JsonSchema} />
  );
}

function Versions({
  tenantId,
  name,
  data,
  reload,
}: ToolProps & { readonly data: ToolData; readonly reload: () => void }): JSX.Element {
  const { versions, releases, stats } = data;
  const [pair, setPair] = useState<readonly [number, number]>();
  const weightOf = (version: number): string => {
    const found = releases.flatMap(({ alias, versions: released }) => {
      const total = released.reduce((sum, { weight }) => sum + weight, 0);
      const own = released.find((one) => one.version === version);
      return own === undefined ? [] : [`${alias} ${formatPercent(own.weight / total)}`];
    });
    return found.join(", ");
  };
  const decide = async (version: number, decision: "approve" | "deny"): Promise<void> => {
    await request("POST", `${pathOf({ tenantId, name })}/versions/${version}/${decision}`);
    reload();
  };
  return (
    <div class="stack">
      <Table<ToolVersion>
        caption="Versions"
        items={versions}
        keyOf={({ version }) => String(version)}
        empty={<Empty title="No versions" />}
        columns={[
          { name: "Version", cell: ({ version }) => `v${version}` },
          { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
          { name: "Runs as", cell: ({ version }) => weightOf(version) || "–" },
          {
            name: "Calls",
            isNumber: true,
            cell: ({ version }) => {
              const own = stats.find((one) => one.version === version);
              return own === undefined
                ? "–"
                : `${formatCount(own.calls)}, ${formatPercent(own.calls === 0 ? 0 : own.failed / own.calls)} failed`;
            },
          },
          { name: "Capabilities", cell: ({ grant }) => (grant.length === 0 ? "none" : grant.join(", ")) },
          {
            name: "Uploaded",
            cell: ({ createdAt, createdBy }) => (
              <span title={createdBy}>
                <Time at={createdAt} isAge />
              </span>
            ),
          },
          {
            name: "Actions",
            cell: ({ version, state }) => (
              <div class="row">
                {state === "waiting_for_approval" && can("tools:approve") ? (
                  <>
                    <Button kind="primary" onClick={() => decide(version, "approve")}>
                      Approve
                    </Button>
                    <Button kind="danger" onClick={() => decide(version, "deny")}>
                      Deny
                    </Button>
                  </>
                ) : null}
                {version === 1 ? null : (
                  <Button kind="quiet" onClick={() => setPair([version - 1, version])}>
                    Compare with v{version - 1}
                  </Button>
                )}
              </div>
            ),
          },
        ]}
      />
      {pair === undefined ? null : <Comparison {...{ tenantId, name, pair, versions }} />}
    </div>
  );
}

interface ComparisonProps extends ToolProps {
  readonly pair: readonly [number, number];
  readonly versions: readonly ToolVersion[];
}

function Comparison({ tenantId, name, pair, versions }: ComparisonProps): JSX.Element {
  const [from, to] = pair;
  const { value, error } = useResource(
    `diff ${tenantId} ${name} ${from} ${to}`,
    async () => [await loadSource({ tenantId, name }, from), await loadSource({ tenantId, name }, to)] as const,
  );
  if (error !== undefined) return <ErrorBox error={error} />;
  if (value === undefined) return <Loading />;
  const [before, after] = value;
  const definitionOf = (version: number): string => {
    const found = versions.find((one) => one.version === version);
    return formatJson({ definition: found?.definition, grant: found?.grant, isolateLifetime: found?.isolateLifetime });
  };
  const paths = [...new Set([...Object.keys(before.files), ...Object.keys(after.files)])].toSorted();
  return (
    <section class="stack">
      <h2>
        v{from} → v{to}
      </h2>
      <DiffView name="Definition and permissions" before={definitionOf(from)} after={definitionOf(to)} />
      {paths.map((path) => (
        <DiffView key={path} name={path} before={before.files[path] ?? ""} after={after.files[path] ?? ""} />
      ))}
    </section>
  );
}

function Releases({ tenantId, name, data }: ToolProps & { readonly data: Resource<ToolData> }): JSX.Element {
  const tenant = client.tenant(tenantId);
  const { versions, releases, stats } = data.value as ToolData;
  const ready = versions.filter(({ state }) => state === "ready");
  const [alias, setAlias] = useState("live");
  const [version, setVersion] = useState(String(ready[0]?.version ?? ""));
  const [percent, setPercent] = useState("100");
  const share = Number(percent);
  const isValid = share > 0 && share <= 100 && version !== "" && /^[a-z][a-z0-9_-]{0,62}$/.test(alias);
  const release = async (): Promise<void> => {
    const before =
      releases.find((one) => one.alias === alias)?.versions.filter((one) => one.version !== Number(version)) ?? [];
    const total = before.reduce((sum, { weight }) => sum + weight, 0);
    const others =
      share === 100
        ? []
        : before.map((one) => ({ version: one.version, weight: (one.weight / total) * (100 - share) }));
    await tenant.setRelease(name, alias, [...others, { version: Number(version), weight: share }]);
    data.reload();
  };
  return (
    <div class="stack">
      {releases.length === 0 ? (
        <Empty title="Nothing is released">Calls of this tool fail until a version is live.</Empty>
      ) : null}
      {releases.map((one) => {
        const total = one.versions.reduce((sum, { weight }) => sum + weight, 0);
        return (
          <section class="card stack" key={one.alias}>
            <div class="row spread">
              <h2>{one.alias}</h2>
              {can("releases:write") ? (
                <Button
                  onClick={async () => {
                    await tenant.rollback(name, one.alias);
                    data.reload();
                  }}
                >
                  Roll back
                </Button>
              ) : null}
            </div>
            <ul class="weights">
              {one.versions.map(({ version: own, weight }) => {
                const stat = stats.find((each) => each.version === own);
                return (
                  <li key={own}>
                    <strong>v{own}</strong>
                    <span class="share-track">
                      <i class="bar execute" style={{ width: `${(weight / total) * 100}%` }} />
                    </span>
                    <span>{formatPercent(weight / total)}</span>
                    <span class="faint">
                      {stat === undefined
                        ? "no calls in the last hour"
                        : `${formatCount(stat.calls)} calls in the last hour, ${formatPercent(stat.calls === 0 ? 0 : stat.failed / stat.calls)} failed, median ${formatMs(stat.p50)}`}
                    </span>
                  </li>
                );
              })}
            </ul>
            <Facts
              facts={[
                ["Changed", <Time key="at" at={one.updatedAt} isAge />],
                ["By", one.changedBy],
                ["Goes back by itself", one.rollback === null ? "no" : formatJson(one.rollback)],
              ]}
            />
          </section>
        );
      })}
      {can("releases:write") && ready.length > 0 ? (
        <form class="card stack narrow" onSubmit={(event) => event.preventDefault()}>
          <h2>Release a version</h2>
          <TextField
            label="Alias"
            value={alias}
            onInput={setAlias}
            hint="Calls run the alias live unless they name another one."
          />
          <SelectField
            label="Version"
            value={version}
            options={ready.map((one) => [String(one.version), `v${one.version}`] as const)}
            onInput={setVersion}
          />
          <TextField
            label="Share of the calls in %"
            value={percent}
            onInput={setPercent}
            hint="Less than 100 makes a canary: the rest stays on the versions of now."
          />
          <Button kind="primary" type="submit" disabled={!isValid} onClick={release}>
            Release
          </Button>
        </form>
      ) : null}
    </div>
  );
}
