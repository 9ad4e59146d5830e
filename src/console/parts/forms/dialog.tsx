// Modal dialogs, and a confirmation dialog for irreversible actions.

import type { ComponentChildren, JSX } from "preact";
import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Button } from "../controls.tsx";
import { TextField } from "./fields.tsx";

interface DialogProps {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** A modal dialog. Escape closes it. */
export function Dialog({ title, onClose, children }: DialogProps): JSX.Element {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before the next key is pressed, which the dialog must receive.
  useLayoutEffect(() => {
    const dialog = ref.current;
    if (dialog !== null && !dialog.open) {
      dialog.showModal();
      // Not the button that closes it, which comes first.
      dialog.querySelector<HTMLElement>("input, select, textarea")?.focus();
    }
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={ref} aria-labelledby={id} onClose={onClose}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="button quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </dialog>
  );
}

interface ConfirmProps {
  readonly title: string;
  readonly action: string;
  /** Text that must be typed before the action is possible. */
  readonly typed?: string;
  readonly onConfirm: () => unknown;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

/** Confirmation dialog for irreversible actions. */
export function Confirm({ title, action, typed, onConfirm, onClose, children }: ConfirmProps): JSX.Element {
  const [text, setText] = useState("");
  const run = async (): Promise<void> => {
    await onConfirm();
    onClose();
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div class="stack">
        <div>{children}</div>
        {typed === undefined ? null : <TextField label={`Type ${typed} to confirm`} value={text} onInput={setText} />}
        <div class="row end">
          <Button onClick={onClose}>Keep</Button>
          <Button kind="danger" disabled={typed !== undefined && text !== typed} onClick={run}>
            {action}
          </Button>
        </div>
      </div>
    </Dialog>
  );
}
