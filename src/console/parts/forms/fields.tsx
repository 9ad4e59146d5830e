// Labelled fields of forms and of filters.

import type { ComponentChildren, JSX } from "preact";
import { useId, useState } from "preact/hooks";

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

interface FilterFieldProps {
  readonly label: string;
  /** The filter of the address. */
  readonly value: string;
  readonly onFilter: (value: string) => void;
  readonly type?: "search" | "number";
}

/**
 * Text of a filter. It applies with Enter, when the field is left, and when it is cleared. Until then, what is typed
 * stays while the page refreshes.
 */
export function FilterField({ label, value, onFilter, type = "search" }: FilterFieldProps): JSX.Element {
  const [typed, setTyped] = useState<string>();
  const apply = (text: string): void => {
    setTyped(undefined);
    onFilter(text);
  };
  return (
    <input
      type={type as "search"}
      aria-label={label}
      placeholder={label}
      value={typed ?? value}
      onInput={({ currentTarget: { value: text, validity } }) => {
        // A number that is not complete, such as "-", has no value either.
        if (text === "" && !validity.badInput) apply(text);
        else setTyped(text);
      }}
      onChange={(event) => apply(event.currentTarget.value)}
    />
  );
}
