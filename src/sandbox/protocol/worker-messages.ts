// Schemas of the messages that a worker sends to the host, which parses them: the worker counts as hostile. The comment of a message lists the
// parts of its frame.
import * as z from "zod";
import { CapabilityNameSchema, CountSchema, ModuleNamesSchema, SeqSchema } from "./field-schemas.ts";
import { MAX_FRAME_BYTES } from "./frames.ts";
import { GUEST_ERROR_LIMITS, GUEST_OUTCOMES, MAX_BYTES_VALUES } from "./guest-messages.ts";
import { LOG_LEVELS, MAX_SEED_LENGTH, PROTOCOL_VERSION, SOURCE_LOCATION_PATTERN } from "./message-fields.ts";

/** Reasons why a worker stopped an isolate. With `diverged`, the outcome's text is a TurnDivergence as JSON. */
export const STOP_REASONS = ["memory", "cpu", "cancelled", "isolate-failed", "diverged"] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** Schema of a BytesHeader, which a worker or a guest sends. */
export const BytesHeaderSchema = z.strictObject({
  mark: z.string().min(1).max(64),
  lengths: z.array(z.int().min(0).max(MAX_FRAME_BYTES)).max(MAX_BYTES_VALUES),
});

/** Resource usage of a call inside the worker. */
export const WorkerUsageSchema = z.strictObject({
  cpuMs: CountSchema,
  heapBytes: CountSchema,
  startMs: CountSchema,
  executeMs: CountSchema,
  logsDropped: CountSchema,
});
export type WorkerUsage = z.infer<typeof WorkerUsageSchema>;

/** The worker accepts messages. Parts: the V8 code cache of the prelude, if the worker received none. */
const ReadySchema = z.strictObject({ type: z.literal("ready"), protocolVersion: z.literal(PROTOCOL_VERSION) });
/**
 * The first Python isolate is ready, or failed to load; in that case each call reports the failure. Parts: the snapshot and the code cache,
 * each empty if the worker received one.
 */
const PythonReadySchema = z.strictObject({ type: z.literal("python-ready") });
const PongSchema = z.strictObject({ type: z.literal("pong") });
/**
 * The call waits for an isolate: no code of the tool runs for it before `started`. A call that does not wait sends `started` after it has
 * run for some milliseconds. Before that, the call has had no visible effect, so the host can safely run it again elsewhere.
 */
const PreparingSchema = z.strictObject({ type: z.literal("preparing"), seq: SeqSchema });
const StartedSchema = z.strictObject({ type: z.literal("started"), seq: SeqSchema });
/**
 * Parts: the outcome's text (see GUEST_OUTCOMES). After `extract`, also the code cache. After a call whose output contains bytes, also their
 * BytesHeader as JSON text and the bytes (both empty if only content follows); then the same three parts for the content.
 */
const EndedSchema = z.strictObject({
  type: z.literal("ended"),
  seq: SeqSchema,
  outcome: z.union([z.enum(GUEST_OUTCOMES), z.enum(STOP_REASONS)]),
  /** Phase in which the call ended: the tool's top-level code, or its `execute`. */
  phase: z.enum(["load", "execute"]),
  usage: WorkerUsageSchema,
  /** Whether all code of the call has stopped. If so, no `released` follows. */
  released: z.boolean(),
  /** For a session's call: the isolate is kept for the next one. */
  kept: z.literal(true).optional(),
  /** Platform modules that isolates of the bundle have used and that were not reported to the host yet. */
  usedModules: ModuleNamesSchema.optional(),
});
/**
 * Chunks of a streaming call. Parts: chunks as JSON texts, one per line; or one chunk that contains bytes, their BytesHeader as JSON text,
 * and the bytes.
 */
const ChunksSchema = z.strictObject({ type: z.literal("chunks"), seq: SeqSchema });
/**
 * Turns of a recorded call, sent before each message that depends on them. Parts: turns as JSON texts, separated by commas. `start`: with the
 * first message, the seed and the time with which the call's isolate started. `isTruncated`: further turns were dropped.
 */
const TurnsSchema = z.strictObject({
  type: z.literal("turns"),
  seq: SeqSchema,
  start: z.strictObject({ seed: z.string().min(1).max(MAX_SEED_LENGTH), now: CountSchema }).optional(),
  isTruncated: z.literal(true).optional(),
});
/** All code of the call has stopped. Until this message arrives the host must assume that it is running. */
const ReleasedSchema = z.strictObject({ type: z.literal("released"), seq: SeqSchema });
/** Parts: text. `place` is the source location, if the tool's settings have `logSourceLocations`. */
const LogSchema = z.strictObject({
  type: z.literal("log"),
  seq: SeqSchema,
  level: z.enum(LOG_LEVELS),
  time: CountSchema,
  place: z.string().regex(SOURCE_LOCATION_PATTERN).optional(),
});
/** Parts: progress as JSON text. */
const ProgressMessageSchema = z.strictObject({ type: z.literal("progress"), seq: SeqSchema });
/** Parts: a report of `ctx.span` as JSON text. `time` is that of its arrival in the worker, by the system's monotonic clock, in ms. */
const SpanMessageSchema = z.strictObject({ type: z.literal("span"), seq: SeqSchema, time: z.number() });
/**
 * Sent after `watch-idle`: whether the guest neither runs nor has pending timers, so that only a response of the host can wake it. A
 * response of the host ends the idle state until the next `idle`.
 */
const IdleSchema = z.strictObject({ type: z.literal("idle"), seq: SeqSchema, isIdle: z.boolean() });
/** Parts: input as JSON text. */
const CapabilitySchema = z.strictObject({
  type: z.literal("capability"),
  seq: SeqSchema,
  requestId: SeqSchema,
  name: CapabilityNameSchema,
});

/**
 * A call that the host sent with `mainThreadMs` has left the main thread, because it waits. `entries`: how many of the host's messages with
 * `mainThreadMs` it has processed since it last reported.
 */
const ParkedSchema = z.strictObject({ type: z.literal("parked"), seq: SeqSchema, entries: SeqSchema });

/** Parts: one, with a code cache for each of PLATFORM_MODULE_NAMES (length-prefixed.ts). */
const ModuleCachesSchema = z.strictObject({ type: z.literal("module-caches") });
/** The call's isolate exists without the tool and waits for `inspect-go`. The previously inspected isolate is not reachable any more. */
const InspectOpenSchema = z.strictObject({ type: z.literal("inspect-open"), seq: SeqSchema });
/** Parts: a message of the DevTools protocol from the isolate of this call. */
const InspectedSchema = z.strictObject({ type: z.literal("inspected"), seq: SeqSchema });

/** Code that belongs to no call runs in the worker and cannot be stopped. */
const StuckSchema = z.strictObject({ type: z.literal("stuck") });

export const WorkerMessageSchema = z.discriminatedUnion("type", [
  ReadySchema,
  IdleSchema,
  PythonReadySchema,
  PongSchema,
  StuckSchema,
  PreparingSchema,
  StartedSchema,
  EndedSchema,
  ChunksSchema,
  ReleasedSchema,
  LogSchema,
  ProgressMessageSchema,
  SpanMessageSchema,
  CapabilitySchema,
  TurnsSchema,
  ParkedSchema,
  ModuleCachesSchema,
  InspectOpenSchema,
  InspectedSchema,
]);
export type WorkerMessage = z.infer<typeof WorkerMessageSchema>;
export type EndedMessage = z.infer<typeof EndedSchema>;

/** Schema of a progress report from `ctx.progress`, named as in MCP. */
export const ProgressSchema = z.strictObject({
  progress: z.number(),
  total: z.number().optional(),
  message: z.string().max(2_048).optional(),
});
/** A progress report of a tool, as in MCP. `total` is absent if it is not known; `message` has at most 2,048 UTF-16 code units. */
export type Progress = z.infer<typeof ProgressSchema>;

/** Schema of a GuestError, as the worker forwards it. */
export const GuestErrorSchema = z.strictObject({
  name: z.string().max(1_024),
  message: z.string().max(16_384),
  stack: z.string().max(32_768),
  code: z.string().max(128).optional(),
  capabilityCode: z.string().max(64).optional(),
  capability: z.string().max(256).optional(),
  missing: z.array(z.string().max(GUEST_ERROR_LIMITS.capability)).max(GUEST_ERROR_LIMITS.missing).optional(),
});
/** The length is checked before the elements: zod would report each of a million invalid elements. */
export const GuestIssuesSchema = z
  .custom<unknown[]>((value) => Array.isArray(value) && value.length <= GUEST_ERROR_LIMITS.issues)
  .pipe(z.array(z.strictObject({ pointer: z.string().max(65_536), message: z.string().max(1_024) })));

/** Sends a message to the host. */
export type Send = (message: WorkerMessage, parts?: readonly (string | Uint8Array)[]) => void;
