// A form for the input of a tool, made from its JSON Schema: objects, lists, choices, formats, defaults, and files as bytes in base64.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Tabs } from "../controls.tsx";
import { Checkbox, SelectField } from "../forms/fields.tsx";
import {
  canRender,
  choicesOf,
  fits,
  type InputSchema,
  initialValue,
  isBytes,
  isSmall,
  type Json,
  MAX_DEPTH,
  namesOf,
  resolve,
  switchedValue,
  typeOf,
} from "./form-schema.ts";
import {
  type Change,
  EnumPart,
  FilePart,
  JsonField,
  labelOf,
  NumberPart,
  type PartProps,
  TextPart,
} from "./value-fields.tsx";

interface InputFormProps {
  readonly schema: InputSchema;
  readonly value: Json;
  readonly onChange: Change;
}

/** The form, with JSON as the alternative. */
export function InputForm({ schema, value, onChange }: InputFormProps): JSX.Element {
  const [mode, setMode] = useState<string>(() => (canRender(schema) && isSmall(value) ? "form" : "json"));
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

function ChoicePart(props: PartProps & { readonly choices: readonly InputSchema[] }): JSX.Element {
  const { choices, root, onChange, schema } = props;
  const [index, setIndex] = useState(() =>
    Math.max(
      0,
      choices.findIndex((one) => fits(props.value, resolve(one, root))),
    ),
  );
  const chosen = choices[index] ?? {};
  const names = namesOf(choices, root);
  return (
    <fieldset>
      <legend>{labelOf(props, schema)}</legend>
      <SelectField
        label="Kind"
        value={String(index)}
        options={names.map((name, at) => [String(at), name])}
        onInput={(text) => {
          setIndex(Number(text));
          onChange(switchedValue(props.value, schema, choices[Number(text)] ?? {}, root));
        }}
      />
      <Part key={index} {...props} name={names[index] ?? props.name} schema={chosen} depth={props.depth + 1} />
    </fieldset>
  );
}

const shorten = (text: string): string => (text.length > 24 ? `${text.slice(0, 23)}…` : text);

function ObjectPart(props: PartProps): JSX.Element {
  const { schema, root, value, onChange, depth } = props;
  const current = typeof value === "object" && value !== null ? (value as { readonly [name: string]: Json }) : {};
  const entries = Object.entries(schema.properties ?? {});
  const isRequired = (name: string): boolean => schema.required?.includes(name) === true;
  const set = (name: string, next: Json): void => onChange({ ...current, [name]: next });
  const remove = (name: string): void => {
    const { [name]: _, ...others } = current;
    onChange(others);
  };
  const shown = entries
    .filter(([name]) => Object.hasOwn(current, name))
    .map(([name, part]) => (
      <div key={name} class="form-part">
        <Part
          name={name}
          schema={part}
          root={root}
          isRequired={isRequired(name)}
          depth={depth + 1}
          value={current[name]}
          onChange={(next) => set(name, next)}
        />
        {isRequired(name) ? null : (
          <button type="button" class="button quiet" aria-label={`Leave out ${name}`} onClick={() => remove(name)}>
            ✕
          </button>
        )}
      </div>
    ));
  // A field would look as if its value was sent: that of an input for an earlier version can be missing.
  const absent = entries.filter(([name]) => !Object.hasOwn(current, name));
  const toAdd = (title: string, parts: typeof entries): JSX.Element | null =>
    parts.length === 0 ? null : (
      <div class="row">
        <span class="faint">{title}:</span>
        {parts.map(([name, part]) => (
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
    );
  const missing = absent.filter(([name]) => isRequired(name));
  const optional = absent.filter(([name]) => !isRequired(name));
  const parts = (
    <>
      {shown}
      {toAdd("Missing", missing)}
      {toAdd("Optional", optional)}
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
  const partAt = (index: number): InputSchema => prefixItems[index] ?? schema.items ?? {};
  return (
    <fieldset>
      <legend>{labelOf(props, schema)}</legend>
      <div class="stack">
        {items.map((item, index) => (
          <div key={`${index} of ${items.length}`} class="form-part">
            <Part
              name={`${index + 1}`}
              schema={partAt(index)}
              root={root}
              isRequired={true}
              depth={depth + 1}
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
