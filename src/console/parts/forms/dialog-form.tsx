// A button that opens a form in a dialog, and closes it when the form has succeeded.
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import { Button } from "../controls.tsx";
import { Confirm, Dialog } from "./dialog.tsx";

interface DialogButtonProps {
  readonly label: string;
  readonly title: string;
  readonly kind?: "primary" | "plain" | "quiet";
  /** Called when the form has succeeded, for example to load the list again. */
  readonly onDone?: () => void;
  /** @param done closes the dialog, and calls `onDone` */
  readonly children: (done: () => void) => ComponentChildren;
}

export function DialogButton({ label, title, kind = "primary", onDone, children }: DialogButtonProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const close = (): void => setOpen(false);
  const done = (): void => {
    close();
    onDone?.();
  };
  return (
    <>
      <Button kind={kind} onClick={() => setOpen(true)}>
        {label}
      </Button>
      {isOpen ? (
        <Dialog title={title} onClose={close}>
          {children(done)}
        </Dialog>
      ) : null}
    </>
  );
}

interface ConfirmButtonProps {
  readonly label: string;
  readonly title: string;
  readonly action: string;
  readonly typed?: string;
  readonly onConfirm: () => unknown;
  readonly children: ComponentChildren;
}

/** A button whose action must be confirmed. */
export function ConfirmButton({ label, title, action, typed, onConfirm, children }: ConfirmButtonProps): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button kind="danger" onClick={() => setOpen(true)}>
        {label}
      </Button>
      {isOpen ? (
        <Confirm
          title={title}
          action={action}
          onConfirm={onConfirm}
          {...(typed === undefined ? {} : { typed })}
          onClose={() => setOpen(false)}
        >
          {children}
        </Confirm>
      ) : null}
    </>
  );
}
