// The editor: write a tool, run it without deploying it, and deploy it.

import type { Timeline as TimelineData } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { CodeEditor } from "../parts/code-editor.tsx";
import { Button, PageHead, TextField } from "../parts/controls.tsx";
import { ErrorView, type StoredError } from "../parts/error-view.tsx";
import { JsonView } from "../parts/json-view.tsx";
import { type LogLine, LogView } from "../parts/log-view.tsx";
import { InputForm, initialValue, JsonField, type JsonSchema } from "../parts/schema-form.tsx";
import { Timeline, type TimelineUsage } from "../parts/timeline.tsx";
import { navigate, urlOf } from "../state/router.ts";
import { can, client, request } from "../state/session.ts";

interface DraftProps {
  readonly tenantId: string;
  /** Name of the tool that is edited; undefined for a new one. */
  readonly name: string | undefined;
  readonly source: string;
  readonly schema: JsonSchema;
  readonly onDeployed: () => void;
}

interface DraftResult {
  readonly success: boolean;
  readonly output?: unknown;
  readonly error?: StoredError;
  readonly logs: readonly LogLine[];
  readonly durationMs: number;
  readonly usage: TimelineUsage;
  readonly timeline?: TimelineData["spans"];
  readonly calls?: TimelineData["calls"];
}

export function Draft({ tenantId, name, source, schema, onDeployed }: DraftProps): JSX.Element {
  const [code, setCode] = useState(source);
  const [newName, setNewName] = useState(name ?? "");
  const [input, setInput] = useState<unknown>(() => initialValue(schema));
  const [result, setResult] = useState<DraftResult>();
  const [ran, setRan] = useState({ at: 0, code: "" });
  const [note, setNote] = useState<string>();
  const hasForm = Object.keys(schema.properties ?? {}).length > 0;
  const run = async (): Promise<void> => {
    setRan({ at: Date.now(), code });
    setResult(undefined);
    const body = { source: code, input, ...(name === undefined ? {} : { tool: name }) };
    const path = `/v1/tenants/${encodeURIComponent(tenantId)}/drafts/calls`;
    setResult(await request<DraftResult>("POST", path, { body }));
  };
  const deploy = async (): Promise<void> => {
    const { version, release } = await client
      .tenant(tenantId)
      .deploy({ source: code, ...(newName === "" ? {} : { name: newName }) });
    const what = `Version ${version.version} of ${version.tool} is stored`;
    setNote(release === null ? `${what}. It waits for approval.` : `${what} and live.`);
    onDeployed();
    if (name === undefined) navigate(urlOf(["t", tenantId, "tools", version.tool]));
  };
  return (
    <div class="stack">
      {name === undefined ? (
        <TextField
          label="Name"
          value={newName}
          onInput={setNewName}
          hint="What models call the tool: letters, digits, _ and -."
          isRequired
        />
      ) : null}
      <CodeEditor label="Code of the tool" value={source} language="typescript" onChange={setCode} />
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
          {hasForm ? (
            <InputForm schema={schema} value={input} onChange={setInput} />
          ) : (
            <JsonField label="Input as JSON" value={input} onChange={setInput} />
          )}
        </section>
        <section class="stack" aria-live="polite">
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
const TEMPLATE_SCHEMA: JsonSchema = {
  type: "object",
  properties: { name: { type: "string", default: "Ada" } },
  required: ["name"],
};

export function NewTool({ tenantId }: { readonly tenantId: string }): JSX.Element {
  return (
    <>
      <PageHead title="New tool" />
      <Draft tenantId={tenantId} name={undefined} source={TEMPLATE} schema={TEMPLATE_SCHEMA} onDeployed={() => {}} />
    </>
  );
}
