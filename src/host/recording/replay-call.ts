// Replays a recorded call through the router, and compares its outcome with the recording.
import * as z from "zod";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { CallContext, ToolCall, ToolResult } from "../contract/tool-call.ts";
import { restoreBytes } from "../json/binary-placeholders.ts";
import type { LogListener } from "../observability/call-log.ts";
import { type JsonChange, jsonChanges } from "./json-changes.ts";
import type { RecordOptions } from "./record-options.ts";
import { type ReplayMatch, STOPPED } from "./recorded-answers.ts";
import { type CallRecording, isRecordedError, parseRecording, type RecordedOutcome } from "./recording.ts";
import { redactRecording } from "./redact-recording.ts";
import { PreparedReplay } from "./replay.ts";

/** Options of a replay. */
export interface ReplayOptions {
  /** Tenant of the recording. Required with `tenancy: "multi"`. */
  readonly tenantId?: string | undefined;
  /** Other arguments than the recorded ones. */
  readonly arguments?: unknown;
  /** Version of the tool to run, for a tool that was registered with `setRelease`. @default the recorded version */
  readonly toolVersion?: string | undefined;
  /**
   * How the answers of capabilities are found. `position`: the call must do the same, in the same order. `arguments`: by the name and the
   * arguments of each capability call. `auto`: by position; if another version or another input differs there, once more by arguments.
   * @default "auto"
   */
  readonly match?: ReplayMatch | "auto" | undefined;
  /**
   * What a redacted recording was made with as `record.redact`: it is applied to the output before it is compared.
   * @default redactRecording
   */
  readonly redact?: RecordOptions["redact"];
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly onLog?: LogListener | undefined;
}

/**
 * How a replay compares with its recording.
 *
 * - `identical`: the same output, byte for byte, or the same error; for a streamed call also the same chunks.
 * - `different`: another output or other chunks, a success where the recording has an error, or recorded requests that were not made.
 * - `failed`: an error that the recording does not have.
 * - `diverged`: the call asked for something that was not recorded.
 * - `not_compared`: the same output or error, of a tool that yields. The recording is of an earlier version, which did not record chunks.
 */
export type ReplayVerdict = "identical" | "different" | "failed" | "diverged" | "not_compared";

/** How the chunks of a streamed call differ from the recorded ones. */
export interface ChunkDifference {
  /** Number of recorded chunks. */
  readonly recorded: number;
  /** Number of chunks of the replay. */
  readonly replayed: number;
  /** Index of the first chunk that differs. Absent if it comes after those that fit into the recording, or differs in its bytes only. */
  readonly first?: number;
  /** Places in which the chunks differ, at most 50, as in the list of all chunks. Absent if the chunks are the output: then `changes` has them. */
  readonly changes?: readonly JsonChange[];
}

/** Outcome of a replay. */
export interface ReplayedCall {
  readonly verdict: ReplayVerdict;
  readonly result: ToolResult;
  /** How the answers were found. */
  readonly match: ReplayMatch;
  /** Outcome in the recording. */
  readonly recorded: RecordedOutcome;
  /** Outcome of the replay; absent if the tool did not run. */
  readonly outcome?: RecordedOutcome;
  /** Where the replay left its recording, for the verdict `diverged`. */
  readonly divergence?: { readonly position: number; readonly expected: string; readonly actual: string };
  /** Recorded requests that the replay has not made, at most 50. Absent if there are none, and for other verdicts than `different`. */
  readonly missing?: readonly string[];
  /** Places in which the output differs from the recorded one, at most 50. Absent unless both have an output and the verdict is `different`. */
  readonly changes?: readonly JsonChange[];
  /** How the chunks differ. Absent if they do not, or were not compared. */
  readonly chunks?: ChunkDifference;
}

/** A function that redacts values of recordings. */
export const RedactSchema: z.ZodType<NonNullable<RecordOptions["redact"]>> = z.custom<
  NonNullable<RecordOptions["redact"]>
>((value) => typeof value === "function", "Expected a function");

const OptionsSchema = strictObject({
  tenantId: z.string().optional(),
  arguments: z.unknown().optional(),
  toolVersion: z.string().optional(),
  match: z.enum(["position", "arguments", "auto"]).optional(),
  redact: RedactSchema.optional(),
  timeoutMs: z.number().optional(),
  signal: z.custom<AbortSignal>((value) => value instanceof AbortSignal, "Expected an AbortSignal").optional(),
  onLog: z.custom<LogListener>((value) => typeof value === "function", "Expected a function").optional(),
});

/** The part of the router that a replay uses. */
export interface ReplayRouter {
  execute(call: ToolCall, context?: CallContext): Promise<ToolResult>;
  readonly tenancy: { tenantOf(tenantId: string | undefined, where: string): string };
}

/**
 * Runs a recorded call again. No handler of a capability is called.
 * @param value a recording as plain JSON, untrusted
 * @throws {ToolError} PARAM_INVALID for an invalid or incomplete recording, one of another tenant, and invalid options
 */
export async function replayCall(router: ReplayRouter, value: unknown, given: unknown = {}): Promise<ReplayedCall> {
  const recording = parseRecording(value);
  const options: ReplayOptions = parseOptions(OptionsSchema, given, "options");
  if (router.tenancy.tenantOf(options.tenantId, "options.tenantId") !== recording.tenantId) {
    throw new ToolError("PARAM_INVALID", "The recording belongs to another tenant");
  }
  const { match = "auto" } = options;
  const first = await run(router, recording, options, match === "auto" ? "position" : match);
  const isSame = first.replay.isSameBundle && !Object.hasOwn(options, "arguments");
  const isFinal = match !== "auto" || first.replayed.verdict !== "diverged" || isSame;
  const last = isFinal ? first : await run(router, recording, options, "arguments");
  if (recording.chunks !== undefined || last.replayed.verdict !== "identical") return last.replayed;
  const isComparable = await hasNoOtherChunks(last, () => run(router, recording, options, last.replayed.match, true));
  return isComparable ? last.replayed : { ...last.replayed, verdict: "not_compared" };
}

/**
 * Returns whether a recording of an earlier version, which has no chunks, had none but those of its output. If it does not say whether its caller
 * read a stream, one more run shows whether the tool yields.
 */
async function hasNoOtherChunks({ replay }: Run, runStreamed: () => Promise<Run>): Promise<boolean> {
  if (replay.isStreamed) return replay.isOutputStreamed;
  const streamed = (await runStreamed()).replay;
  return streamed.isOutputStreamed || (streamed.chunks?.count ?? 0) === 0;
}

interface Run {
  readonly replayed: ReplayedCall;
  readonly replay: PreparedReplay;
}

async function run(
  router: ReplayRouter,
  recording: CallRecording,
  options: ReplayOptions,
  match: ReplayMatch,
  isStreamed?: boolean,
): Promise<Run> {
  const redact = recording.redacted && (options.redact ?? redactRecording);
  const isSameInput = !Object.hasOwn(options, "arguments");
  const replay = new PreparedReplay(recording, match, { redact, isStreamed, isSameInput });
  const { tenantId, timeoutMs, signal, onLog, toolVersion = recording.toolVersion } = options;
  const call = {
    id: recording.callId,
    toolName: recording.toolName,
    arguments: Object.hasOwn(options, "arguments") ? options.arguments : toArguments(recording),
  };
  const { logSourceLocations } = recording.profile;
  const result = await router.execute(call, {
    tenantId,
    timeoutMs,
    signal,
    onLog,
    logSourceLocations,
    replay,
    ...(toolVersion === undefined ? {} : { toolVersion }),
  });
  return { replay, replayed: { ...compare(recording, replay, result), result, match, recorded: recording.outcome } };
}

function toArguments({ input: { text, bytes } }: CallRecording): unknown {
  try {
    const value = JSON.parse(text);
    return bytes === undefined ? value : restoreBytes(value, bytes);
  } catch {
    throw new ToolError("PARAM_INVALID", "The recording is not valid: /input/text: expected JSON");
  }
}

type Comparison = Pick<ReplayedCall, "verdict" | "outcome" | "divergence" | "changes" | "chunks" | "missing">;

function compare(recording: CallRecording, replay: PreparedReplay, result: ToolResult): Comparison {
  const compared = compareOutcomes(recording, replay, result);
  if (compared.verdict !== "identical" && compared.verdict !== "different") return compared;
  const chunks = differenceOf(recording, replay);
  const { missing } = replay;
  if (chunks === undefined && missing.length === 0) return compared;
  const differences = { ...(chunks === undefined ? {} : { chunks }), ...(missing.length === 0 ? {} : { missing }) };
  return { ...compared, verdict: "different", ...differences };
}

/**
 * Returns how the chunks differ; undefined if they do not, or if the call was not streamed. Of a call that was stopped from outside, the host
 * may have received fewer chunks than the tool had sent.
 */
function differenceOf({ chunks: before, outcome }: CallRecording, replay: PreparedReplay): ChunkDifference | undefined {
  const { chunks: after } = replay;
  if (before == null || after === undefined) return undefined;
  if (before.count === after.count && before.digest === after.digest) return undefined;
  const counts = { recorded: before.count, replayed: after.count };
  const isStopped = "error" in outcome && STOPPED.has(outcome.error.code);
  // Of a recording without all chunks, only those that it has are compared one by one.
  const kept = before.texts.length;
  const texts = isStopped || kept < before.count ? after.texts.slice(0, kept) : after.texts;
  const at = texts.findIndex((text, index) => text !== before.texts[index]);
  const first = at >= 0 ? at : texts.length < kept && !isStopped ? texts.length : undefined;
  if (first === undefined) return isStopped ? undefined : counts;
  const changes = changesBetween(`[${before.texts.join(",")}]`, `[${texts.join(",")}]`);
  return { ...counts, first, ...(changes === undefined ? {} : { changes }) };
}

function compareOutcomes(
  { outcome: recorded }: CallRecording,
  { outcome }: PreparedReplay,
  result: ToolResult,
): Comparison {
  if (!result.success && result.error.code === "REPLAY_DIVERGED") {
    const { position, expected, actual } = result.error.details ?? {};
    return {
      verdict: "diverged",
      divergence: { position: Number(position), expected: String(expected), actual: String(actual) },
    };
  }
  if (outcome === undefined) return { verdict: "failed" };
  if ("error" in outcome) {
    const isSame = "error" in recorded && isRecordedError(recorded.error, outcome.error);
    return { verdict: isSame ? "identical" : "error" in recorded ? "different" : "failed", outcome };
  }
  if (!("output" in recorded)) return { verdict: "different", outcome };
  if (recorded.digest === outcome.digest) return { verdict: "identical", outcome };
  const changes = changesBetween(recorded.output, outcome.output);
  return { verdict: "different", outcome, ...(changes === undefined ? {} : { changes }) };
}

/** @returns undefined if an output is not JSON */
function changesBetween(before: string, after: string): readonly JsonChange[] | undefined {
  try {
    return jsonChanges(JSON.parse(before) as JsonValue, JSON.parse(after) as JsonValue);
  } catch {
    return undefined;
  }
}
