// Fields of the form for single values: text, numbers, choices of an enum, files as bytes in base64, and JSON.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { digitsIssueOf, numberIssueOf, readNumber } from "../../../host/json/exact-numbers.ts";
import { formatBytes, formatJson } from "../../state/format.ts";
import { Field, SelectField, TextField } from "../forms/fields.tsx";
import { byteLengthOf, type InputSchema, type Json } from "./form-schema.ts";

export type Change = (value: Json) => void;

const LONG_TEXT = 200;

export function JsonField(props: {
  readonly label: string;
  readonly value: Json;
  readonly onChange: Change;
}): JSX.Element {
  const { label, value, onChange } = props;
  const [text, setText] = useState(() => formatJson(value));
  const [error, setError] = useState<string>();
  const change = (next: string): void => {
    setText(next);
    try {
      const issue = numberIssueOf(next);
      setError(issue);
      if (issue === undefined) onChange(JSON.parse(next));
    } catch (thrown) {
      setError(thrown instanceof Error ? thrown.message : "Expected JSON");
    }
  };
  return <TextField label={label} value={text} onInput={change} rows={8} error={error} />;
}

export interface PartProps {
  readonly name: string;
  readonly schema: InputSchema;
  readonly root: InputSchema;
  readonly value: Json;
  readonly onChange: Change;
  readonly depth: number;
  readonly isRequired: boolean;
}

export const labelOf = ({ name, isRequired }: PartProps, { title }: InputSchema): string =>
  `${title ?? name}${isRequired ? "" : " (optional)"}`;

/** Largest file in bytes: its base64 has 64 MiB, and no server takes a larger body. Most take less (`maxBodyBytes`), and say so. */
const MAX_FILE_BYTES = 48 * 1024 * 1024;

/** A file, which becomes text in base64. */
export function FilePart(props: PartProps): JSX.Element {
  const { schema, value, onChange } = props;
  const [name, setName] = useState<string>();
  const [error, setError] = useState<string>();
  const text = typeof value === "string" ? value : "";
  const maxBytes = Math.min(MAX_FILE_BYTES, Math.floor((schema.maxLength ?? Infinity) / 4) * 3);
  const choose = async (input: HTMLInputElement): Promise<void> => {
    const file = input.files?.[0];
    const problem =
      file !== undefined && file.size > maxBytes
        ? `${file.name} has ${formatBytes(file.size)}. Choose a file of at most ${formatBytes(maxBytes)}`
        : undefined;
    setError(problem);
    input.setCustomValidity(problem ?? "");
    if (file === undefined || problem !== undefined) return;
    const bytes = new Uint8Array(await file.arrayBuffer());
    // Another one may have been chosen while this one was read.
    if (input.files?.[0] !== file) return;
    onChange(bytes.toBase64());
    setName(file.name);
  };
  const chosen = `${name === undefined ? "" : `${name}: `}${formatBytes(byteLengthOf(text))}, sent as base64`;
  const limit = `A file${schema.maxLength === undefined ? "" : ` of at most ${formatBytes(maxBytes)}`}, sent as base64`;
  return (
    <Field
      label={labelOf(props, schema)}
      error={error}
      hint={[schema.description, text === "" ? limit : chosen].filter((part) => part !== undefined).join(". ")}
    >
      {(ids) => (
        <input
          {...ids}
          type="file"
          aria-invalid={error !== undefined}
          {...(schema.contentMediaType === undefined ? {} : { accept: schema.contentMediaType })}
          onChange={(event) => choose(event.currentTarget)}
        />
      )}
    </Field>
  );
}

export function TextPart(props: PartProps): JSX.Element {
  const { schema, value, onChange } = props;
  const label = labelOf(props, schema);
  const text = typeof value === "string" ? value : "";
  const types: { readonly [format: string]: string } = {
    date: "date",
    email: "email",
    uri: "url",
    url: "url",
  };
  const examples: { readonly [format: string]: string } = { "date-time": "2026-01-31T12:00:00Z", time: "12:00:00Z" };
  const example = examples[schema.format ?? ""];
  const isLong = (schema.maxLength ?? 0) > LONG_TEXT || text.includes("\n") || text.length > LONG_TEXT;
  return (
    <TextField
      label={label}
      value={text}
      onInput={onChange}
      hint={schema.description}
      type={types[schema.format ?? ""] ?? "text"}
      {...(isLong ? { rows: 4 } : {})}
      {...(example === undefined ? {} : { placeholder: example })}
    />
  );
}

export function NumberPart(props: PartProps): JSX.Element {
  const { schema, value, onChange } = props;
  const [text, setText] = useState(() => (typeof value === "number" ? String(value) : ""));
  const isInteger = schema.type === "integer";
  const bounds = [
    schema.minimum === undefined ? undefined : `at least ${schema.minimum}`,
    schema.maximum === undefined ? undefined : `at most ${schema.maximum}`,
  ].filter((part) => part !== undefined);
  const written = readNumber(text);
  const isRounded = written?.isExact === false;
  const hints = [schema.description, bounds.join(", "), isRounded ? `Sent as ${written?.value}` : undefined];
  return (
    <TextField
      label={labelOf(props, schema)}
      value={text}
      error={numberError(text, { schema, isInteger, bounds })}
      hint={hints.filter((part) => part !== undefined && part !== "").join(". ")}
      onInput={(next) => {
        setText(next);
        const read = readNumber(next);
        if (read !== undefined && Number.isFinite(read.value)) onChange(read.value);
      }}
    />
  );
}

interface NumberRules {
  readonly schema: InputSchema;
  readonly isInteger: boolean;
  readonly bounds: readonly string[];
}

function numberError(text: string, { schema, isInteger, bounds }: NumberRules): string | undefined {
  const kind = isInteger ? "a whole number" : "a number";
  const written = readNumber(text);
  if (written === undefined || (isInteger && !written.isWhole)) return `Expected ${kind}`;
  const issue = digitsIssueOf(text, written);
  if (issue !== undefined) return issue;
  const { value } = written;
  const isWithin = value >= (schema.minimum ?? -Infinity) && value <= (schema.maximum ?? Infinity);
  return isWithin ? undefined : `Expected ${[kind, ...bounds].join(", ")}`;
}

export function EnumPart(props: PartProps): JSX.Element {
  const { schema, value, onChange } = props;
  const values = schema.enum ?? [];
  const options = values.map(
    (one) => [JSON.stringify(one), typeof one === "string" ? one : JSON.stringify(one)] as const,
  );
  const chosen = JSON.stringify(value);
  const isListed = options.some(([option]) => option === chosen);
  return (
    <SelectField
      label={labelOf(props, schema)}
      hint={schema.description}
      value={isListed ? chosen : ""}
      // The browser would show the first choice for a value that is none of them.
      options={isListed ? options : [["", "Choose"], ...options]}
      onInput={(text) => {
        if (text !== "") onChange(JSON.parse(text));
      }}
    />
  );
}
