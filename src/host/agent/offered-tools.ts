// The tools that a turn is offered: those of the tenant that the filter admits, each with the digest that binds its calls to it.

import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError, unavailable } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import { ignoreOutcome, isThenable, notifySafely } from "../util/host-callback.ts";
import { untilAborted } from "../util/with-abort.ts";
import type { AgentContext } from "./agent-context.ts";
import { type CallRouter, toolsOf } from "./call-tool.ts";

/**
 * Which of the tenant's tools the model may use: their names, or a synchronous function of each definition. Only `true` admits a tool. A
 * function that throws, or returns anything but a boolean (a promise too), denies it, and `onError` receives an error.
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

/** Why a filter admits a tool or does not; a problem denies it. */
type Verdict = boolean | { readonly problem: string; readonly cause?: unknown };

function judge(filter: (definition: ToolDefinition) => unknown, definition: ToolDefinition): Verdict {
  try {
    const answer = filter(definition);
    if (typeof answer === "boolean") return answer;
    // Its rejection would end the process.
    if (isThenable(answer)) ignoreOutcome(() => answer);
    return { problem: `returned ${describeKind(answer)}` };
  } catch (cause) {
    return { problem: "threw", cause };
  }
}

/** Reports once for all tools of an offer: there may be a thousand. */
function admitted(
  definitions: readonly ToolDefinition[],
  filter: (definition: ToolDefinition) => unknown,
  onError: Offer["onError"],
): readonly ToolDefinition[] {
  const problems: string[] = [];
  let first: unknown;
  const kept = definitions.filter((definition) => {
    const verdict = judge(filter, definition);
    if (typeof verdict === "boolean") return verdict;
    if (problems.length === 0) first = verdict.cause;
    problems.push(`${verdict.problem} for "${definition.name}"`);
    return false;
  });
  if (problems.length > 0) {
    const more = problems.length === 1 ? "" : ` and failed for ${problems.length - 1} more`;
    const message = `The tools filter must return true or false, but ${problems[0]}${more}; these tools are not offered`;
    notifySafely(onError, new ToolError("INTERNAL", message, { cause: first }));
  }
  return kept;
}

/** Rejects with the signal's reason as soon as it aborts, and with what the router throws. */
export async function offeredTools(
  { callRouter, tools, context: { tenantId }, onError }: Offer,
  signal: AbortSignal,
): Promise<OfferedTools> {
  const all = await untilAborted(toolsOf(callRouter, tenantId), signal);
  const names = Array.isArray(tools) ? new Set(tools as readonly string[]) : undefined;
  const isNamed = ({ name }: ToolDefinition): boolean => names === undefined || names.has(name);
  const kept = typeof tools === "function" ? admitted(all, tools, onError) : all.filter(isNamed);
  const whose = tenantId === undefined ? {} : { tenantId };
  const offered = kept.map((definition) => ({ definition, digest: callRouter.digestOf(definition, whose) }));
  // A tool without a digest has changed since it was listed.
  return new Map(
    offered.flatMap(({ definition, digest }) =>
      typeof digest === "string" ? [[definition.name, { definition, digest }] as const] : [],
    ),
  );
}

const MAX_NAMED = 20;

/** The answer to a call of a tool that is not offered. */
export function notOffered(toolName: string, offered: OfferedTools): ToolError {
  const known = [...offered.keys()].slice(0, MAX_NAMED);
  const hint = known.length === 0 ? "no tools are offered" : `offered are: ${known.join(", ")}`;
  return unavailable("not_found", `There is no tool named ${JSON.stringify(toolName)} here; ${hint}`, {
    details: { toolName, known },
  });
}
