// A form for the input of a tool, made from its JSON Schema: objects, lists, choices, formats, defaults, and files as bytes in base64.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { formatBytes, formatJson } from "../state/format.ts";
import { Tabs } from "./controls.tsx";
import { Checkbox, Field, SelectField, TextField } from "./fields.tsx";

export interface FormSchema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly properties?: { readonly [name: string]: FormSchema };
  readonly required?: readonly string[];
  readonly items?: FormSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly FormSchema[];
  readonly oneOf?: readonly FormSchema[];
  readonly allOf?: readonly FormSchema[];
  readonly prefixItems?: readonly FormSchema[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly default?: unknown;
  readonly format?: string;
  readonly contentEncoding?: string;
  readonly contentMediaType?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly maxLength?: number;
  readonly $ref?: string;
  readonly $defs?: { readonly [name: string]: FormSchema };
  readonly definitions?: { readonly [name: string]: FormSchema };
}

type Json = unknown;
type Change = (value: Json) => void;

const MAX_DEPTH = 8;
const LONG_TEXT = 200;
/** Items that a list begins with, whatever it requires. */
const MAX_ITEMS = 20;

/** Follows a reference within the document, and merges the parts of `allOf`. An unknown reference accepts anything. */
function resolve(schema: FormSchema, root: FormSchema, depth = 0): FormSchema {
  if (depth > MAX_DEPTH) return {};
  const { $ref, allOf = [], ...own } = schema;
  const defined = $ref === "#" ? root : definitionOf($ref ?? "", root);
  const parts = [...(defined === undefined ? [] : [defined]), ...allOf];
  return parts
    .map((part) => resolve(part, root, depth + 1))
    .reduceRight<FormSchema>((all, part) => merge(part, all), own);
}

/** Returns the part of the document that a JSON pointer such as `#/$defs/address` names. */
function definitionOf(reference: string, { $defs, definitions }: FormSchema): FormSchema | undefined {
  const [, pointer = ""] = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(reference) ?? [];
  const parts = $defs ?? definitions ?? {};
  const name = pointer.replaceAll("~1", "/").replaceAll("~0", "~");
  return [name, decodeText(name)].filter((one) => Object.hasOwn(parts, one)).map((one) => parts[one])[0];
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const merge = (one: FormSchema, other: FormSchema): FormSchema => ({
  ...one,
  ...other,
  ...(one.properties === undefined && other.properties === undefined
    ? {}
    : { properties: { ...one.properties, ...other.properties } }),
  ...(one.required === undefined && other.required === undefined
    ? {}
    : { required: [...(one.required ?? []), ...(other.required ?? [])] }),
});

/** A value that may be null is a choice between null and the rest. */
function choicesOf(schema: FormSchema): readonly FormSchema[] | undefined {
  const { type } = schema;
  if (!Array.isArray(type) || type.length < 2) return schema.anyOf ?? schema.oneOf;
  return type.map((one: string) => (one === "null" ? { type: one } : { ...schema, type: one }));
}

const typeOf = ({ type, properties, items, enum: values, const: constant }: FormSchema): string => {
  if (values !== undefined) return "enum";
  if (constant !== undefined) return "const";
  const [first = undefined] = typeof type === "string" ? [type] : (type?.filter((one) => one !== "null") ?? []);
  return first ?? (properties === undefined ? (items === undefined ? "any" : "array") : "object");
};

/** Returns the value that a form begins with. Optional parts are left out. */
export function initialValue(given: FormSchema, root: FormSchema = given, depth = 0): Json {
  const schema = resolve(given, root);
  if (schema.default !== undefined) return schema.default;
  const [first] = choicesOf(schema) ?? [];
  if (first !== undefined && depth < MAX_DEPTH) return initialValue(first, root, depth + 1);
  const type = typeOf(schema);
  if (type === "enum") return schema.enum?.[0];
  if (type === "const") return schema.const;
  if (type === "object" && depth < MAX_DEPTH) {
    const entries = Object.entries(schema.properties ?? {}).filter(([name]) => schema.required?.includes(name));
    return Object.fromEntries(entries.map(([name, part]) => [name, initialValue(part, root, depth + 1)]));
  }
  if (type === "array" && depth < MAX_DEPTH) {
    const { prefixItems = [], items = {}, minItems = 0 } = schema;
    const parts = Array.from({ length: Math.min(minItems, MAX_ITEMS) }, (_, index) => prefixItems[index] ?? items);
    return (prefixItems.length > parts.length ? prefixItems : parts).map((part) => initialValue(part, root, depth + 1));
  }
  const values: { readonly [type: string]: Json } = {
    string: "",
    number: 0,
    integer: 0,
    boolean: false,
    null: null,
  };
  return Object.hasOwn(values, type) ? values[type] : {};
}

interface InputFormProps {
  readonly schema: FormSchema;
  readonly value: Json;
  readonly onChange: Change;
}

/** The form, with JSON as the alternative. */
export function InputForm({ schema, value, onChange }: InputFormProps): JSX.Element {
  const [mode, setMode] = useState<string>(canRender(schema) ? "form" : "json");
  return (
    <div class="stack">
      <Tabs
        label="How to enter the input"
        tabs={[
          ["form", "Form"],
          ["json", "JSON"],
        ]}
        selected={mode}
        onSelect={setMode}
      />
      {mode === "form" ? (
        <Part name="Input" schema={schema} root={schema} value={value} onChange={onChange} depth={0} isRequired />
      ) : (
        <JsonField label="Input as JSON" value={value} onChange={onChange} />
      )}
    </div>
  );
}

function canRender(given: FormSchema): boolean {
  const schema = resolve(given, given);
  if (choicesOf(schema) !== undefined) return true;
  return typeOf(schema) === "object" && Object.keys(schema.properties ?? {}).length > 0;
}

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
      onChange(JSON.parse(next));
      setError(undefined);
    } catch (thrown) {
      setError(thrown instanceof Error ? thrown.message : "Expected JSON");
    }
  };
  return <TextField label={label} value={text} onInput={change} rows={8} error={error} />;
}

interface PartProps {
  readonly name: string;
  readonly schema: FormSchema;
  readonly root: FormSchema;
  readonly value: Json;
  readonly onChange: Change;
  readonly depth: number;
  readonly isRequired: boolean;
}

function Part(props: PartProps): JSX.Element {
  const schema = resolve(props.schema, props.root);
  const choices = choicesOf(schema);
  if (props.depth >= MAX_DEPTH) return <JsonField label={props.name} value={props.value} onChange={props.onChange} />;
  if (choices !== undefined) return <ChoicePart {...props} schema={schema} choices={choices} />;
  const type = typeOf(schema);
  if (type === "object" && schema.properties !== undefined) return <ObjectPart {...props} schema={schema} />;
  if (type === "array") return <ListPart {...props} schema={schema} />;
  if (type === "const") return <p class="faint">{`${props.name}: ${JSON.stringify(schema.const)}`}</p>;
  if (type === "enum") return <EnumPart {...props} schema={schema} />;
  if (type === "boolean") {
    return <Checkbox label={labelOf(props, schema)} isChecked={props.value === true} onInput={props.onChange} />;
  }
  if (type === "number" || type === "integer") return <NumberPart {...props} schema={schema} />;
  if (type === "string" && isBytes(schema)) return <FilePart {...props} schema={schema} />;
  if (type === "string") return <TextPart {...props} schema={schema} />;
  if (type === "null") return <p class="faint">null</p>;
  return <JsonField label={labelOf(props, schema)} value={props.value} onChange={props.onChange} />;
}

const labelOf = ({ name, isRequired }: PartProps, { title }: FormSchema): string =>
  `${title ?? name}${isRequired ? "" : " (optional)"}`;

/** Returns the number of bytes that a text in base64 stands for. */
const byteLengthOf = (base64: string): number => Math.floor((base64.replace(/=+$/, "").length * 3) / 4);

/** Largest file in bytes: its base64 has 64 MiB, and no server takes a larger body. Most take less (`maxBodyBytes`), and say so. */
const MAX_FILE_BYTES = 48 * 1024 * 1024;

/** Whether a text stands for bytes. `binary` is the name that OpenAPI 3.0 has for them. */
const isBytes = ({ contentEncoding, format }: FormSchema): boolean =>
  contentEncoding === "base64" || format === "byte" || format === "binary";

/** A file, which becomes text in base64. */
function FilePart(props: PartProps): JSX.Element {
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

function TextPart(props: PartProps): JSX.Element {
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

function NumberPart(props: PartProps): JSX.Element {
  const { schema, value, onChange } = props;
  const [text, setText] = useState(() => (typeof value === "number" ? String(value) : ""));
  const parsed = Number(text);
  const isInteger = schema.type === "integer";
  const isNumber = text.trim() !== "" && Number.isFinite(parsed) && (!isInteger || Number.isInteger(parsed));
  const isWithin = parsed >= (schema.minimum ?? -Infinity) && parsed <= (schema.maximum ?? Infinity);
  const bounds = [
    schema.minimum === undefined ? undefined : `at least ${schema.minimum}`,
    schema.maximum === undefined ? undefined : `at most ${schema.maximum}`,
  ].filter((part) => part !== undefined);
  return (
    <TextField
      label={labelOf(props, schema)}
      value={text}
      error={
        isNumber && isWithin
          ? undefined
          : `Expected ${[isInteger ? "a whole number" : "a number", ...(isNumber ? bounds : [])].join(", ")}`
      }
      hint={[schema.description, bounds.join(", ")].filter((part) => part !== undefined && part !== "").join(". ")}
      onInput={(next) => {
        setText(next);
        if (next.trim() !== "" && Number.isFinite(Number(next))) onChange(Number(next));
      }}
    />
  );
}

function EnumPart(props: PartProps): JSX.Element {
  const { schema, value, onChange } = props;
  const values = schema.enum ?? [];
  return (
    <SelectField
      label={labelOf(props, schema)}
      hint={schema.description}
      value={JSON.stringify(value)}
      options={values.map((one) => [JSON.stringify(one), typeof one === "string" ? one : JSON.stringify(one)])}
      onInput={(text) => onChange(JSON.parse(text))}
    />
  );
}

/** Whether a value looks like one of this schema: enough to choose a branch of a union. */
function fits(value: Json, schema: FormSchema): boolean {
  if (schema.const !== undefined) return schema.const === value;
  if (schema.enum !== undefined) return schema.enum.includes(value);
  const type = typeOf(schema);
  if (value === null || Array.isArray(value)) return type === (value === null ? "null" : "array");
  if (typeof value !== "object") return type === typeof value || (type === "integer" && Number.isInteger(value));
  const own = value as { readonly [name: string]: Json };
  return (
    type === "object" &&
    (schema.required ?? []).every((name) => Object.hasOwn(own, name)) &&
    Object.entries(schema.properties ?? {}).every(
      ([name, part]) => part.const === undefined || !Object.hasOwn(own, name) || part.const === own[name],
    )
  );
}

function ChoicePart(props: PartProps & { readonly choices: readonly FormSchema[] }): JSX.Element {
  const { choices, root, onChange, schema } = props;
  const [index, setIndex] = useState(() =>
    Math.max(
      0,
      choices.findIndex((one) => fits(props.value, resolve(one, root))),
    ),
  );
  const chosen = choices[index] ?? {};
  const names = choices.map((choice, at) => {
    const one = resolve(choice, root);
    const tag = Object.values(one.properties ?? {}).find(({ const: constant }) => constant !== undefined)?.const;
    return [String(at), String(one.title ?? tag ?? one.const ?? typeOf(one))] as const;
  });
  return (
    <fieldset>
      <legend>{labelOf(props, schema)}</legend>
      <SelectField
        label="Kind"
        value={String(index)}
        options={names}
        onInput={(text) => {
          setIndex(Number(text));
          onChange(initialValue(choices[Number(text)] ?? {}, root));
        }}
      />
      <Part key={index} {...props} name={names[index]?.[1] ?? props.name} schema={chosen} depth={props.depth + 1} />
    </fieldset>
  );
}

const shorten = (text: string): string => (text.length > 24 ? `${text.slice(0, 23)}…` : text);

function ObjectPart(props: PartProps): JSX.Element {
  const { schema, root, value, onChange, depth } = props;
  const current = typeof value === "object" && value !== null ? (value as { readonly [name: string]: Json }) : {};
  const entries = Object.entries(schema.properties ?? {});
  const isShown = ([name]: readonly [string, FormSchema]): boolean =>
    schema.required?.includes(name) === true || Object.hasOwn(current, name);
  const set = (name: string, next: Json): void => onChange({ ...current, [name]: next });
  const remove = (name: string): void => {
    const { [name]: _, ...others } = current;
    onChange(others);
  };
  const shown = entries.filter(isShown).map(([name, part]) => {
    const isRequired = schema.required?.includes(name) === true;
    return (
      <div key={name} class="form-part">
        <Part
          {...{ name, schema: part, root, isRequired, depth: depth + 1 }}
          value={current[name]}
          onChange={(next) => set(name, next)}
        />
        {isRequired ? null : (
          <button type="button" class="button quiet" aria-label={`Leave out ${name}`} onClick={() => remove(name)}>
            ✕
          </button>
        )}
      </div>
    );
  });
  const absent = entries.filter((entry) => !isShown(entry));
  const parts = (
    <>
      {shown}
      {absent.length === 0 ? null : (
        <div class="row">
          <span class="faint">Optional:</span>
          {absent.map(([name, part]) => (
            <button
              key={name}
              type="button"
              class="button plain small"
              title={part.description}
              onClick={() => set(name, initialValue(part, root))}
            >
              + {part.title ?? name}
              {part.default === undefined ? "" : ` (default ${shorten(JSON.stringify(part.default))})`}
            </button>
          ))}
        </div>
      )}
    </>
  );
  if (depth === 0) return <div class="stack">{parts}</div>;
  return (
    <fieldset>
      <legend>{labelOf(props, schema)}</legend>
      <div class="stack">{parts}</div>
    </fieldset>
  );
}

function ListPart(props: PartProps): JSX.Element {
  const { schema, root, value, onChange, depth } = props;
  const items: readonly Json[] = Array.isArray(value) ? value : [];
  const { prefixItems = [], maxItems } = schema;
  const partAt = (index: number): FormSchema => prefixItems[index] ?? schema.items ?? {};
  return (
    <fieldset>
      <legend>{labelOf(props, schema)}</legend>
      <div class="stack">
        {items.map((item, index) => (
          <div key={`${index} of ${items.length}`} class="form-part">
            <Part
              {...{ name: `${index + 1}`, schema: partAt(index), root, isRequired: true, depth: depth + 1 }}
              value={item}
              onChange={(next) => onChange(items.with(index, next))}
            />
            <button
              type="button"
              class="button quiet"
              aria-label={`Remove item ${index + 1}`}
              onClick={() => onChange(items.toSpliced(index, 1))}
            >
              ✕
            </button>
          </div>
        ))}
        <div>
          <button
            type="button"
            class="button plain small"
            disabled={maxItems !== undefined && items.length >= maxItems}
            onClick={() => onChange([...items, initialValue(partAt(items.length), root)])}
          >
            + Add
          </button>
        </div>
      </div>
    </fieldset>
  );
}
