// Replays a recorded call on its version, another version or another input, and shows the outcome next to the recorded one.

import type { Call, Replay } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, ErrorBox, Facts, Loading, MissingScope } from "../../parts/controls.tsx";
import { ErrorView, type StoredError } from "../../parts/error-view.tsx";
import { Checkbox, SelectField } from "../../parts/forms/fields.tsx";
import type { InputSchema } from "../../parts/input-form/form-schema.ts";
import { InputForm } from "../../parts/input-form/input-form.tsx";
import { RecordingHelp } from "../../parts/recording-help.tsx";
import { ChunkChanges, JsonChanges } from "../../parts/values/json-changes.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { collect } from "../../state/collect.ts";
import { formatMs } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { address, setQuery } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";

interface ReplayProps {
  readonly tenantId: string;
  readonly call: Call;
}

export function ReplayTab({ tenantId, call }: ReplayProps): JSX.Element {
  if (!can("calls:replay")) return <MissingScope scope="calls:replay" />;
  if (call.endedAt === null) return <p class="faint">A call can be replayed when it has ended.</p>;
  if (!call.isRecorded)
    return <RecordingHelp tenantId={tenantId} tool={call.tool} title="This call was not recorded" />;
  return <ReplayForm tenantId={tenantId} call={call} />;
}

function ReplayForm({ tenantId, call }: ReplayProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const versions = useResource(`versions ${tenantId} ${call.tool}`, () => collect(tenant.versions(call.tool)));
  const [hasInput, setHasInput] = useState(false);
  const [input, setInput] = useState<unknown>(call.input ?? {});
  const [shown, setShown] = useState<{ readonly replayed: Replay; readonly version: string }>();
  if (versions.value === undefined)
    return versions.error === undefined ? <Loading /> : <ErrorBox error={versions.error} onRetry={versions.reload} />;
  const ready = versions.value.filter(({ state }) => state === "ready");
  const recorded = String(call.version);
  const named = address.value.query.version ?? recorded;
  const version = ready.some((one) => String(one.version) === named) ? named : recorded;
  const definition = ready.find((one) => String(one.version) === version)?.definition;
  const run = async (): Promise<void> => {
    const changes = { version: Number(version), ...(hasInput ? { input } : {}) };
    setShown({ replayed: await tenant.replay(call.id, changes), version });
  };
  return (
    <div class="stack">
      <form class="card stack" onSubmit={(event) => event.preventDefault()}>
        <p class="faint">
          The call runs again from its recording: nothing leaves the server, no capability is used, and nothing is
          stored.
        </p>
        <div class="row fields">
          <SelectField
            label="Version"
            value={version}
            options={ready.map((one) => [
              String(one.version),
              String(one.version) === recorded ? `v${one.version} (recorded)` : `v${one.version}`,
            ])}
            onInput={(next) => setQuery({ version: next === recorded ? undefined : next })}
          />
          <Checkbox label="Edit the input" isChecked={hasInput} onInput={setHasInput} />
        </div>
        {hasInput ? (
          <InputForm schema={(definition?.inputSchema ?? {}) as InputSchema} value={input} onChange={setInput} />
        ) : null}
        <Button kind="primary" type="submit" onClick={run}>
          Replay
        </Button>
      </form>
      <section aria-live="polite" aria-label="Outcome of the replay">
        {shown === undefined ? (
          <p class="faint">The outcome appears here, next to the recorded one.</p>
        ) : (
          <Outcome {...shown} />
        )}
      </section>
    </div>
  );
}

const VERDICTS = {
  identical: ["good", "The outcome is the same, byte for byte."],
  different: ["warn", "The outcome differs from the recorded one."],
  failed: ["bad", "The replay failed with an error that the recording does not have."],
  diverged: ["bad", "The tool requested something that was not recorded, so the replay stopped there."],
  not_compared: [
    "warn",
    "The output is the same. The chunks of the stream were not compared, because an earlier version recorded none.",
  ],
} as const;

/** The color of a verdict. */
export const toneOf = (verdict: Replay["verdict"]): string => VERDICTS[verdict][0];

const MATCHES = {
  position: "by position: the tool did the same, in the same order",
  arguments: "by name and arguments of each request",
} as const;

type Recorded = { readonly output: unknown } | { readonly error: StoredError };
type Result = {
  readonly success: boolean;
  readonly output?: unknown;
  readonly error?: StoredError;
  readonly usage?: { readonly cpuMs: number };
};

function Outcome({ replayed, version }: { readonly replayed: Replay; readonly version: string }): JSX.Element {
  const { verdict, match, divergence, changes, chunks, missing } = replayed;
  const recorded = replayed.recorded as Recorded;
  const result = replayed.result as Result;
  return (
    <div class="stack">
      <div class="card stack">
        <p class="row">
          <Badge tone={toneOf(verdict)}>{verdict}</Badge> <span>{VERDICTS[verdict][1]}</span>
        </p>
        <Facts
          facts={[
            ["Version", `v${version}`],
            ["Answers found", MATCHES[match]],
            ["CPU time", formatMs(result.usage?.cpuMs)],
          ]}
        />
        {divergence === undefined ? null : (
          <dl class="divergence">
            <dt>Expected at position {divergence.position}</dt>
            <dd>
              <code>{divergence.expected}</code>
            </dd>
            <dt>The tool requested</dt>
            <dd>
              <code>{divergence.actual}</code>
            </dd>
          </dl>
        )}
      </div>
      {changes === undefined ? null : (
        <section>
          <h2 class="part-heading">Differences</h2>
          <JsonChanges changes={changes} />
        </section>
      )}
      {chunks === undefined ? null : <ChunkChanges chunks={chunks} />}
      {missing === undefined ? null : (
        <section>
          <h2 class="part-heading">Requests that were not made</h2>
          <ul>
            {missing.map((request, index) => (
              <li key={index}>
                <code>{request}</code>
              </li>
            ))}
          </ul>
        </section>
      )}
      <div class="columns">
        <section>
          <h2>Recorded</h2>
          {"error" in recorded ? (
            <ErrorView error={recorded.error} />
          ) : (
            <JsonView value={recorded.output} label="Recorded output" />
          )}
        </section>
        <section>
          <h2>Replayed</h2>
          {result.success || result.error === undefined ? (
            <JsonView value={result.output} label="Replayed output" />
          ) : (
            <ErrorView error={result.error} />
          )}
        </section>
      </div>
    </div>
  );
}
