// What a tool requests of each capability: the `capabilities` of its definition. A setting of a built-in capability that is malformed is
// rejected wherever a definition is accepted, because a reader that ignored it would grant the tool more than its author wrote.
import * as z from "zod";
import { BUILTIN_CAPABILITY_NAMES } from "./capability-names.ts";
import { ENGINE_FEATURE_NAMES } from "./engine-features.ts";
import type { JsonValue } from "./errors.ts";
import { describeKind, isPlainObject } from "./value-kind.ts";

/** Capabilities that a tool requests, by name, each with its settings. The host decides which it grants. */
export type CapabilityRequests = { readonly [name: string]: JsonValue };

/** Capabilities whose setting may be a list that narrows what the tool gets, with what the list contains. */
const LISTS: { readonly [name: string]: string } = {
  fetch: 'hosts, such as ["api.example.com"]',
  secrets: 'names, such as ["API_KEY"]',
  tools: 'tool names, such as ["text__*"]',
};
const BUILTIN_NAMES: ReadonlySet<string> = new Set([...BUILTIN_CAPABILITY_NAMES, ...ENGINE_FEATURE_NAMES]);
/** The names are sent to each worker process that runs the tool; a protocol message carries at most 256. */
const MAX_CAPABILITY_REQUESTS = 64;

const isUnrestricted = (setting: unknown): boolean =>
  setting === true || (isPlainObject(setting) && Object.keys(setting).length === 0);
const isTextList = (setting: unknown): boolean =>
  Array.isArray(setting) && setting.every((item) => typeof item === "string");

/** Returns what is wrong with the setting of a capability; undefined if nothing is. Settings of a host's capability are the host's to check. */
function findIssue(name: string, setting: JsonValue): string | undefined {
  if (!BUILTIN_NAMES.has(name) || isUnrestricted(setting)) return undefined;
  const list = Object.hasOwn(LISTS, name) ? LISTS[name] : undefined;
  if (list !== undefined && isTextList(setting)) return undefined;
  const given = typeof setting === "string" ? JSON.stringify(setting.slice(0, 100)) : describeKind(setting);
  const expected = list === undefined ? "true or {}" : `true, {} or a list of ${list}`;
  return `Expected ${expected}, got ${Array.isArray(setting) && list !== undefined ? "a list with other values" : given}`;
}

export const CapabilityRequestsSchema: z.ZodType<CapabilityRequests> = z
  .record(z.string().max(64), z.json())
  .refine(
    (requests) => Object.keys(requests).length <= MAX_CAPABILITY_REQUESTS,
    `Expected at most ${MAX_CAPABILITY_REQUESTS} capabilities`,
  )
  .transform((requests, context) => {
    // A built-in capability that is set to false is not requested: the key would otherwise grant it to a host's own tool.
    const made = Object.entries(requests).filter(([name, setting]) => setting !== false || !BUILTIN_NAMES.has(name));
    for (const [name, setting] of made as [string, JsonValue][]) {
      const message = findIssue(name, setting);
      if (message !== undefined) context.addIssue({ code: "custom", path: [name], message });
    }
    return Object.fromEntries(made);
  }) as unknown as z.ZodType<CapabilityRequests>;

/**
 * Returns the list that a tool's request narrows a built-in capability to; undefined if the request does not narrow it. A request that is
 * malformed allows nothing.
 */
export function readRequestedList(requested: CapabilityRequests, name: string): readonly JsonValue[] | undefined {
  const setting = Object.hasOwn(requested, name) ? requested[name] : undefined;
  if (setting === undefined || isUnrestricted(setting)) return undefined;
  return Array.isArray(setting) ? setting : [];
}
