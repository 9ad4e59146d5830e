// Labelled fields of forms.

import type { ComponentChildren, JSX } from "preact";
import { useId } from "preact/hooks";

interface FieldProps {
  readonly label: string;
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  readonly children: (ids: { readonly id: string; readonly "aria-describedby"?: string }) => JSX.Element;
}

/** A labelled control. */
export function Field({ label, hint, error, children }: FieldProps): JSX.Element {
  const id = useId();
  const noteId = `${id}-note`;
  const hasNote = hint !== undefined || error !== undefined;
  return (
    <div class={error === undefined ? "field" : "field has-error"}>
      <label for={id}>{label}</label>
      {children({ id, ...(hasNote ? { "aria-describedby": noteId } : {}) })}
      {hasNote ? (
        <div class="note" id={noteId}>
          {error ?? hint}
        </div>
      ) : null}
    </div>
  );
}

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly hint?: ComponentChildren;
  readonly error?: string | undefined;
  readonly type?: string;
  readonly placeholder?: string;
  readonly rows?: number;
  readonly isRequired?: boolean;
  readonly autocomplete?: string;
}

type TextControl = HTMLInputElement | HTMLTextAreaElement;

export function TextField(props: TextFieldProps): JSX.Element {
  const { label, value, onInput, hint, error, type = "text", placeholder, rows, isRequired = false } = props;
  const { autocomplete = "off" } = props;
  const validity = {
    "aria-invalid": error !== undefined,
    ref: (control: TextControl | null): void => control?.setCustomValidity(error ?? ""),
  };
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) =>
        rows === undefined ? (
          <input
            {...ids}
            {...validity}
            type={type as "text"}
            value={value}
            placeholder={placeholder}
            required={isRequired}
            autocomplete={autocomplete}
            onInput={(event) => onInput(event.currentTarget.value)}
          />
        ) : (
          <textarea
            {...ids}
            {...validity}
            rows={rows}
            value={value}
            placeholder={placeholder}
            required={isRequired}
            spellcheck={false}
            onInput={(event) => onInput(event.currentTarget.value)}
          />
        )
      }
    </Field>
  );
}

interface SelectFieldProps {
  readonly label: string;
  readonly value: string;
  readonly options: readonly (readonly [value: string, text: string])[];
  readonly onInput: (value: string) => void;
  readonly hint?: ComponentChildren;
}

export function SelectField({ label, value, options, onInput, hint }: SelectFieldProps): JSX.Element {
  return (
    <Field label={label} hint={hint}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => onInput(event.currentTarget.value)}>
          {options.map(([option, text]) => (
            <option key={option} value={option}>
              {text}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

export function Checkbox(props: {
  readonly label: string;
  readonly isChecked: boolean;
  readonly onInput: (isChecked: boolean) => void;
}): JSX.Element {
  const { label, isChecked, onInput } = props;
  return (
    <label class="checkbox">
      <input type="checkbox" checked={isChecked} onChange={(event) => onInput(event.currentTarget.checked)} /> {label}
    </label>
  );
}
