// Checks what callers pass to durable runs, before anything of it is stored: the same kinds and sizes as the arguments of a call.
import type * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { unknownOptionError } from "../config/option-errors.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { checkJsonBytes } from "../json/parse-json.ts";
import { INPUT_CODES, serializeArguments } from "../pipeline/serialize-arguments.ts";
import { inputBounds } from "../pipeline/validate.ts";
import type { RunHost } from "./claimed-run.ts";
import type { RunStarter } from "./run-options.ts";
import type { SignalSchema } from "./run-signal.ts";

/** Returns the limits of a run's arguments: the tenant's, which the limits of the tool can lower. */
export async function inputBoundsOf(
  { tenants, registry }: RunHost["router"],
  tenantId: string,
  toolName: string,
): Promise<JsonTextLimits> {
  const policy = await tenants.whenKnown(tenantId);
  const tool = registry.get(toolName, tenantId);
  return tool === undefined ? policy.inputBounds : inputBounds(policy.inputBounds, tool);
}

/**
 * Returns a value as JSON text. Absent arguments are `{}`.
 * @param where path of the value in messages
 * @param what name of the value in messages about its size
 * @throws {ToolError} PARAM_INVALID for a value that is not JSON, contains bytes, or exceeds the limits
 */
export function toInputText(value: unknown, bounds: JsonTextLimits, where: string, what: string): string {
  const { text, bytes } = serializeArguments({ arguments: value }, bounds, what, where);
  if (bytes !== undefined)
    throw new ToolError("PARAM_INVALID", `${where}: Expected JSON, got bytes. Pass them as base64`);
  checkJsonBytes(text.length, bounds, INPUT_CODES, what);
  return text;
}

type Signal = z.output<typeof SignalSchema>;

/**
 * Returns a signal with a checked copy of its value.
 * @throws {ToolError} PARAM_INVALID for a value that is not JSON, or that exceeds the limits
 */
export function copySignal(signal: Signal, bounds: JsonTextLimits): Signal {
  const copy = (value: unknown, where: string): unknown =>
    JSON.parse(toInputText(value, bounds, where, `The value of ${where}`));
  if ("event" in signal) return { ...signal, value: copy(signal.value ?? null, "signal.value") };
  if (!("elicitation" in signal) || signal.content === undefined) return signal;
  return { ...signal, content: copy(signal.content, "signal.content") };
}

const STARTER_KEYS: readonly string[] = ["client", "answers", "isOpen"];
const ANSWERS: readonly unknown[] = [undefined, "keyed", "all"];

/** @throws {ToolError} PARAM_INVALID for anything but a {@link RunStarter} */
export function checkStarter(starter: RunStarter | undefined): void {
  if (starter === undefined) return;
  if (!isPlainObject(starter))
    throw new ToolError("PARAM_INVALID", `starter: Expected a plain object, got ${describeKind(starter)}`);
  const unknown = Object.keys(starter).find((key) => !STARTER_KEYS.includes(key));
  if (unknown !== undefined) throw unknownOptionError("starter", unknown, STARTER_KEYS);
  if (!ANSWERS.includes(starter.answers))
    throw new ToolError("PARAM_INVALID", 'starter.answers: Expected "keyed" or "all"');
  if (typeof starter.isOpen !== "function") throw new ToolError("PARAM_INVALID", "starter.isOpen: Expected a function");
  const client: unknown = starter.client;
  if (typeof client !== "object" || client === null || typeof starter.client.elicit !== "function")
    throw new ToolError("PARAM_INVALID", "starter.client: Expected an object with the method elicit");
}
