// Schemas of the messages on the socket between host and worker. Each side parses what the other sends. The comment of a message lists the
// parts of its frame.
import * as z from "zod";
import { ENGINE_FEATURE_NAMES, EngineFeatureSchema } from "../contract/engine-features.ts";
import { LimitsSchema } from "../contract/limits.ts";
import { MAX_FRAME_BYTES } from "./frames.ts";
import { GUEST_ERROR_LIMITS, GUEST_OUTCOMES, MAX_BYTES_VALUES } from "./guest-messages.ts";
import { MEMBER_MODULES, PLATFORM_MODULE_NAMES } from "./platform-modules.ts";
import { TURN_MODES } from "./turns.ts";

/** Host and worker always have the same version. A mismatch means a broken installation. */
export const PROTOCOL_VERSION = 1;

const seq = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
const count = z.number().min(0).max(Number.MAX_SAFE_INTEGER);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const capabilityName = z.string().max(64);

/** Maximum number of members of one capability in ctx. They fit into one message together with the names of its uncounted inputs. */
export const MAX_MEMBERS = 128;
export const MAX_MEMBER_LENGTH = 128;

const memberNames = z.array(z.string().max(MAX_MEMBER_LENGTH)).max(MAX_MEMBERS).readonly().optional();

export const MAX_SEED_LENGTH = 256;
/** Longest time of a call on the worker's main thread in ms: the largest `timeoutMs`, and time for the host to end the call first. */
export const MAX_MAIN_THREAD_MS = 301_000;

export const ISOLATE_LIFETIMES = ["call", "tool", "session"] as const;
/** Lifetime of an isolate: one call, many calls of one tenant and tool version, or the calls of one session. */
export type IsolateLifetime = (typeof ISOLATE_LIFETIMES)[number];

/** Settings of an isolate, for a call and for the extraction of a definition. */
const isolateFields = {
  limits: LimitsSchema,
  features: z.array(EngineFeatureSchema).max(ENGINE_FEATURE_NAMES.length),
  coarseTime: z.boolean(),
};

/** Parts: prelude source, V8 code cache of the prelude (may be empty), and the code caches of the platform modules (length-prefixed.ts). */
const InitSchema = z.strictObject({
  type: z.literal("init"),
  protocolVersion: z.literal(PROTOCOL_VERSION),
  /** Whether the worker's isolates can be inspected. Only the host sets it, on the request of its operator. */
  inspect: z.literal(true).optional(),
});
/**
 * Sent after `init` to a process that runs Python. Parts: the code of the Python runtime (which is the bundle of all its tools), its V8
 * code cache (may be empty), Pyodide's wasm, its standard library, and the snapshot of its memory (may be empty). The worker responds with
 * one `python-ready`.
 */
const PythonSchema = z.strictObject({
  type: z.literal("python"),
  sha256,
  coarseTime: z.boolean(),
  /** Size of the warm pool: isolates with Python loaded and no tool. */
  warmIsolates: z.int().min(1).max(16),
});
/** Sent before `python`. Parts: a wheel that Python code can import. */
const PythonPackageSchema = z.strictObject({ type: z.literal("python-package"), fileName: z.string().max(256) });
const moduleNames = z.array(z.enum(PLATFORM_MODULE_NAMES)).max(PLATFORM_MODULE_NAMES.length);
/**
 * Sent once per worker and bundle, before the first call that uses it. Parts: code, V8 code cache (may be empty). `modules`: the platform
 * modules that its isolates in other workers have used.
 */
const BundleSchema = z.strictObject({ type: z.literal("bundle"), sha256, modules: moduleNames });
/** Sent only to a worker that was started with `inspect`. Parts: a message of the DevTools protocol, for the isolate of this call. */
const InspectSchema = z.strictObject({ type: z.literal("inspect"), seq });
/** Continues the call's isolate: the DevTools client has finished its setup, such as setting breakpoints. */
const InspectGoSchema = z.strictObject({ type: z.literal("inspect-go"), seq });
/** Settings of a tool that are the same for each of its calls. Sent once per worker; calls refer to it by `toolId`. */
const ToolMessageSchema = z.strictObject({
  type: z.literal("tool"),
  toolId: seq,
  sha256,
  isolateLifetime: z.enum(ISOLATE_LIFETIMES),
  /** Whether the tool's top-level code may run before a call arrives. */
  prewarm: z.boolean(),
  /** Whether console lines contain their source location. */
  logSourceLocations: z.boolean(),
  /** Whether the tool's isolates are repeatable and report their turns. */
  isRecorded: z.literal(true).optional(),
  ...isolateFields,
  granted: z.array(capabilityName).max(256),
  denied: z.array(capabilityName).max(256),
  descriptors: z
    .record(
      capabilityName,
      z.strictObject({
        platformModule: z.enum(MEMBER_MODULES).optional(),
        members: memberNames,
        uncounted: memberNames,
      }),
    )
    .optional(),
});
/** Evaluates the bundle, extracts its definition and creates its code cache. Success is reported as one `ended` with outcome `output`. */
const ExtractSchema = z.strictObject({ type: z.literal("extract"), seq, sha256, ...isolateFields });
/**
 * Parts: input as JSON text and, if it contains bytes, their BytesHeader as JSON text and the bytes (both empty if only turns follow);
 * then the recorded turns as a JSON array, for a call that replays them. The call ends with exactly one `ended`, followed by one `released`
 * unless `ended` had `released: true`.
 */
const CallSchema = z.strictObject({
  type: z.literal("call"),
  /** Whether to send the chunks of a streaming tool as they are produced. */
  stream: z.literal(true).optional(),
  seq,
  toolId: seq,
  callId: z.string().max(1_024),
  tenantId: z.string().max(1_024),
  /**
   * Runs the call in the session's isolate, which stays open. With `once`, the tool and its bundle are used for this call only. With
   * `resumes`, an earlier call created the isolate, and the call fails if the isolate is gone.
   */
  session: z.strictObject({ id: seq, once: z.boolean(), resumes: z.literal(true).optional() }).optional(),
  /** Makes the call repeatable: it gets a new isolate whose clock starts at `now` and whose random numbers start from `seed`. */
  deterministic: z
    .strictObject({
      ...{ seed: z.string().max(MAX_SEED_LENGTH), now: count, mode: z.enum(TURN_MODES).optional() },
      /** Rolls a durable run back after its recorded turns. Limit of each function that the run registered, in ms. */
      rollbackMs: z.int().min(1).max(3_600_000).optional(),
    })
    .optional(),
  /**
   * Loads the tool into an isolate for a future call instead of running one. The outcome is `output`. `like`: the tool whose call rate
   * predicts that of this tool.
   */
  prewarm: z.strictObject({ like: seq.optional() }).optional(),
  /**
   * Runs the call on the worker's main thread, where no thread has to wake up, and stops it after this time in ms. The process reads no
   * message meanwhile, so the host sends this only if no other call is in the process, and sends no other call before the worker has
   * reported `parked` or the call's end.
   */
  mainThreadMs: z.int().min(1).max(MAX_MAIN_THREAD_MS).optional(),
});
/** A tool was updated or removed. The worker disposes its warm isolates and, with `bundle`, its code. Its running calls continue. */
const ForgetToolSchema = z.strictObject({ type: z.literal("forget-tool"), toolId: seq, bundle: z.boolean() });
/** A session has ended: the worker disposes its isolate, if it exists. */
const EndSessionSchema = z.strictObject({ type: z.literal("end-session"), session: seq });
/** Starts or stops idle reports for a call that waits for its client. The worker reports with `idle` messages. */
const WatchIdleSchema = z.strictObject({ type: z.literal("watch-idle"), seq, isWatched: z.boolean() });
/** The call has timed out or was cancelled: the worker disposes its isolate. */
const CancelSchema = z.strictObject({ type: z.literal("cancel"), seq });
/** The reader of a stream has consumed this number of further chunks. */
const CreditSchema = z.strictObject({ type: z.literal("credit"), seq, chunks: seq });
/** Parts: a CapabilityEnvelope as JSON text. `mainThreadMs`: continues the call on the main thread, as in `call`. */
const CapabilityResultSchema = z.strictObject({
  type: z.literal("capability-result"),
  seq,
  requestId: seq,
  mainThreadMs: z.int().min(1).max(MAX_MAIN_THREAD_MS).optional(),
  /** For a call that is rehearsed: how long the capability took in the recording, in ms. */
  latencyMs: count.optional(),
});
/** Requests the code caches of the platform modules from a worker that has not run any tool code. It responds with one `module-caches`. */
const MakeModuleCachesSchema = z.strictObject({ type: z.literal("make-module-caches") });
/** Requests a `pong`. A healthy worker responds soon, unless a call runs on its main thread. */
const PingSchema = z.strictObject({ type: z.literal("ping") });

export const HostMessageSchema = z.discriminatedUnion("type", [
  InitSchema,
  PythonSchema,
  PythonPackageSchema,
  BundleSchema,
  ToolMessageSchema,
  ExtractSchema,
  CallSchema,
  CancelSchema,
  WatchIdleSchema,
  EndSessionSchema,
  ForgetToolSchema,
  CapabilityResultSchema,
  CreditSchema,
  PingSchema,
  MakeModuleCachesSchema,
  InspectSchema,
  InspectGoSchema,
]);
export type HostMessage = z.infer<typeof HostMessageSchema>;
/** Schemas of the settings of a tool and of the start of a repeatable call, for hosts that pass them on. */
export const ToolProfileSchema = ToolMessageSchema.omit({ type: true, toolId: true });
export const DeterministicStartSchema = CallSchema.shape.deterministic.unwrap();
export type PythonMessage = Omit<z.infer<typeof PythonSchema>, "type">;
export type ToolMessage = z.infer<typeof ToolMessageSchema>;
/** How to run a bundle's top-level code, in a call and in the extraction of a definition. */
export type ExtractionProfile = Omit<z.infer<typeof ExtractSchema>, "type" | "seq">;

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
  cpuMs: count,
  heapBytes: count,
  startMs: count,
  executeMs: count,
  logsDropped: count,
});
export type WorkerUsage = z.infer<typeof WorkerUsageSchema>;

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
/** Level of a log line. */
export type LogLevel = (typeof LOG_LEVELS)[number];

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
const PreparingSchema = z.strictObject({ type: z.literal("preparing"), seq });
const StartedSchema = z.strictObject({ type: z.literal("started"), seq });
/**
 * Parts: the outcome's text (see GUEST_OUTCOMES). After `extract`, also the code cache. After a call whose output contains bytes, also their
 * BytesHeader as JSON text and the bytes (both empty if only content follows); then the same three parts for the content.
 */
const EndedSchema = z.strictObject({
  type: z.literal("ended"),
  seq,
  outcome: z.union([z.enum(GUEST_OUTCOMES), z.enum(STOP_REASONS)]),
  /** Phase in which the call ended: the tool's top-level code, or its `execute`. */
  phase: z.enum(["load", "execute"]),
  usage: WorkerUsageSchema,
  /** Whether all code of the call has stopped. If so, no `released` follows. */
  released: z.boolean(),
  /** For a session's call: the isolate is kept for the next one. */
  kept: z.literal(true).optional(),
  /** Platform modules that isolates of the bundle have used and that were not reported to the host yet. */
  usedModules: moduleNames.optional(),
});
/**
 * Chunks of a streaming call. Parts: chunks as JSON texts, one per line; or one chunk that contains bytes, their BytesHeader as JSON text,
 * and the bytes.
 */
const ChunksSchema = z.strictObject({ type: z.literal("chunks"), seq });
/**
 * Turns of a recorded call, sent before each message that depends on them. Parts: turns as JSON texts, separated by commas. `start`: with the
 * first message, the seed and the time with which the call's isolate started. `isTruncated`: further turns were dropped.
 */
const TurnsSchema = z.strictObject({
  type: z.literal("turns"),
  seq,
  start: z.strictObject({ seed: z.string().min(1).max(MAX_SEED_LENGTH), now: count }).optional(),
  isTruncated: z.literal(true).optional(),
});
/** All code of the call has stopped. Until this message arrives the host must assume that it is running. */
const ReleasedSchema = z.strictObject({ type: z.literal("released"), seq });
/** Source location in one of the tool's scripts: `script:line:column`. */
export const SOURCE_LOCATION_PATTERN: RegExp = /^[\w.-]{1,40}:\d{1,9}:\d{1,9}$/;
/** Parts: text. `place` is the source location, if the tool's settings have `logSourceLocations`. */
const LogSchema = z.strictObject({
  type: z.literal("log"),
  seq,
  level: z.enum(LOG_LEVELS),
  time: count,
  place: z.string().regex(SOURCE_LOCATION_PATTERN).optional(),
});
/** Parts: progress as JSON text. */
const ProgressMessageSchema = z.strictObject({ type: z.literal("progress"), seq });
/** Parts: a report of `ctx.span` as JSON text. `time` is that of its arrival in the worker, by the system's monotonic clock, in ms. */
const SpanMessageSchema = z.strictObject({ type: z.literal("span"), seq, time: z.number() });
/**
 * Sent after `watch-idle`: whether the guest neither runs nor has pending timers, so that only a response of the host can wake it. A
 * response of the host ends the idle state until the next `idle`.
 */
const IdleSchema = z.strictObject({ type: z.literal("idle"), seq, isIdle: z.boolean() });
/** Parts: input as JSON text. */
const CapabilitySchema = z.strictObject({ type: z.literal("capability"), seq, requestId: seq, name: capabilityName });

/**
 * A call that the host sent with `mainThreadMs` has left the main thread, because it waits. `entries`: how many of the host's messages with
 * `mainThreadMs` it has processed since it last reported.
 */
const ParkedSchema = z.strictObject({ type: z.literal("parked"), seq, entries: seq });

/** Parts: one, with a code cache for each of PLATFORM_MODULE_NAMES (length-prefixed.ts). */
const ModuleCachesSchema = z.strictObject({ type: z.literal("module-caches") });
/** The call's isolate exists without the tool and waits for `inspect-go`. The previously inspected isolate is not reachable any more. */
const InspectOpenSchema = z.strictObject({ type: z.literal("inspect-open"), seq });
/** Parts: a message of the DevTools protocol from the isolate of this call. */
const InspectedSchema = z.strictObject({ type: z.literal("inspected"), seq });

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

/** Maximum size of the snapshot of the Python interpreter: its initial memory is 30 MiB, and wheels may add to it. */
export const MAX_SNAPSHOT_BYTES: number = 64 * 1024 * 1024;

/** Maximum size of a message of the DevTools protocol. Scripts and heap snapshots arrive in smaller pieces. */
export const MAX_INSPECT_BYTES: number = 16 * 1024 * 1024;

/** Maximum size of a message's JSON. All large values are sent as parts. */
export const MAX_MESSAGE_BYTES = 64 * 1024;

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
});
/** The length is checked before the elements: zod would report each of a million invalid elements. */
export const GuestIssuesSchema = z
  .custom<unknown[]>((value) => Array.isArray(value) && value.length <= GUEST_ERROR_LIMITS.issues)
  .pipe(z.array(z.strictObject({ pointer: z.string().max(65_536), message: z.string().max(1_024) })));

/** Sends a message to the host. */
export type Send = (message: WorkerMessage, parts?: readonly (string | Uint8Array)[]) => void;

/** Settings of a tool, as the host sent them once, with the header of its calls. */
export interface ToolProfile extends ToolMessage {
  /** An InvokeHeader as JSON text. */
  readonly header: string;
  /** Whether the tool was updated or removed. If so, no isolate of it is kept. */
  isForgotten?: boolean;
}
