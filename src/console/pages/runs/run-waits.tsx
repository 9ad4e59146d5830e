// Forms with which a person gives a run what it waits for: a decision, the answer to a form, or an event.

import type { Run } from "glovebox/client";
import type { JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { toVisibleText } from "../../../host/util/visible-text.ts";
import { Badge, Button, Time } from "../../parts/controls.tsx";
import { DecisionForm } from "../../parts/forms/decision-form.tsx";
import { TextField } from "../../parts/forms/fields.tsx";
import { type InputSchema, initialValue } from "../../parts/input-form/form-schema.ts";
import { InputForm } from "../../parts/input-form/input-form.tsx";
import { JsonField } from "../../parts/input-form/value-fields.tsx";
import { JsonView } from "../../parts/values/json-view.tsx";
import type { TenantProps } from "../../state/props.ts";
import { urlOf } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";

interface AnswerProps extends TenantProps {
  readonly id: string;
  /** Called with the run when the server has the answer, and the run waits again or has ended. */
  readonly onAnswered: (run: Run, outcome: string) => void;
}
interface WaitProps extends AnswerProps {
  readonly wait: Run["waits"][number];
  /** The run, where the page is about more than this one. */
  readonly run?: Pick<Run, "kind" | "tool" | "createdAt"> | undefined;
}

const TITLES = {
  approval: "Waits for an approval",
  event: "Waits for an event",
  duration: "Waits for a time",
  elicitation: "Waits for an answer",
} as const;

const Missing = ({ scope }: { readonly scope: string }): JSX.Element => (
  <p class="faint">A key with the scope {scope} can answer.</p>
);

export function WaitCard(props: WaitProps): JSX.Element {
  const { wait } = props;
  const { kind, name, message, until, toolName, input } = wait;
  const headingId = useId();
  return (
    <article class="card approval" aria-labelledby={headingId}>
      <h2 id={headingId}>
        {TITLES[kind]}
        {(name ?? toolName) === undefined ? null : (
          <>
            : <code>{name ?? toolName}</code>
          </>
        )}
      </h2>
      {props.run === undefined ? null : <RunLine {...props} run={props.run} />}
      {toolName === undefined || input === undefined ? (
        message === undefined ? null : (
          <p class="strong">{toVisibleText(message)}</p>
        )
      ) : (
        <>
          <p class="strong">The code wants to call the tool {toolName} with these arguments.</p>
          <JsonView value={input} label={`Arguments of ${toolName}`} />
        </>
      )}
      {until === undefined ? null : (
        <p class="faint">
          {kind === "duration" ? "Continues" : "Ends without an answer"} <Time at={until} isAge />
        </p>
      )}
      {kind === "approval" ? <Decision {...props} /> : null}
      {kind === "elicitation" ? <Elicitation {...props} /> : null}
      {kind === "event" ? (
        can("calls:run") ? (
          <EventForm {...props} {...(name === undefined ? {} : { name })} />
        ) : (
          <Missing scope="calls:run" />
        )
      ) : null}
    </article>
  );
}

/** Says which run waits. */
function RunLine({ tenantId, id, run }: WaitProps & { readonly run: NonNullable<WaitProps["run"]> }): JSX.Element {
  const what = run.kind === "code" ? "code of a model" : run.tool;
  return (
    <p>
      <a href={urlOf(["t", tenantId, "runs", id])}>Run of {what}</a>, started <Time at={run.createdAt} isAge />
    </p>
  );
}

export interface AnsweredWait {
  readonly id: string;
  readonly wait: Run["waits"][number];
  /** What the person has decided. */
  readonly outcome: string;
  /** State of the run afterwards. */
  readonly state: Run["state"];
}

/** Shows the outcome of a wait that was answered on this page. */
export function WaitOutcome({ tenantId, id, wait, outcome, state }: TenantProps & AnsweredWait): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  // The card with the button is gone: keyboard users continue here.
  useLayoutEffect(() => heading.current?.focus(), []);
  const what = wait.toolName ?? wait.message ?? "a run";
  return (
    <section class="card approval" aria-label={`Answer to a run about ${what}`}>
      <div class="row">
        <h2 ref={heading} tabIndex={-1}>
          {outcome}: {what}
        </h2>
        <span role="status">
          <Badge>{state}</Badge>
        </span>
        <a href={urlOf(["t", tenantId, "runs", id])}>Run and journal</a>
      </div>
    </section>
  );
}

function Decision({ tenantId, id, wait, onAnswered }: WaitProps): JSX.Element {
  if (!can("calls:approve")) return <Missing scope="calls:approve" />;
  const decide = async (isApproved: boolean, reason: string | undefined): Promise<void> => {
    const tenant = client.tenant(tenantId);
    const answered = await (isApproved ? tenant.approveRun(id, wait.id, reason) : tenant.denyRun(id, wait.id, reason));
    onAnswered(answered, isApproved ? "Approved" : "Denied");
  };
  return (
    <DecisionForm hint="The run receives it; the audit log keeps it." onDecide={decide}>
      {wait.toolName === undefined ? null : (
        <span class="faint">An approved call runs once, with exactly these arguments.</span>
      )}
    </DecisionForm>
  );
}

function Elicitation({ tenantId, id, wait, onAnswered }: WaitProps): JSX.Element {
  const schema = wait.requestedSchema as InputSchema | undefined;
  const [content, setContent] = useState<unknown>(() => initialValue(schema ?? {}));
  if (!can("calls:run")) return <Missing scope="calls:run" />;
  const answer = async (action: "accept" | "decline"): Promise<void> => {
    const form = action === "accept" && schema !== undefined ? { content } : {};
    const answered = await client.tenant(tenantId).answerRun(id, wait.id, { action, ...form });
    onAnswered(answered, action === "accept" ? "Answered" : "Declined");
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      {schema === undefined ? (
        // An address of a tool is shown as text: it is not a place that this page recommends.
        <code>{wait.url}</code>
      ) : (
        <InputForm schema={schema} value={content} onChange={setContent} />
      )}
      <div class="row">
        <Button kind="primary" onClick={() => answer("accept")}>
          Answer
        </Button>
        <Button onClick={() => answer("decline")}>Decline</Button>
      </div>
    </form>
  );
}

/** Sends an event. @param name of the event that the run waits for. Default: a field for it */
export function EventForm({ tenantId, id, name, onAnswered }: AnswerProps & { readonly name?: string }): JSX.Element {
  const [chosen, setChosen] = useState("");
  const [value, setValue] = useState<unknown>(null);
  const send = async (): Promise<void> => {
    onAnswered(await client.tenant(tenantId).sendRunEvent(id, name ?? chosen, value), "Sent");
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      {name === undefined ? <TextField label="Name of the event" value={chosen} onInput={setChosen} /> : null}
      <JsonField label="Value as JSON" value={value} onChange={setValue} />
      <div class="row">
        <Button kind="primary" disabled={name === undefined && chosen === ""} onClick={send}>
          Send the event
        </Button>
      </div>
    </form>
  );
}
