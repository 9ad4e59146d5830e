// Loads the bundle, extracts its definition, and runs calls. Each of these entries ends with exactly one `done`.

import type { GuestOutcome, InvokeHeader } from "../protocol/guest-messages.ts";
import { forgetPending } from "./bridge.ts";
import { fromTextWithBytes, type PackedBytes } from "./bytes-text.ts";
import { beginCall, callState } from "./call-state.ts";
import { type ContextHandle, createContextHandle, reportRollback } from "./context.ts";
import { toGuestError, truncateText } from "./error-text.ts";
import { post, postWithBytes } from "./host.ts";
import { type Serialized, serialize, sizeOf } from "./json-output.ts";
import { warnAboutLost } from "./lost-values.ts";
import { toCallError } from "./missing-members.ts";
import { useBuiltin, usePlatformModule } from "./module-loader.ts";
import type * as Rollback from "./platform/capabilities/rollback.ts";
import type * as StreamOutput from "./platform/capabilities/stream-output.ts";
import {
  JSONParse,
  JSONStringify,
  ReflectApply,
  StringConstructor,
  SymbolAsyncIterator,
  secure,
  Uint8ArrayConstructor,
} from "./primordials.ts";
import { isStandardSchema, readIssues, type StandardResult, startCheck } from "./schema.ts";
import { clearAllTimers, resumeTimers } from "./timers.ts";
import { CONTENT } from "./tool.ts";
import {
  DEFINITION_FIELDS,
  type LoadedTool,
  misnamedFields,
  objectError,
  schemaError,
  schemaField,
  toLoadedTool,
} from "./tool-definition.ts";

/**
 * Function of a bundle's script: evaluates the tool's top-level code, which can load Node's built-ins, then registers the entry's
 * namespace.
 */
export type BundleFunction = (
  register: (namespace: object) => void,
  useBuiltin: (module: string, name: string) => unknown,
) => Promise<void>;

let tool: LoadedTool | undefined;

const NO_BYTES = new Uint8ArrayConstructor(0);

const done = (outcome: GuestOutcome, text: string): void => post("done", outcome, text);

/** Returns a failure of the prelude itself as the JSON text of a GuestError. */
const toErrorText = (name: string, message: string): string =>
  JSONStringify({ __proto__: null, name, message: truncateText(message, 1_000), stack: "" });

const reject = (message: string): void => done("rejected", toErrorText("Error", message));

/**
 * Evaluates the bundle.
 * @param newHeader InvokeHeader of the next calls, for which a warm-up call runs; empty for none
 */
export async function load(bundle: BundleFunction, newHeader: string): Promise<void> {
  try {
    let namespace: object | undefined;
    await bundle((entry) => {
      namespace = entry;
    }, useBuiltin);
    tool = toLoadedTool((namespace ?? {}) as { readonly [name: string]: unknown });
  } catch (thrown) {
    done("thrown", JSONStringify(toGuestError(thrown)));
    return;
  }
  callState.active = false;
  if (tool === undefined) {
    reject(
      "Expected the default export to be a function, or an object with an execute function: defineTool({ execute })",
    );
  } else if (newHeader === "" || (await secure(warmUp(newHeader)))) done("ready", "");
  else done("thrown", toErrorText("Error", "The warm-up call failed"));
}

/** Posts the tool's definition. */
export function describe(): void {
  callState.active = true;
  try {
    const { fields } = tool as LoadedTool;
    const error = schemaError(fields, "inputSchema") ?? schemaError(fields, "outputSchema") ?? objectError(fields);
    if (error !== undefined) {
      reject(error);
      return;
    }
    const definition: { [name: string]: unknown } = { __proto__: null } as unknown as { [name: string]: unknown };
    for (let index = 0; index < DEFINITION_FIELDS.length; index += 1) {
      const name = DEFINITION_FIELDS[index] as string;
      if (fields[name] !== undefined) definition[name] = fields[name];
    }
    definition.description ??= "";
    definition.inputSchema = schemaField(fields, "inputSchema") ?? { __proto__: null, type: "object" };
    const outputSchema = schemaField(fields, "outputSchema");
    if (outputSchema !== undefined) definition.outputSchema = outputSchema;
    const misnamed = misnamedFields(fields);
    if (misnamed.length > 0) definition.misnamed = misnamed;
    const { text, bytes, problem } = serialize(definition);
    if (bytes !== undefined) reject("The tool's definition is not JSON. Expected a JSON value, got one with bytes");
    else if (text !== undefined) done("output", text);
    else reject(`The tool's definition is not JSON. ${problem}`);
  } catch (thrown) {
    done("thrown", JSONStringify(toGuestError(thrown)));
  } finally {
    callState.active = false;
  }
}

/**
 * Outcome of a call. {@link run} fills it instead of returning it, because `await` would read `then`, which a tool may have put on a
 * prototype.
 */
interface Ending {
  outcome: GuestOutcome;
  text: string;
  /** Bytes of the output. */
  bytes: PackedBytes | undefined;
  content: Extract<Serialized, { text: string }> | undefined;
}

const newEnding = (): Ending => ({ outcome: "thrown", text: "", bytes: undefined, content: undefined });

/** Arguments of a call. */
interface Invocation {
  readonly inputText: string;
  readonly inputBytes: PackedBytes | undefined;
  /** Whether to send chunks as they are produced. */
  readonly isStreamed: boolean;
}

const PLAIN: Invocation = { inputText: "{}", inputBytes: undefined, isStreamed: false };

/** Returns whether a value is an async iterable, such as an async generator or a ReadableStream. */
export function isStream(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  return typeof (value as { readonly [SymbolAsyncIterator]?: unknown })[SymbolAsyncIterator] === "function";
}

/** Validates the input, runs `execute`, and validates the output. Awaits only values that come from tool code. */
async function run(
  { outputBytes }: InvokeHeader,
  { inputText, inputBytes, isStreamed }: Invocation,
  context: ContextHandle,
  ending: Ending,
): Promise<void> {
  const end = (outcome: GuestOutcome, text: string): void => {
    ending.outcome = outcome;
    ending.text = text;
  };
  try {
    const { execute, receiver, fields } = tool as LoadedTool;
    const { inputSchema, outputSchema } = fields;
    let value: unknown = inputBytes === undefined ? JSONParse(inputText) : fromTextWithBytes(inputText, inputBytes);
    if (isStandardSchema(inputSchema)) {
      const checked = (await startCheck(inputSchema, value)) as StandardResult;
      const issues = readIssues(checked);
      if (issues !== undefined) return end("input", issues);
      ({ value } = checked as { readonly value: unknown });
    }
    value = await (ReflectApply(execute, receiver, [value, context.ctx]) as unknown);
    let sent = 0;
    if (isStream(value)) {
      const { beginStream, readStream } = usePlatformModule("stream-output") as typeof StreamOutput;
      const streaming = beginStream(isStreamed, outputBytes);
      await secure(readStream(value, streaming));
      if (streaming.fault === "too-large") return end("too-large", StringConstructor(streaming.size));
      if (streaming.fault !== "") return end("unserializable", toErrorText("TypeError", streaming.problem));
      if (streaming.isBare && isStreamed) return end("streamed", "");
      ({ value } = streaming);
      // Collected chunks are the output itself, so they count only once.
      sent = streaming.isBare ? 0 : streaming.size;
    }
    let parts: unknown;
    if (typeof value === "object" && value !== null && CONTENT in value) {
      parts = (value as { readonly [CONTENT]: unknown })[CONTENT];
      value = (value as { readonly output?: unknown }).output;
    }
    if (isStandardSchema(outputSchema)) {
      const checked = (await startCheck(outputSchema, value)) as StandardResult;
      const issues = readIssues(checked);
      if (issues !== undefined) return end("output-schema", issues);
      ({ value } = checked as { readonly value: unknown });
    }
    const { text, bytes, problem } = serialize(value);
    if (text === undefined) return end("unserializable", toErrorText("TypeError", problem));
    warnAboutLost("The output", value, text);
    const content = parts === undefined ? undefined : serialize(parts);
    if (content !== undefined && content.text === undefined) {
      return end("unserializable", toErrorText("TypeError", `The content: ${content.problem}`));
    }
    const size = sent + sizeOf(text, bytes) + (content === undefined ? 0 : sizeOf(content.text, content.bytes));
    if (size > outputBytes) return end("too-large", StringConstructor(size));
    end("output", text);
    ending.bytes = bytes;
    ending.content = content;
  } catch (thrown) {
    end("thrown", JSONStringify(toCallError(thrown)));
  }
}

/** Posts the `done` of a call. */
function finish({ outcome, text, bytes, content }: Ending): void {
  if (outcome !== "output" || (bytes === undefined && content === undefined)) {
    done(outcome, text);
    return;
  }
  const header = bytes?.header ?? "";
  const data = bytes?.data ?? NO_BYTES;
  const { text: contentText, bytes: contentBytes } = content ?? { text: undefined, bytes: undefined };
  postWithBytes("done", outcome, text, header, data, contentText, contentBytes?.header, contentBytes?.data);
}

let header: InvokeHeader | undefined;

let tenantId = "";

/** Tool of the warm-up call. */
const WARM_UP_TOOL: LoadedTool = { receiver: undefined, execute: (input) => input, fields: {} };

/** Runs a warm-up call without the tool, so that the prelude's code is compiled before the first call. Returns false if it fails. */
async function warmUp(newHeader: string): Promise<boolean> {
  header = JSONParse(newHeader) as InvokeHeader;
  const loaded = tool;
  tool = WARM_UP_TOOL;
  beginCall(header);
  const context = createContextHandle(header, "", "");
  const ending = newEnding();
  await secure(run(header, PLAIN, context, ending));
  callState.active = false;
  forgetPending();
  context.end();
  tool = loaded;
  return ending.outcome === "output";
}

/** Whether the call is being rolled back; the end of its own code is then ignored. */
let isRollingBack = false;

export function holdEnds(): void {
  isRollingBack = true;
}

/** Rolls the call back. The host ends it once the journal contains the last step. */
export function rollBack(timeoutMs: number): void {
  const { rollBack: run } = usePlatformModule("rollback") as typeof Rollback;
  const forget = (): void => {
    forgetPending();
    clearAllTimers();
  };
  void secure(run(reportRollback(callState.serial), forget, timeoutMs));
}

/** Runs a call. The worker sends header and tenant only if they differ from those of the previous call. */
export async function invoke(
  inputText: string,
  callId: string,
  newHeader: string | undefined,
  newTenantId: string | undefined,
  isStreamed: boolean,
  inputBytes: PackedBytes | undefined,
): Promise<void> {
  if (newHeader !== undefined) header = JSONParse(newHeader) as InvokeHeader;
  if (newTenantId !== undefined) tenantId = newTenantId;
  if (header === undefined) return;
  beginCall(header);
  const isContinued = header.isContinued === true;
  if (isContinued) resumeTimers();
  const context = createContextHandle(header, callId, tenantId);
  const ending = newEnding();
  await secure(run(header, { inputText, inputBytes, isStreamed }, context, ending));
  if (isRollingBack) return;
  callState.active = false;
  if (!isContinued) clearAllTimers();
  forgetPending(isContinued);
  finish(ending);
  context.end();
}
