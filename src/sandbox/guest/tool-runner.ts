// Loads the bundle, tells its definition, and runs a call. Every entry ends in exactly one `done`.
import type { GuestOutcome, InvokeHeader } from "../guest-protocol.ts";
import { forgetPending } from "./bridge.ts";
import { beginCall, callState } from "./call-state.ts";
import { type CallContext, createCallContext } from "./context.ts";
import { capText, describeValue, toGuestError } from "./error-text.ts";
import { post } from "./host.ts";
import { serialize } from "./json-output.ts";
import { JSONParse, JSONStringify, ReflectApply, StringConstructor } from "./primordials.ts";
import { check, isStandardSchema, toJsonSchema } from "./schema.ts";
import { clearAllTimers } from "./timers.ts";

/** A bundle's script: evaluates the tool's top level, then hands over the entry's namespace. */
export type BundleFunction = (register: (namespace: object) => void) => Promise<void>;

interface LoadedTool {
  readonly receiver: unknown;
  readonly execute: (input: unknown, ctx: unknown) => unknown;
  readonly fields: { readonly [name: string]: unknown };
}

const DEFINITION_FIELDS = ["name", "description", "annotations", "capabilities", "limits"] as const;
let tool: LoadedTool | undefined;

const done = (outcome: GuestOutcome, text: string): void => post("done", outcome, text);

function refuse(message: string): void {
  done("refused", JSONStringify({ __proto__: null, name: "Error", message, stack: "" }));
}

/** The two forms of a tool: a default export with `execute`, or a plain function beside named exports. */
function toLoadedTool(namespace: { readonly [name: string]: unknown }): LoadedTool | undefined {
  let main = namespace.default;
  // `module.exports = { default: … }` of a CommonJS file arrives one level deeper.
  if (typeof main === "object" && main !== null && !("execute" in main) && "default" in main) main = main.default;
  if (typeof main === "function" && !isStandardSchema(main)) {
    return { receiver: undefined, execute: main as LoadedTool["execute"], fields: namespace };
  }
  if (typeof main !== "object" || main === null) return undefined;
  const fields = main as { readonly [name: string]: unknown };
  const execute = fields.execute;
  if (typeof execute !== "function") return undefined;
  return { receiver: main, execute: execute as LoadedTool["execute"], fields };
}

export async function load(bundle: BundleFunction): Promise<void> {
  try {
    let namespace: object | undefined;
    await bundle((entry) => {
      namespace = entry;
    });
    tool = toLoadedTool((namespace ?? {}) as { readonly [name: string]: unknown });
  } catch (thrown) {
    done("thrown", JSONStringify(toGuestError(thrown)));
    return;
  }
  callState.active = false;
  if (tool === undefined) {
    refuse(
      "Expected the default export to be a function, or an object with an execute function: defineTool({ execute })",
    );
  } else done("ready", "");
}

/** Schemas as a library states them may be functions; a definition's must be an object. */
function schemaField(fields: LoadedTool["fields"], name: "inputSchema" | "outputSchema"): unknown {
  const schema = fields[name];
  if (schema === undefined) return undefined;
  if (isStandardSchema(schema)) return toJsonSchema(schema, name === "inputSchema" ? "input" : "output");
  if (typeof schema === "object" && schema !== null) return schema;
  throw new TypeError(`Expected ${name} to be a Standard Schema or a JSON Schema object, got ${describeValue(schema)}`);
}

export function describe(): void {
  callState.active = true;
  try {
    const { fields } = tool as LoadedTool;
    const definition: { [name: string]: unknown } = { __proto__: null } as unknown as { [name: string]: unknown };
    for (let index = 0; index < DEFINITION_FIELDS.length; index += 1) {
      const name = DEFINITION_FIELDS[index] as string;
      if (fields[name] !== undefined) definition[name] = fields[name];
    }
    definition.description ??= "";
    definition.inputSchema = schemaField(fields, "inputSchema") ?? { type: "object" };
    const outputSchema = schemaField(fields, "outputSchema");
    if (outputSchema !== undefined) definition.outputSchema = outputSchema;
    const serialized = serialize(definition);
    if ("text" in serialized) done("output", serialized.text);
    else refuse(`The tool's definition is not JSON. ${serialized.problem}`);
  } catch (thrown) {
    done("thrown", JSONStringify(toGuestError(thrown)));
  } finally {
    callState.active = false;
  }
}

/** Runs `execute` between the two checks, and says how it ended. */
async function run(header: InvokeHeader, inputText: string, context: CallContext): Promise<[GuestOutcome, string]> {
  const { execute, receiver, fields } = tool as LoadedTool;
  const input = await check(fields.inputSchema, JSONParse(inputText));
  if ("issues" in input) return ["input", JSONStringify(input.issues)];
  const returned: unknown = await (ReflectApply(execute, receiver, [input.value, context.ctx]) as unknown);
  const output = await check(fields.outputSchema, returned);
  if ("issues" in output) return ["output-schema", JSONStringify(output.issues)];
  const serialized = serialize(output.value);
  if ("problem" in serialized) {
    const message = capText(serialized.problem, 1_000);
    return ["unserializable", JSONStringify({ __proto__: null, name: "TypeError", message, stack: "" })];
  }
  if (serialized.text.length > header.outputBytes) return ["too-large", StringConstructor(serialized.text.length)];
  return ["output", serialized.text];
}

let header: InvokeHeader | undefined;
let lastHeaderText = "";

/** @param headerText the same from call to call of one tool, so it is parsed once */
export async function invoke(headerText: string, inputText: string, callId: string, tenantId: string): Promise<void> {
  if (header === undefined || headerText !== lastHeaderText) {
    header = JSONParse(headerText) as InvokeHeader;
    lastHeaderText = headerText;
  }
  beginCall(header);
  const context = createCallContext(header, callId, tenantId);
  let outcome: [GuestOutcome, string];
  try {
    outcome = await run(header, inputText, context);
  } catch (thrown) {
    outcome = ["thrown", JSONStringify(toGuestError(thrown))];
  }
  callState.active = false;
  clearAllTimers();
  forgetPending();
  done(outcome[0], outcome[1]);
  context.end();
}
