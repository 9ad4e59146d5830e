// Rehearses a version of a tool: replays recorded calls on it, and reports what would have been different.
import { setTimeout as pause } from "node:timers/promises";
import * as z from "zod";
import { type ErrorCode, type ErrorDetails, ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { ToolResult } from "../contract/tool-call.ts";
import { changePattern, type JsonChange } from "./json-changes.ts";
import { type CallRecording, isRecordedError, parseRecording, type RecordedError } from "./recording.ts";
import {
  type ChunkDifference,
  RedactSchema,
  type ReplayedCall,
  type ReplayOptions,
  type ReplayVerdict,
} from "./replay-call.ts";

/** Options of a rehearsal. */
export interface RehearsalOptions {
  /** Tenant of the recordings. Required with `tenancy: "multi"`. */
  readonly tenantId?: string | undefined;
  /** Version of the tool to rehearse, for a tool that was registered with `setRelease`. */
  readonly toolVersion?: string | undefined;
  /**
   * Number of replays at the same time, 1 to 64.
   * @default 4
   */
  readonly maxConcurrency?: number | undefined;
  /**
   * What redacted recordings were made with as `record.redact`: it is applied to the outputs before they are compared.
   * @default redactRecording
   */
  readonly redact?: ReplayOptions["redact"];
  /**
   * Called before each replay, which begins when it resolves. Its result is disposed when the replay has ended. An OVERLOADED error is treated
   * as that of a limit: the replay is tried again for a minute.
   */
  readonly admit?: (() => Promise<Disposable>) | undefined;
  /** Stops the rehearsal. The report then covers the calls that were replayed. */
  readonly signal?: AbortSignal | undefined;
}

/** Calls that differ in the same way. */
export interface RehearsalGroup {
  readonly verdict: Exclude<ReplayVerdict, "identical" | "not_compared">;
  /** What the calls have in common: the changed places, the error, or the requests that were not recorded or are not made any more. */
  readonly summary: string;
  readonly count: number;
  /** Ids of the calls, at most 100. */
  readonly callIds: readonly string[];
  /** Changes of the first call of the group, for the verdict `different`. */
  readonly changes?: readonly JsonChange[];
  /** How the chunks of the first call of the group differ, if it was streamed and they do. */
  readonly chunks?: ChunkDifference;
}

/** Median and 95th percentile of a resource, in the recordings and in the replays. */
export interface ResourceChange {
  readonly before: { readonly p50: number; readonly p95: number };
  readonly after: { readonly p50: number; readonly p95: number };
}

/** Report of a rehearsal. A release gate passes if `replayed` is above 0, `identical` equals it, and `skipped` is 0. */
export interface RehearsalReport {
  /** Number of calls that were replayed: the sum of the four verdicts. */
  readonly replayed: number;
  readonly identical: number;
  readonly different: number;
  readonly diverged: number;
  readonly failed: number;
  /** Number of recordings that were not replayed: the sum of `skippedFor`. */
  readonly skipped: number;
  /**
   * Why: `recording` counts those that are incomplete, invalid, or of another tenant; `limit` those that the host did not let run for a minute,
   * because of a limit such as a quota, its load, or a failure of its own; `chunks` those with the verdict `not_compared`.
   */
  readonly skippedFor: { readonly recording: number; readonly limit: number; readonly chunks: number };
  /** Groups of calls that are not identical, the largest first. */
  readonly groups: readonly RehearsalGroup[];
  /**
   * Resource usage of the replayed calls that are identical or different: the others have stopped early. `executeMs` is
   * the duration; a replay's is estimated, from the waits of the recorded call and the CPU time of the replay.
   * `peakBytes` is 0 where it cannot be measured (see `ToolUsage`).
   */
  readonly resources: {
    readonly cpuMs: ResourceChange;
    readonly executeMs: ResourceChange;
    readonly heapBytes: ResourceChange;
    readonly peakBytes: ResourceChange;
  };
}

const MAX_LISTED = 100;
/** Longest time in ms that one recording waits for a limit of the host, and the wait where the error names none. */
const MAX_RETRY_MS = 60_000;
const WAIT_MS = 1_000;
/** How often a replay is repeated after the loss of its process, which may have had to do with another call, or with the machine. */
const MAX_LOST = 2;

const OptionsSchema = strictObject({
  tenantId: z.string().optional(),
  toolVersion: z.string().optional(),
  maxConcurrency: z.int().min(1).max(64).optional(),
  redact: RedactSchema.optional(),
  admit: z.custom<() => Promise<Disposable>>((value) => typeof value === "function", "Expected a function").optional(),
  signal: z.custom<AbortSignal>((value) => value instanceof AbortSignal, "Expected an AbortSignal").optional(),
});

/** An error that a limit may have caused. */
type LimitError = { readonly code: ErrorCode; readonly details?: ErrorDetails | undefined };
type Tenancy = { tenantOf(tenantId: string | undefined, where: string): string };
type ReplayOne = (recording: CallRecording, options: ReplayOptions) => Promise<ReplayedCall>;
type Recordings = Iterable<unknown> | AsyncIterable<unknown>;

interface OpenGroup {
  readonly verdict: RehearsalGroup["verdict"];
  readonly summary: string;
  count: number;
  readonly callIds: string[];
  readonly differences: Pick<ReplayedCall, "changes" | "chunks">;
}

/** Collects the replays of one rehearsal. */
class RehearsalLog {
  readonly #counts = { identical: 0, different: 0, diverged: 0, failed: 0 };
  readonly #groups = new Map<string, OpenGroup>();
  readonly #usage: { readonly before: CallRecording["usage"]; readonly after: CallRecording["usage"] }[] = [];
  readonly skippedFor: { recording: number; limit: number; chunks: number } = { recording: 0, limit: 0, chunks: 0 };

  add(recording: CallRecording, replayed: ReplayedCall): void {
    const { verdict } = replayed;
    if (verdict === "not_compared") {
      this.skippedFor.chunks += 1;
      return;
    }
    this.#counts[verdict] += 1;
    const { usage } = recording;
    if (verdict === "identical" || verdict === "different")
      this.#usage.push({ before: usage, after: usageWithWaits(usage, replayed.result.usage) });
    if (verdict === "identical") return;
    const { changes, chunks } = replayed;
    const differences = { ...(changes === undefined ? {} : { changes }), ...(chunks === undefined ? {} : { chunks }) };
    const summary = summaryOf(replayed);
    const key = `${verdict} ${summary}`;
    const group = this.#groups.get(key) ?? { verdict, summary, count: 0, callIds: [], differences };
    this.#groups.set(key, group);
    group.count += 1;
    if (group.callIds.length < MAX_LISTED) group.callIds.push(recording.callId);
  }

  get report(): RehearsalReport {
    const groups = [...this.#groups.values()].sort((a, b) => b.count - a.count);
    const { identical, different, diverged, failed } = this.#counts;
    return {
      replayed: identical + different + diverged + failed,
      ...this.#counts,
      skipped: this.skippedFor.recording + this.skippedFor.limit + this.skippedFor.chunks,
      skippedFor: this.skippedFor,
      groups: groups.map(({ differences, ...group }) => ({ ...group, ...differences })),
      resources: {
        cpuMs: this.#resource("cpuMs"),
        executeMs: this.#resource("executeMs"),
        heapBytes: this.#resource("heapBytes"),
        peakBytes: this.#resource("peakBytes"),
      },
    };
  }

  #resource(name: keyof RehearsalReport["resources"]): ResourceChange {
    return {
      before: percentiles(this.#usage.map(({ before }) => before[name])),
      after: percentiles(this.#usage.map(({ after }) => after[name])),
    };
  }
}

/**
 * Returns the usage of a replay with the duration that the call would have taken: a replay waits for no capability and no timer, and shares the
 * machine with other replays, so the recorded call's time that was not CPU time counts as waits, and the replay's CPU time is added.
 */
function usageWithWaits(
  recorded: CallRecording["usage"],
  replayed: ReplayedCall["result"]["usage"],
): CallRecording["usage"] {
  const waitMs = Math.max(0, recorded.executeMs - recorded.cpuMs);
  return { ...replayed, executeMs: waitMs + replayed.cpuMs };
}

/** Returns the values of the nearest rank; 0 without values. */
function percentiles(values: number[]): ResourceChange["before"] {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number): number => sorted[Math.max(0, Math.ceil(sorted.length * part) - 1)] ?? 0;
  return { p50: at(0.5), p95: at(0.95) };
}

function summaryOf(replayed: ReplayedCall): string {
  const { verdict, result, recorded, divergence, chunks, missing = [] } = replayed;
  if (divergence !== undefined)
    return `expected ${divergence.expected}, got ${nameOf(divergence.actual)}`.slice(0, 300);
  if (verdict === "failed" && !result.success) return `${result.error.code}: ${result.error.message}`.slice(0, 300);
  if ("error" in recorded && !hasSameError(replayed)) return errorSummary(recorded.error, result);
  const names = [...new Set(missing.map(nameOf))];
  const parts = [
    hasSameError(replayed) || hasSameDigest(replayed) ? "" : outputSummary(replayed),
    chunks === undefined ? "" : chunksSummary(chunks),
    names.length === 0 ? "" : `requests that are not made any more: ${names.join(", ")}`,
  ];
  return parts
    .filter((part) => part !== "")
    .join("; ")
    .slice(0, 1_000);
}

function errorSummary({ code, message, details }: RecordedError, result: ToolResult): string {
  const before = `failed with ${code} when it was recorded, and now`;
  if (result.success) return `${before} succeeds`;
  if (result.error.code !== code) return `${before} fails with ${result.error.code}`;
  if (result.error.message !== message)
    return `${code} with another message: ${message.slice(0, 120)} → ${result.error.message.slice(0, 120)}`;
  return `${code} with another error: ${thrownName(details)} → ${thrownName(result.error.details)}`;
}

/** Returns the name and `code` of the error that a tool threw. */
const thrownName = ({
  errorName,
  errorCode,
}: {
  readonly errorName?: unknown;
  readonly errorCode?: unknown;
} = {}): string =>
  [errorName, errorCode]
    .filter((part) => typeof part === "string")
    .join(" ")
    .slice(0, 120);

/** Describes outputs whose digests differ. */
function outputSummary({ recorded, outcome, changes = [] }: ReplayedCall): string {
  const pattern = changePattern(changes);
  if (pattern !== "") return pattern;
  const isSameText =
    "output" in recorded && outcome !== undefined && "output" in outcome && recorded.output === outcome.output;
  return isSameText ? "the bytes of the output" : "the order of keys, or other forms of the same values, in the output";
}

const hasSameError = ({ recorded, outcome }: ReplayedCall): boolean =>
  "error" in recorded && outcome !== undefined && "error" in outcome && isRecordedError(recorded.error, outcome.error);

const hasSameDigest = ({ recorded, outcome }: ReplayedCall): boolean =>
  "output" in recorded && outcome !== undefined && "output" in outcome && outcome.digest === recorded.digest;

function chunksSummary({ changes, recorded, replayed }: ChunkDifference): string {
  const pattern = changes === undefined ? "" : changePattern(changes);
  if (pattern !== "") return `chunks: ${pattern}`;
  if (recorded === replayed) return "chunks after those that the recording has, or bytes in chunks";
  return replayed > recorded ? "more chunks" : "fewer chunks";
}

/** The name of a request without its arguments, so that requests with different arguments form one group. */
const nameOf = (request: string): string => request.replace(/\(.*$/s, "(…)");

/** Errors with which a limit of the host, or its load, does not let a tool run. TOOL_TIMEOUT: its time has ended in the queue. */
const LIMIT_CODES: ReadonlySet<string> = new Set([
  "QUOTA_EXCEEDED",
  "OVERLOADED",
  "TOOL_TIMEOUT",
] satisfies ErrorCode[]);

/** Returns how long to wait for a limit of the host that did not let the tool run; undefined for another error. */
function waitMsOf({ code, details }: LimitError): number | undefined {
  if (!LIMIT_CODES.has(code)) return undefined;
  return typeof details?.retryAfterMs === "number" ? details.retryAfterMs : WAIT_MS;
}

/** Whether the process of the replay was lost, unless the recorded call has lost its own too. */
const isLost = ({ verdict, result }: ReplayedCall): boolean =>
  verdict !== "identical" && !result.success && result.error.code === "SANDBOX_CRASHED";

const isIterable = (value: unknown): value is Recordings =>
  typeof value === "object" && value !== null && (Symbol.iterator in value || Symbol.asyncIterator in value);

/**
 * Replays recordings and compares their outcomes.
 * @throws {ToolError} PARAM_INVALID for invalid options, for a missing or unexpected tenant, and if the recordings cannot be iterated
 */
export async function rehearse(
  { tenancy, replay }: { readonly tenancy: Tenancy; readonly replay: ReplayOne },
  recordings: Recordings,
  given: unknown = {},
): Promise<RehearsalReport> {
  const options = parseOptions(OptionsSchema, given, "options");
  const { tenantId, toolVersion, maxConcurrency = 4, redact, admit, signal } = options;
  tenancy.tenantOf(tenantId, "options.tenantId");
  if (!isIterable(recordings))
    throw new ToolError("PARAM_INVALID", "recordings: Expected a list or an iterator of recordings");
  const log = new RehearsalLog();
  const running = new Set<Promise<void>>();
  /** Replays a recording. @returns how long to wait in ms for a limit that does not let it run */
  const tryReplay = async (recording: CallRecording): Promise<ReplayedCall | number> => {
    let admission: Disposable | undefined;
    try {
      admission = await admit?.();
    } catch (thrown) {
      const waitMs = thrown instanceof ToolError ? waitMsOf(thrown) : undefined;
      if (waitMs === undefined) throw thrown;
      return waitMs;
    }
    using _admission = admission;
    const replayed = await replay(recording, { tenantId, toolVersion, redact, signal });
    const { outcome, result } = replayed;
    return (outcome === undefined && !result.success ? waitMsOf(result.error) : undefined) ?? replayed;
  };
  /** Replays a recording as soon as the limits of the host let it run. @returns undefined if they do not */
  const replayWhenAdmitted = async (recording: CallRecording): Promise<ReplayedCall | undefined> => {
    const until = performance.now() + MAX_RETRY_MS;
    for (let lost = 0; ; ) {
      const replayed = await tryReplay(recording);
      if (typeof replayed === "number") {
        if (performance.now() + replayed > until) return undefined;
        await pause(replayed, undefined, { signal });
      } else if (isLost(replayed) && lost < MAX_LOST) {
        lost += 1;
      } else {
        return replayed;
      }
    }
  };
  const replayOne = async (value: unknown): Promise<void> => {
    try {
      const recording = parseRecording(value);
      const replayed = await replayWhenAdmitted(recording);
      if (signal?.aborted === true) return;
      if (replayed === undefined) log.skippedFor.limit += 1;
      else log.add(recording, replayed);
    } catch (thrown) {
      if (signal?.aborted === true) return;
      const isUnusable = thrown instanceof ToolError && thrown.code === "PARAM_INVALID";
      log.skippedFor[isUnusable ? "recording" : "limit"] += 1;
    }
  };
  for await (const value of recordings) {
    if (signal?.aborted === true) break;
    const one = replayOne(value).finally(() => running.delete(one));
    running.add(one);
    if (running.size >= maxConcurrency) await Promise.race(running);
  }
  await Promise.all(running);
  return log.report;
}
