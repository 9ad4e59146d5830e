// One tool: call it, edit it, compare its versions, and decide which of them run.

import type { Call, Release, ToolVersion, VersionStats } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { toVisibleText } from "../../../host/util/visible-text.ts";
import {
  Badge,
  Button,
  chosenTab,
  Empty,
  ErrorBox,
  Loading,
  MissingScope,
  PageHead,
  Tabs,
} from "../../parts/controls.tsx";
import { ErrorView } from "../../parts/error-view.tsx";
import { ConfirmButton } from "../../parts/forms/dialog-form.tsx";
import { type InputSchema, initialValue } from "../../parts/input-form/form-schema.ts";
import { InputForm } from "../../parts/input-form/input-form.tsx";
import { type LogLine, LogView } from "../../parts/log-view.tsx";
import { ContentParts } from "../../parts/values/content-parts.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { WaitingCall } from "../../parts/waiting-call.tsx";
import { serverNow } from "../../state/clock.ts";
import { collect } from "../../state/collect.ts";
import { useResource } from "../../state/resource.ts";
import { address, navigate, setQuery, urlOf } from "../../state/router.ts";
import { can, client, request } from "../../state/session.ts";
import { type DeployedDraft, Draft } from "./draft.tsx";
import { RehearsalTab } from "./rehearsal.tsx";
import { loadSource, pathOf, type ToolData, type ToolProps } from "./tool-data.ts";
import { Releases } from "./tool-releases.tsx";
import { Versions } from "./tool-versions.tsx";

const REFRESH_MS = 3_000;
/** Longest name on a button. */
const MAX_LABEL = 40;

const TABS = [
  ["run", "Call it"],
  ["edit", "Edit"],
  ["versions", "Versions"],
  ["releases", "Releases"],
  ["rehearse", "Rehearse"],
] as const;

export function ToolPage(props: ToolProps): JSX.Element {
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
  const tab = chosenTab(TABS, address.value.query.tab);
  if (data.value === undefined)
    return data.error === undefined ? (
      <Loading />
    ) : (
      <>
        <PageHead title={toVisibleText(name)} />
        <ErrorBox error={data.error} onRetry={data.reload} />
        <a href={urlOf(["t", tenantId, "tools"])}>All tools of {tenantId}</a>
      </>
    );
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
      {typeof description === "string" ? <p>{toVisibleText(description)}</p> : null}
      {data.error === undefined ? null : <ErrorBox error={data.error} onRetry={data.reload} />}
      <Tabs label="Parts of the tool" tabs={TABS} selected={tab} onSelect={(next) => setQuery({ tab: next })} />
      <section class="tab-panel">
        {tab === "run" && shown !== undefined ? <Run {...props} version={shown} isLive={live !== undefined} /> : null}
        {tab === "edit" && versions[0] !== undefined ? (
          <EditTool
            {...props}
            latest={versions[0]}
            granted={live === undefined ? [] : shown?.grant}
            onDeployed={data.reload}
          />
        ) : null}
        {tab === "versions" ? <Versions {...props} data={data.value} reload={data.reload} /> : null}
        {tab === "releases" ? <Releases {...props} data={data} /> : null}
        {tab === "rehearse" ? <RehearsalTab {...props} data={data.value} /> : null}
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
  const schema = (version.definition.inputSchema ?? {}) as InputSchema;
  const [input, setInput] = useState<unknown>(() => initialValue(schema));
  const [lines, setLines] = useState<readonly LogLine[]>([]);
  const [call, setCall] = useState<Call>();
  const [id, setId] = useState<string>();
  const [startedAt, setStartedAt] = useState(0);
  const [isWaiting, setWaiting] = useState(false);
  const [isLost, setLost] = useState(false);
  if (!can("calls:run")) return <MissingScope scope="calls:run" />;
  if (!isLive) {
    return (
      <Empty title="No version is live">
        Approve or release one of the <a href={urlOf(["t", tenantId, "tools", name], { tab: "versions" })}>versions</a>{" "}
        first.
      </Empty>
    );
  }
  if (version.definition.durable === true) {
    return (
      <Empty
        title="This tool runs only as a durable run"
        command={`npx glovebox runs start ${name} --input '{}' --tenant ${tenantId}`}
      >
        It can wait for days. Start it under <a href={urlOf(["t", tenantId, "runs"])}>Runs</a>, which also shows what it
        waits for.
      </Empty>
    );
  }
  const run = async (): Promise<void> => {
    setLines([]);
    setCall(undefined);
    setId(undefined);
    setWaiting(false);
    setLost(false);
    setStartedAt(serverNow());
    const tenant = client.tenant(tenantId);
    try {
      for await (const { event, data } of tenant.stream(name, { input })) {
        if (event === "started") {
          const { id: started } = data as { readonly id: string };
          setId(started);
          // A call that runs already has no record yet.
          tenant.getCall(started).then(
            ({ state }) => setWaiting(state === "waiting_for_approval"),
            () => {},
          );
        }
        if (event !== "started") setWaiting(false);
        if (event === "log") setLines((before) => [...before, data as LogLine]);
        if (event === "result") setCall(data as Call);
      }
    } catch (error) {
      // The button shows the error. What became of the call is not known here.
      setWaiting(false);
      setLost(true);
      throw error;
    }
  };
  const state = call?.state ?? (isWaiting ? "waiting_for_approval" : "running");
  return (
    <div class="columns">
      <form class="stack" onSubmit={(event) => event.preventDefault()}>
        <InputForm schema={schema} value={input} onChange={setInput} />
        <Button kind="primary" type="submit" onClick={run}>
          Call {name.length > MAX_LABEL ? "the tool" : name}
        </Button>
      </form>
      <section class="stack result" aria-live="polite">
        {id === undefined ? <p class="faint">The result appears here.</p> : null}
        {id === undefined ? null : (
          <p class="row">
            {isLost ? null : <Badge>{state}</Badge>}{" "}
            <a href={urlOf(["t", tenantId, "calls", id])}>Timeline and details</a>
          </p>
        )}
        {isWaiting && call === undefined ? <WaitingCall tenantId={tenantId} /> : null}
        {call === undefined || call.error === null ? null : <ErrorView error={call.error} />}
        {call !== undefined && call.error === null ? <JsonView value={call.output} label="Output" /> : null}
        {call === undefined ? null : <ContentParts content={call.content} />}
        {lines.length === 0 ? null : (
          <LogView lines={lines} startedAt={startedAt} isLive={call === undefined && !isLost} />
        )}
      </section>
    </div>
  );
}

interface EditToolProps extends ToolProps {
  readonly latest: ToolVersion;
  readonly granted: readonly string[] | undefined;
  readonly onDeployed: () => void;
}

function EditTool(props: EditToolProps): JSX.Element {
  const { tenantId, name, latest, granted, onDeployed } = props;
  // A version that is deployed elsewhere does not replace what is being written.
  const [opened, setOpened] = useState(latest);
  const [deployed, setDeployed] = useState<DeployedDraft>();
  const { value, error } = useResource(`source ${tenantId} ${name} ${opened.version}`, () =>
    loadSource(props, opened.version),
  );
  if (error !== undefined) return <ErrorBox error={error} />;
  if (value === undefined) return <Loading />;
  const { version, language, definition } = deployed?.version ?? opened;
  const source = deployed?.source ?? value.files[value.entry] ?? Object.values(value.files)[0] ?? "";
  if (Object.keys(value.files).length > 1) {
    return (
      <Empty title="This tool has several files" command={`npx glovebox deploy PATH --tenant ${tenantId}`}>
        The editor is for tools of one file. Deploy this one from the command line.
      </Empty>
    );
  }
  const load = (): void => {
    setOpened(latest);
    setDeployed(undefined);
  };
  return (
    <>
      {latest.version > version ? (
        <div class="row">
          <span role="status">
            Version {latest.version} was deployed meanwhile. This is the code of version {version} with your changes.
          </span>
          <a href={urlOf(["t", tenantId, "tools", name], { tab: "versions" })}>Compare</a>
          <ConfirmButton
            label={`Load version ${latest.version}`}
            title={`Load version ${latest.version}?`}
            action="Load it"
            onConfirm={load}
          >
            Your changes are discarded.
          </ConfirmButton>
        </div>
      ) : null}
      <Draft
        key={opened.version}
        tenantId={tenantId}
        name={name}
        source={source}
        granted={granted}
        note={deployed?.note}
        onDeployed={(done) => {
          setDeployed(done);
          onDeployed();
        }}
        language={language}
        mode={value.mode}
        schema={(definition.inputSchema ?? {}) as InputSchema}
      />
    </>
  );
}
