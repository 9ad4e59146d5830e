// What a durable run waits for, and the parser of what a tool passes to `ctx.waitFor`.
import * as z from "zod";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { KeyedElicitRequestSchema } from "../contract/client-requests.ts";
import { formatIssues } from "../json/format-issues.ts";
import { type CompiledSchema, compileSchema } from "../json-schema/compile-schema.ts";

/** What a suspended run waits for. */
export interface RunWait {
  /** Position of the request in the run, which identifies the wait. */
  readonly id: number;
  readonly kind: "event" | "approval" | "duration" | "elicitation";
  /** Name of the event. */
  readonly name?: string | undefined;
  /** What a person is to approve, to fill in, or to visit. */
  readonly message?: string | undefined;
  /** JSON Schema of the form to fill in. */
  readonly requestedSchema?: JsonSchema | undefined;
  /** For the approval of a call: name and digest of the tool. */
  readonly toolName?: string | undefined;
  /** For the approval of a call: its arguments. Left out above 16,384 UTF-16 code units of JSON. */
  readonly input?: JsonValue | undefined;
  readonly toolDigest?: string | undefined;
  /** Page to visit. */
  readonly url?: string | undefined;
  /** Time in ms since 1970 at which the wait ends by itself. */
  readonly until?: number | undefined;
}

const YEAR_MS = 366 * 86_400_000;
const duration = z.int().min(0).max(YEAR_MS);

/** What a tool passes to `ctx.waitFor`, by the property that says what it waits for. */
const WAIT_INPUTS = {
  event: z.strictObject({ event: z.string().min(1).max(200), timeoutMs: duration.optional() }),
  approval: z.strictObject({ approval: z.string().min(1).max(2_000), timeoutMs: duration.optional() }),
  durationMs: z.strictObject({ durationMs: duration }),
} as const;

/** @throws {ToolError} PARAM_INVALID for an input of another form */
export function parseWait(id: number, text: string, now: number): RunWait {
  const input = parseInput(text, "waitFor");
  const kind = (Object.keys(WAIT_INPUTS) as (keyof typeof WAIT_INPUTS)[]).find(
    (name) => isPlainObject(input) && Object.hasOwn(input, name),
  );
  if (kind === undefined) {
    const expected = "Expected { event: NAME }, { approval: QUESTION } or { durationMs: NUMBER }";
    throw new ToolError("PARAM_INVALID", `The input of capability waitFor: ${expected}, got ${describeKind(input)}`);
  }
  const parsed = WAIT_INPUTS[kind].safeParse(input);
  if (!parsed.success) {
    const issues = parsed.error.issues
      .slice(0, 3)
      .map(({ path, message }) => ({ pointer: `/${path.join("/")}`, message }));
    throw new ToolError("PARAM_INVALID", `The input of capability waitFor: ${formatIssues(issues)}`);
  }
  const { data } = parsed;
  if ("durationMs" in data) return { id, kind: "duration", until: now + data.durationMs };
  const until = data.timeoutMs === undefined ? {} : { until: now + data.timeoutMs };
  return "event" in data
    ? { id, kind: "event", name: data.event, ...until }
    : { id, kind: "approval", message: data.approval, ...until };
}

/** @throws {ToolError} PARAM_INVALID for an invalid form */
export function parseElicitation(id: number, text: string): RunWait {
  const parsed = KeyedElicitRequestSchema.safeParse(parseInput(text, "elicit"));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new ToolError("PARAM_INVALID", `The input of capability elicit: ${issue?.message ?? "invalid"}`);
  }
  const { message } = parsed.data;
  if (!("requestedSchema" in parsed.data)) return { id, kind: "elicitation", message, url: parsed.data.url };
  const requestedSchema = parsed.data.requestedSchema as unknown as JsonSchema;
  compileForm(requestedSchema);
  return { id, kind: "elicitation", message, requestedSchema };
}

/** A person's answer to an elicitation, as in MCP. */
export interface ElicitationAnswer {
  readonly action: "accept" | "decline" | "cancel";
  readonly content?: JsonValue | undefined;
}

/** Validates the answer to a form. @throws {ToolError} PARAM_INVALID if it does not match the form */
export function checkElicited({ requestedSchema }: RunWait, { action, content }: ElicitationAnswer): ElicitationAnswer {
  if (action !== "accept" || requestedSchema === undefined) return { action };
  const outcome = compileForm(requestedSchema).validate(content ?? {});
  if (outcome.valid) return { action, content: content ?? {} };
  const issues = outcome.stopped ? outcome.message : formatIssues(outcome.issues);
  throw new ToolError("PARAM_INVALID", `The content of the answer does not match requestedSchema: ${issues}`);
}

const compileForm = (schema: JsonSchema): CompiledSchema =>
  compileSchema(schema, { code: "PARAM_INVALID", subject: "requestedSchema" });

/** Longest request that is parsed, in UTF-16 code units: parsing blocks the event loop, and the guest chooses the text. */
const MAX_REQUEST_LENGTH = 128 * 1024;

/** Parses what a tool passes to a capability. Returns undefined for text that is too long, or invalid. */
export function parseRequest(text: string): unknown {
  if (text.length > MAX_REQUEST_LENGTH) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** @throws {ToolError} PARAM_INVALID for text that is too long */
function parseInput(text: string, capability: string): unknown {
  if (text.length <= MAX_REQUEST_LENGTH) return parseRequest(text);
  const message = `The input of capability ${capability} has more than ${MAX_REQUEST_LENGTH} characters`;
  throw new ToolError("PARAM_INVALID", message);
}
