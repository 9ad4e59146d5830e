// The form that runs a call again, with another input or on another version, and shows both results side by side.

import type { Call } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Loading, MissingScope } from "../../parts/controls.tsx";
import { SelectField } from "../../parts/forms/fields.tsx";
import { type InputSchema, initialValue } from "../../parts/input-form/form-schema.ts";
import { InputForm } from "../../parts/input-form/input-form.tsx";
import { DiffView } from "../../parts/values/diff-view.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import { WaitingCall } from "../../parts/waiting-call.tsx";
import { collect } from "../../state/collect.ts";
import { formatJson } from "../../state/format.ts";
import { isOutputKept } from "../../state/kept-output.ts";
import { useResource } from "../../state/resource.ts";
import { urlOf } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";
import { CallError } from "./call-error.tsx";

/** Says why a form does not have the input of the call. */
export const MissingInput = (): JSX.Element => (
  <p role="status">The input of this call was not kept. Enter an input: it may differ from what the call had.</p>
);

export function RunAgain({ tenantId, call }: { readonly tenantId: string; readonly call: Call }): JSX.Element {
  const tenant = client.tenant(tenantId);
  const versions = useResource(`versions ${call.tool}`, () => collect(tenant.versions(call.tool)));
  const [version, setVersion] = useState(call.version === null ? "" : String(call.version));
  const [edited, setInput] = useState<unknown>(call.input);
  const [result, setResult] = useState<Call>();
  if (!can("calls:run")) return <MissingScope scope="calls:run" />;
  const list = (versions.value ?? []).filter(({ state }) => state === "ready");
  const numbers = list.map((one) => one.version);
  // The list has the newest versions, and that of the call.
  const choices = call.version === null || numbers.includes(call.version) ? numbers : [...numbers, call.version];
  const definition = list.find((one) => String(one.version) === version)?.definition ?? list[0]?.definition;
  const schema = (definition?.inputSchema ?? {}) as InputSchema;
  const input = edited ?? initialValue(schema);
  const run = async (): Promise<void> => {
    const chosen = version === "" ? {} : { version: Number(version) };
    setResult(await tenant.call(call.tool, { input, ...chosen }));
  };
  return (
    <div class="columns">
      <section class="stack" data-form>
        <SelectField
          label="Version"
          value={version}
          options={[["", `The alias ${call.alias}`], ...choices.map((one) => [String(one), `v${one}`] as const)]}
          onInput={setVersion}
        />
        {call.input === null ? <MissingInput /> : null}
        {versions.value === undefined ? <Loading /> : <InputForm schema={schema} value={input} onChange={setInput} />}
        <Button kind="primary" disabled={edited === null} onClick={run}>
          Run again
        </Button>
      </section>
      <section class="stack">
        {result === undefined ? (
          <p class="faint">The new result appears here, next to the one before.</p>
        ) : (
          <>
            <h2>
              <a href={urlOf(["t", tenantId, "calls", result.id])}>New result</a> <Badge>{result.state}</Badge>
            </h2>
            {result.state === "waiting_for_approval" ? <WaitingCall tenantId={tenantId} /> : null}
            {result.endedAt === null ? null : (
              <>
                {result.error === null ? (
                  <JsonView value={result.output} label="New output" />
                ) : (
                  <CallError tenantId={tenantId} call={result} />
                )}
                <Comparison tenantId={tenantId} before={call} after={result} />
              </>
            )}
          </>
        )}
      </section>
    </div>
  );
}

interface ComparisonProps {
  readonly tenantId: string;
  readonly before: Call;
  readonly after: Call;
}

/** Shows what the call before returned, as far as it differs from a new call that has ended. */
function Comparison({ tenantId, before, after }: ComparisonProps): JSX.Element {
  if (before.error !== null) {
    return (
      <>
        <h2>Before</h2>
        <CallError tenantId={tenantId} call={before} />
      </>
    );
  }
  if (before.endedAt === null || !isOutputKept(before))
    return <p class="faint">The output of the call before was not kept, so the two cannot be compared.</p>;
  const [old, current] = [formatJson(before.output), formatJson(after.output)];
  if (old === current) return <p class="faint">The output is the same as before.</p>;
  return <DiffView name="output" before={old} after={current} />;
}
