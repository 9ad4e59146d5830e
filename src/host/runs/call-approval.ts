// Approval of the calls of tools that a durable run makes: the run waits until a person has decided, and then makes the call that the person saw.
import { createHash } from "node:crypto";
import * as z from "zod";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { type ToolValue, toJson } from "../contract/tool-value.ts";
import { restoreBytes } from "../json/binary-placeholders.ts";
import type { JsonTextLimits } from "../json/json-errors.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json/parse-json.ts";
import { toVisibleText } from "../util/visible-text.ts";

/** A call of a tool that a person must approve before it is made. */
export interface CallToApprove {
  /** What the person sees. */
  readonly message: string;
  readonly toolName: string;
  /** The arguments, unless they are long. */
  readonly input?: JsonValue | undefined;
  /** Digest of the tool, for which alone the approval is valid. */
  readonly toolDigest: string;
  /** Time in ms after which the call is denied. Default: it waits as long as the run. */
  readonly expiresInMs?: number | undefined;
}

/** A call that a run makes through the capability `tools`. */
export interface RequestedCall {
  /** Name of the tool, as the guest wrote it. */
  readonly name: string;
  readonly args: JsonValue;
}

/** Rules for the calls of tools that a run makes. */
export interface ToolCallRules {
  /** Returns what to approve; undefined if the call needs no approval. */
  readonly approvalOf: (call: RequestedCall) => Promise<CallToApprove | undefined>;
  /** Whether the call may be made again. */
  readonly isRepeatable: (call: RequestedCall) => boolean;
  /** Called before a call that a person has approved is made. @param toolDigest of the tool that was approved */
  readonly noteApproved: (call: RequestedCall, toolDigest: string) => void;
}

/** The calls of one attempt that a person has approved and that are about to be made, by tool and arguments. */
export class ApprovedCalls {
  readonly #digests = new Map<string, string[]>();

  add(toolName: string, args: JsonValue, toolDigest: string): void {
    const key = JSON.stringify([toolName, args]);
    this.#digests.set(key, [...(this.#digests.get(key) ?? []), toolDigest]);
  }

  /** Returns the digest of the tool that was approved for one such call, once; undefined if there is no approval. */
  take(toolName: string, given: unknown): string | undefined {
    // Most calls need no approval, and their arguments can be large.
    if (this.#digests.size === 0) return undefined;
    const key = JSON.stringify([toolName, toArguments(given)]);
    const [toolDigest, ...rest] = this.#digests.get(key) ?? [];
    if (rest.length === 0) this.#digests.delete(key);
    else this.#digests.set(key, rest);
    return toolDigest;
  }
}

const MAX_SHOWN = 4_000;
/** Longest JSON text of the arguments that a wait for approval shows, in UTF-16 code units. */
const MAX_SHOWN_ARGUMENTS = 16_384;

/**
 * Returns what a person sees who decides about a call. It states what is not shown, and differs for each input.
 * @param caller who wants to make the call: `The code`, or `The tool "pay"`
 */
export function approvalMessage(caller: string, name: string, argumentsText: string): string {
  const shown = toVisibleText(argumentsText.slice(0, MAX_SHOWN));
  const omitted = argumentsText.length - MAX_SHOWN;
  const rest =
    omitted <= 0
      ? ""
      : ` and ${omitted} more characters that are not shown (SHA-256 of all: ${createHash("sha256").update(argumentsText).digest("hex")})`;
  return `${caller} wants to call the tool "${name}" with ${shown}${rest}. Approve this call?`;
}

/** Returns what a wait for the approval of a call shows. */
export function showCall(caller: string, toolName: string, args: JsonValue): Pick<CallToApprove, "message" | "input"> {
  const argumentsText = JSON.stringify(args);
  const input = argumentsText.length > MAX_SHOWN_ARGUMENTS ? {} : { input: args };
  return { message: approvalMessage(caller, toolName, argumentsText), ...input };
}

const InputSchema = z.object({
  name: z.string(),
  input: z.unknown(),
  bytes: z.object({ mark: z.string(), parts: z.array(z.string()) }).optional(),
});

const TEXT_CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
const SUBJECT = "The input of capability tools";

/**
 * Reads the input of the capability `tools`, which is the guest's text, in time slices.
 * @throws {ToolError} PARAM_INVALID. Such a call must not be made: no rule has seen it.
 */
export async function readToolCall(text: string, limits: JsonTextLimits, signal: AbortSignal): Promise<RequestedCall> {
  const parsed = isSmallJson(text)
    ? parseSmallJson(text, limits, TEXT_CODES, SUBJECT)
    : await parseLargeText(text, limits, TEXT_CODES, SUBJECT, signal);
  const { name, input, bytes } = InputSchema.safeParse(parsed).data ?? {};
  if (name === undefined) throw new ToolError("PARAM_INVALID", `${SUBJECT}: expected the name of a tool and its input`);
  const args = bytes === undefined ? input : restoreBytes(input as JsonValue, bytes);
  return { name, args: toArguments(args) };
}

/** Returns the arguments of a call as JSON, as approvals compare them. */
export const toArguments = (given: unknown): JsonValue => toJson((given ?? {}) as ToolValue) as JsonValue;
