// A form with which a person approves or denies something that waits, and says why.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../controls.tsx";
import { TextField } from "./fields.tsx";

interface DecisionFormProps {
  /** Who sees the reason. */
  readonly hint: string;
  /** Text next to the buttons. */
  readonly children?: ComponentChildren;
  readonly onDecide: (isApproved: boolean, reason: string | undefined) => Promise<void>;
}

export function DecisionForm({ hint, children, onDecide }: DecisionFormProps): JSX.Element {
  const [reason, setReason] = useState("");
  const decide = async (isApproved: boolean): Promise<void> => {
    const given = reason.trim();
    await onDecide(isApproved, given === "" ? undefined : given);
  };
  return (
    <form class="stack" onSubmit={(event) => event.preventDefault()}>
      <TextField label="Reason (optional)" value={reason} onInput={setReason} hint={hint} />
      <div class="row">
        <Button kind="primary" onClick={() => decide(true)}>
          Approve
        </Button>
        <Button kind="danger" onClick={() => decide(false)}>
          Deny
        </Button>
        {children}
      </div>
    </form>
  );
}
