// The context of an agent's calls: parsed strictly, and merged from the agent's and the run's. A run can never move the calls of an agent
// to another tenant, neither by omitting the tenant nor by naming another one.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import type { CallContext } from "../../contract/tool-call.ts";
import { readExplicitContext } from "../../pipeline/read-context.ts";
import { tenancyOf } from "../../tenants/tenancy.ts";
import { definedFields, mergeDefined } from "../../util/merge-defined.ts";

/** Fields of a CallContext that the agent sets for each call. */
type OwnField =
  | "signal"
  | "onLog"
  | "onProgress"
  | "stepId"
  | "deterministic"
  | "replay"
  | "run"
  | "toolDigest"
  | "toolVersion";

/** The tenant and the settings of all calls of a run, as for `router.execute`. The agent sets the other fields of a CallContext itself. */
export type AgentContext = Omit<CallContext, OwnField>;

const field = z.unknown().optional();

const contextFields = {
  tenantId: field,
  executionId: field,
  sessionId: field,
  traceparent: field,
  tracestate: field,
  timeoutMs: field,
  client: field,
  arguments: field,
  logSourceLocations: field,
  timeline: field,
  nestedCalls: field,
  callerQuotas: field,
  record: field,
} satisfies Record<keyof AgentContext, z.ZodType>;

const reserved = (why: string): z.ZodType => z.never({ error: `The agent sets this field itself: ${why}` }).optional();

/** Checks the keys only; {@link readExplicitContext} checks the values, as for every call. */
export const ContextSchema: z.ZodType<AgentContext> = strictObject({
  ...contextFields,
  signal: reserved("pass signal next to context"),
  onLog: reserved("use stream() and its events"),
  onProgress: reserved("use stream() and its events"),
  stepId: reserved("it counts the steps"),
  deterministic: reserved("it does not repeat calls"),
  replay: reserved("it does not repeat calls"),
  run: reserved("it does not start durable runs"),
  toolDigest: reserved("it binds each call to the tool that was offered"),
  toolVersion: reserved("the release of each tool decides"),
}) as unknown as z.ZodType<AgentContext>;

const CallContextSchema: z.ZodType<CallContext> = strictObject({
  ...contextFields,
  signal: field,
  onLog: field,
  onProgress: field,
  stepId: field,
  deterministic: field,
  replay: field,
  run: field,
  toolDigest: field,
  toolVersion: field,
} satisfies Record<keyof CallContext, z.ZodType>) as unknown as z.ZodType<CallContext>;

/** @throws {ToolError} PARAM_INVALID, naming the path */
export function parseCallContext(context: unknown): CallContext {
  return checkValues(parseOptions(CallContextSchema, context, "context"));
}

/** Returns the context without fields that are undefined. @throws {ToolError} PARAM_INVALID, naming the path after `where` */
export function checkValues<Context extends AgentContext>(context: Context, where: "" | "options." = ""): Context {
  try {
    readExplicitContext(context);
  } catch (thrown) {
    if (where === "" || !(thrown instanceof ToolError)) throw thrown;
    throw new ToolError("PARAM_INVALID", `${where}${thrown.message}`, { cause: thrown });
  }
  return definedFields(context) as Context;
}

/**
 * Checks the tenant before the run starts. A custom router of the host checks it by itself.
 * @throws {ToolError} PARAM_INVALID if the tenant is missing with `tenancy: "multi"`, or given with `tenancy: "single"`
 */
export function checkTenant(router: object, { tenantId }: AgentContext, where: string): void {
  tenancyOf(router)?.tenantOf(tenantId, `${where}.tenantId`);
}

/**
 * Returns the agent's context, overridden by the fields of the run's context.
 * @throws {ToolError} PARAM_INVALID if both name a tenant and the tenants differ
 */
export function mergeContexts<Context extends AgentContext>(
  own: AgentContext | undefined,
  given: Context | undefined,
  where: string,
): AgentContext & Context {
  const tenantId = own?.tenantId;
  if (tenantId !== undefined && given?.tenantId !== undefined && given.tenantId !== tenantId) {
    throw new ToolError(
      "PARAM_INVALID",
      `${where}.tenantId: Expected the tenant of the agent, ${JSON.stringify(tenantId)}, got ${JSON.stringify(given.tenantId)}. ` +
        "Create an agent for each tenant, or name the tenant only in the context of each run",
    );
  }
  const merged = mergeDefined(own ?? {}, given) as AgentContext & Context;
  if (own?.arguments === undefined || given?.arguments === undefined) return merged;
  return { ...merged, arguments: mergeDefined(own.arguments, given.arguments) };
}
