// The tools that a turn offers to the model: those of the tenant that pass the filter, each with the digest that binds its calls to it.

import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";
import { ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { describeKind } from "../../../sandbox/contract/plain-object.ts";
import { ignoreOutcome, isThenable, notifySafely } from "../../util/host-callback.ts";
import { untilAborted } from "../../util/with-abort.ts";
import type { AgentContext } from "../loop/agent-context.ts";
import { type CallRouter, toolsOf } from "./call-tool.ts";

/**
 * Which of the tenant's tools the model may use: a list of names, or a synchronous function of each definition. Only `true` admits a tool.
 * If the function throws, or returns anything other than a boolean (including a promise), the tool is denied and `onError` receives an
 * error.
 */
export type ToolFilter = readonly string[] | ((definition: ToolDefinition) => boolean);

export interface OfferedTool {
  readonly definition: ToolDefinition;
  /** `router.digestOf` at the time of the offer. */
  readonly digest: string;
}

/** By name. */
export type OfferedTools = ReadonlyMap<string, OfferedTool>;

export interface Offer {
  readonly callRouter: CallRouter;
  readonly tools?: ToolFilter | undefined;
  readonly context: AgentContext;
  readonly onError?: ((error: ToolError) => void) | undefined;
}

/** The result of a filter for a tool. An issue denies the tool. */
type Verdict = boolean | { readonly issue: string; readonly cause?: unknown };

function applyFilter(filter: (definition: ToolDefinition) => unknown, definition: ToolDefinition): Verdict {
  try {
    const answer = filter(definition);
    if (typeof answer === "boolean") return answer;
    // An unhandled rejection would end the process.
    if (isThenable(answer)) ignoreOutcome(() => answer);
    return { issue: `returned ${describeKind(answer)}` };
  } catch (cause) {
    return { issue: "threw", cause };
  }
}

/** Applies a filter function. Reports one error for all tools of an offer, because there may be a thousand. */
function filterTools(
  definitions: readonly ToolDefinition[],
  filter: (definition: ToolDefinition) => unknown,
  onError: Offer["onError"],
): readonly ToolDefinition[] {
  const issues: string[] = [];
  let first: unknown;
  const kept = definitions.filter((definition) => {
    const verdict = applyFilter(filter, definition);
    if (typeof verdict === "boolean") return verdict;
    if (issues.length === 0) first = verdict.cause;
    issues.push(`${verdict.issue} for "${definition.name}"`);
    return false;
  });
  if (issues.length > 0) {
    const more = issues.length === 1 ? "" : ` and failed for ${issues.length - 1} more`;
    const message = `The tools filter must return true or false, but ${issues[0]}${more}; these tools are not offered`;
    notifySafely(onError, new ToolError("INTERNAL", message, { cause: first }));
  }
  return kept;
}

/** Returns the offered tools. Rejects with the signal's reason as soon as it aborts, and with the router's errors. */
export async function offeredTools(
  { callRouter, tools, context: { tenantId }, onError }: Offer,
  signal: AbortSignal,
): Promise<OfferedTools> {
  const all = await untilAborted(toolsOf(callRouter, tenantId), signal);
  const names = Array.isArray(tools) ? new Set(tools as readonly string[]) : undefined;
  const isNamed = ({ name }: ToolDefinition): boolean => names === undefined || names.has(name);
  const kept = typeof tools === "function" ? filterTools(all, tools, onError) : all.filter(isNamed);
  const options = tenantId === undefined ? {} : { tenantId };
  const offered = kept.map((definition) => ({ definition, digest: callRouter.digestOf(definition, options) }));
  // A tool without a digest was changed or removed since it was listed.
  return new Map(
    offered.flatMap(({ definition, digest }) =>
      typeof digest === "string" ? [[definition.name, { definition, digest }] as const] : [],
    ),
  );
}

const MAX_NAMED = 20;

/** Returns the error that answers a call of a tool that is not offered. */
export function notOffered(toolName: string, offered: OfferedTools): ToolError {
  const known = [...offered.keys()].slice(0, MAX_NAMED);
  const hint = known.length === 0 ? "no tools are offered" : `offered tools: ${known.join(", ")}`;
  return unavailable("not_found", `There is no tool named ${JSON.stringify(toolName)} here; ${hint}`, {
    details: { toolName, known },
  });
}
