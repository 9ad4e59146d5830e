// Forms with which a person gives a run what it waits for: a decision, the answer to a form, or an event.

import type { Run } from "glovebox/client";
import type { JSX } from "preact";
import { useId, useState } from "preact/hooks";
import { Button, Time } from "../parts/controls.tsx";
import { DecisionForm } from "../parts/decision-form.tsx";
import { TextField } from "../parts/fields.tsx";
import { type FormSchema, InputForm, JsonField } from "../parts/schema-form.tsx";
import type { TenantProps } from "../state/props.ts";
import { can, client } from "../state/session.ts";

interface AnswerProps extends TenantProps {
  readonly id: string;
  /** Called when the server has the answer. */
  readonly onAnswered: () => void;
}
interface WaitProps extends AnswerProps {
  readonly wait: Run["waits"][number];
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
  const { kind, name, message, until } = wait;
  const headingId = useId();
  return (
    <article class="card approval" aria-labelledby={headingId}>
      <h2 id={headingId}>
        {TITLES[kind]}
        {name === undefined ? null : (
          <>
            : <code>{name}</code>
          </>
        )}
      </h2>
      {message === undefined ? null : <p class="strong">{message}</p>}
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

function Decision({ tenantId, id, wait, onAnswered }: WaitProps): JSX.Element {
  if (!can("calls:approve")) return <Missing scope="calls:approve" />;
  const decide = async (isApproved: boolean, reason: string | undefined): Promise<void> => {
    const tenant = client.tenant(tenantId);
    await (isApproved ? tenant.approveRun(id, wait.id, reason) : tenant.denyRun(id, wait.id, reason));
    onAnswered();
  };
  return <DecisionForm hint="The tool receives it; the audit log keeps it." onDecide={decide} />;
}

function Elicitation({ tenantId, id, wait, onAnswered }: WaitProps): JSX.Element {
  const [content, setContent] = useState<unknown>({});
  if (!can("calls:run")) return <Missing scope="calls:run" />;
  const answer = async (action: "accept" | "decline"): Promise<void> => {
    const { requestedSchema } = wait;
    const form = action === "accept" && requestedSchema !== undefined ? { content } : {};
    await client.tenant(tenantId).answerRun(id, wait.id, { action, ...form });
    onAnswered();
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      {wait.requestedSchema === undefined ? (
        // An address of a tool is shown as text: it is not a place that this page recommends.
        <code>{wait.url}</code>
      ) : (
        <InputForm schema={wait.requestedSchema as FormSchema} value={content} onChange={setContent} />
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
    await client.tenant(tenantId).sendRunEvent(id, name ?? chosen, value);
    onAnswered();
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
