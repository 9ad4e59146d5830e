// The editor: write a tool, run it without deploying it, and deploy it.

import type { CallTimeline, ToolVersion } from "glovebox/client";
import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { CodeEditor } from "../../parts/code-editor.tsx";
import { Button, PageHead } from "../../parts/controls.tsx";
import { ErrorView, type StoredError } from "../../parts/error-view.tsx";
import { TextField } from "../../parts/forms/fields.tsx";
import { type InputSchema, initialValue } from "../../parts/input-form/form-schema.ts";
import { InputForm } from "../../parts/input-form/input-form.tsx";
import { JsonField } from "../../parts/input-form/value-fields.tsx";
import { type LogLine, LogView } from "../../parts/log-view.tsx";
import { Timeline } from "../../parts/timeline/timeline.tsx";
import type { TimelineUsage } from "../../parts/timeline/timeline-facts.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { serverNow } from "../../state/clock.ts";
import { navigate, urlOf } from "../../state/router.ts";
import { can, client, request } from "../../state/session.ts";
import { useToolFacts } from "../../state/tool-facts.ts";
import { useSavedDraft } from "./saved-draft.ts";

interface DraftProps {
  readonly tenantId: string;
  /** Name of the tool that is edited; undefined for a new one. */
  readonly name: string | undefined;
  readonly source: string;
  readonly schema: InputSchema;
  readonly language?: ToolVersion["language"];
  /** Set for a script in sloppy mode. */
  readonly mode?: "script" | undefined;
  /** Capabilities of the live version; undefined for a new tool. */
  readonly granted?: readonly string[] | undefined;
  /** What the last deployment has done. */
  readonly note?: JSX.Element | undefined;
  /** Called after a deployment. */
  readonly onDeployed: (deployed: DeployedDraft) => void;
}

export interface DeployedDraft {
  readonly version: ToolVersion;
  readonly source: string;
  /** What the deployment has done. */
  readonly note: JSX.Element;
}

interface DraftResult {
  readonly success: boolean;
  readonly output?: unknown;
  readonly error?: StoredError;
  readonly logs: readonly LogLine[];
  readonly durationMs: number;
  readonly usage: TimelineUsage;
  readonly timeline?: CallTimeline["spans"];
  readonly calls?: CallTimeline["calls"];
}

export function Draft(props: DraftProps): JSX.Element {
  const { tenantId, name, source, schema, language = "typescript", mode, granted, note, onDeployed } = props;
  const saved = useSavedDraft(`${tenantId}/${name ?? ""}`, source);
  const [code, setCode] = useState(saved.text);
  const [round, setRound] = useState(0);
  const facts = useToolFacts(tenantId, granted, code);
  const [newName, setNewName] = useState(name ?? "");
  const [input, setInput] = useState<unknown>(() => initialValue(schema));
  const [result, setResult] = useState<DraftResult>();
  const [ran, setRan] = useState({ at: 0, code: "" });
  // More may be written while a deployment runs.
  const written = useRef(code);
  const edit = (next: string): void => {
    written.current = next;
    setCode(next);
    saved.save(next);
  };
  const sourceFields = { source: code, language, ...(mode === undefined ? {} : { mode }) };
  const run = async (): Promise<void> => {
    setRan({ at: serverNow(), code });
    setResult(undefined);
    const body = { ...sourceFields, input, ...(name === undefined ? {} : { tool: name }) };
    const path = `/v1/tenants/${encodeURIComponent(tenantId)}/drafts/calls`;
    setResult(await request<DraftResult>("POST", path, { body }));
  };
  const deploy = async (): Promise<void> => {
    const { version, release } = await client
      .tenant(tenantId)
      .deploy({ ...sourceFields, ...(newName === "" ? {} : { name: newName }) });
    const note = <Deployed tenantId={tenantId} version={version} isLive={release !== null} />;
    onDeployed({ version, source: code, note });
    if (name !== undefined) {
      saved.save(written.current, code);
      return;
    }
    saved.save(source);
    navigate(urlOf(["t", tenantId, "tools", version.tool]));
  };
  return (
    <div class="stack" data-form>
      {name === undefined ? (
        <TextField
          label="Name"
          value={newName}
          onInput={setNewName}
          hint="What models call the tool: letters, digits, _ and -."
          isRequired
        />
      ) : null}
      {saved.isRestored ? (
        <p class="row" role="status">
          Your changes of before are back.
          <button
            type="button"
            class="button quiet small"
            onClick={() => {
              edit(source);
              setRound(round + 1);
            }}
          >
            Discard them
          </button>
        </p>
      ) : null}
      <CodeEditor
        key={round}
        label="Code of the tool"
        value={code}
        language={language === "python" ? "plain" : "typescript"}
        onChange={edit}
        facts={facts}
      />
      <div class="row">
        <Button kind="primary" onClick={run}>
          Run without deploying
        </Button>
        {can("tools:deploy") ? (
          <Button disabled={newName === ""} onClick={deploy}>
            Deploy
          </Button>
        ) : null}
        {note === undefined ? null : <span role="status">{note}</span>}
      </div>
      <div class="columns">
        <section class="stack">
          <h2>Input</h2>
          <Input schema={schema} value={input} onChange={setInput} />
        </section>
        <section class="stack result" aria-live="polite">
          <h2>Result</h2>
          {result === undefined ? (
            <p class="faint">Run the draft to see its result.</p>
          ) : (
            <Result result={result} code={ran.code} ranAt={ran.at} />
          )}
        </section>
      </div>
    </div>
  );
}

interface DeployedProps {
  readonly tenantId: string;
  readonly version: Pick<ToolVersion, "tool" | "version">;
  readonly isLive: boolean;
}

/** Says what a deployment has done. */
function Deployed({ tenantId, version: { tool, version }, isLive }: DeployedProps): JSX.Element {
  const what = `Version ${version} of ${tool} is stored`;
  if (isLive) return <>{what} and live.</>;
  return (
    <>
      {what}. It waits for <a href={urlOf(["t", tenantId, "approvals"])}>approval</a>.
    </>
  );
}

interface InputProps {
  readonly schema: InputSchema;
  readonly value: unknown;
  readonly onChange: (value: unknown) => void;
}

function Input({ schema, value, onChange }: InputProps): JSX.Element {
  const hasFields = Object.keys(schema.properties ?? {}).length > 0;
  if (!hasFields) return <JsonField label="Input as JSON" value={value} onChange={onChange} />;
  return <InputForm schema={schema} value={value} onChange={onChange} />;
}

interface ResultProps {
  readonly result: DraftResult;
  /** The code that ran. */
  readonly code: string;
  /** Ms since 1970. */
  readonly ranAt: number;
}

function Result({ result, code, ranAt }: ResultProps): JSX.Element {
  const { success, output, error, logs, durationMs, usage, timeline = [], calls = [] } = result;
  return (
    <>
      {success ? (
        <JsonView value={output} label="Output" />
      ) : (
        <ErrorView error={error as StoredError} files={{ "tool.ts": code }} />
      )}
      <LogView lines={logs} startedAt={ranAt} isLive={false} />
      <Timeline timeline={{ spans: timeline, calls }} totalMs={durationMs} usage={usage} />
    </>
  );
}

const TEMPLATE = `export const description = "Greets someone";
export const inputSchema = {
  type: "object",
  properties: { name: { type: "string" } },
  required: ["name"],
  additionalProperties: false,
};

export default async ({ name }, ctx) => {
  console.log("greeting", name);
  return { greeting: \`Hello, \${name}!\` };
};
`;
const TEMPLATE_SCHEMA: InputSchema = {
  type: "object",
  properties: { name: { type: "string", default: "Ada" } },
  required: ["name"],
};

export function NewToolPage({ tenantId }: { readonly tenantId: string }): JSX.Element {
  return (
    <>
      <PageHead title="New tool" />
      <Draft tenantId={tenantId} name={undefined} source={TEMPLATE} schema={TEMPLATE_SCHEMA} onDeployed={() => {}} />
    </>
  );
}
