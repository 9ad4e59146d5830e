import * as z from "zod";
import { ENGINE_FEATURE_NAMES, EngineFeatureSchema } from "../contract/engine-features.ts";
import { LimitsSchema } from "../contract/limits.ts";
import { MAX_FRAME_BYTES } from "./frames.ts";
import { GUEST_ERROR_CAPS, GUEST_OUTCOMES, MAX_BYTES_VALUES } from "./guest-messages.ts";
import { CHUNK_NAMES, MEMBER_CHUNKS } from "./platform-modules.ts";

/** Host and worker are always of one version; a mismatch is a broken installation. */
export const PROTOCOL_VERSION = 1;

const seq = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
const count = z.number().min(0).max(Number.MAX_SAFE_INTEGER);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const capabilityName = z.string().max(64);

/** Of one capability in ctx; together with the names of its uncounted inputs they fit a message. */
export const MAX_MEMBERS = 128;
export const MAX_MEMBER_UNITS = 128;

const memberNames = z.array(z.string().max(MAX_MEMBER_UNITS)).max(MAX_MEMBERS).readonly().optional();

export const MAX_SEED_UNITS = 256;

export const ISOLATIONS = ["call", "tool", "session"] as const;
/** How long an isolate lives: for one call, for many of one (tenant, tool version), or for those of one conversation. */
export type Isolation = (typeof ISOLATIONS)[number];

/** What an isolate is made with, in a call as in a learning run. */
const isolateFields = {
  limits: LimitsSchema,
  features: z.array(EngineFeatureSchema).max(ENGINE_FEATURE_NAMES.length),
  coarseTime: z.boolean(),
};

/** Parts: prelude source, V8 code cache of the prelude (empty where there is none yet), and those of the chunks, packed. */
const InitSchema = z.strictObject({
  type: z.literal("init"),
  protocolVersion: z.literal(PROTOCOL_VERSION),
  /** Its isolates can be inspected: the host's own decision, when it is told to by the person at its terminal. */
  inspect: z.literal(true).optional(),
});
/**
 * To a process that is to run Python, right after `init`. Parts: the Python runtime's code (which is thereby its bundle), V8's code cache
 * of it (may be empty), Pyodide's wasm, its standard library, and the snapshot of its memory (may be empty). Answered by one
 * `python-ready`.
 */
const PythonSchema = z.strictObject({
  type: z.literal("python"),
  sha256,
  coarseTime: z.boolean(),
  /** Isolates with Python in them and nothing else, to be there at any time. */
  spares: z.int().min(1).max(16),
});
/** Parts: a wheel that Python may import. Before `python`. */
const PythonPackageSchema = z.strictObject({ type: z.literal("python-package"), fileName: z.string().max(256) });
const chunkNames = z.array(z.enum(CHUNK_NAMES)).max(CHUNK_NAMES.length);
/**
 * Parts: code, V8 code cache (may be empty). Sent once per worker and bundle, before the first call that names it. `chunks`: what its
 * isolates have touched of the platform elsewhere.
 */
const BundleSchema = z.strictObject({ type: z.literal("bundle"), sha256, chunks: chunkNames });
/** Parts: a message of the DevTools protocol, for the isolate of this call. Only to a worker that was started with `inspect`. */
const InspectSchema = z.strictObject({ type: z.literal("inspect"), seq });
/** The call's isolate may go on: whoever inspects it has said what it had to say before the tool runs. */
const InspectGoSchema = z.strictObject({ type: z.literal("inspect-go"), seq });
/** How calls of one tool are to be run: all that does not change from call to call, sent once per worker and named by `toolId`. */
const ToolMessageSchema = z.strictObject({
  type: z.literal("tool"),
  toolId: seq,
  sha256,
  isolation: z.enum(ISOLATIONS),
  /** Its top level may be run before a call has come. */
  prewarm: z.boolean(),
  /** Lines of console carry their place. */
  logPlaces: z.boolean(),
  ...isolateFields,
  granted: z.array(capabilityName).max(256),
  denied: z.array(capabilityName).max(256),
  shapes: z
    .record(
      capabilityName,
      z.strictObject({ chunk: z.enum(MEMBER_CHUNKS).optional(), members: memberNames, uncounted: memberNames }),
    )
    .optional(),
});
/** Evaluates the bundle and tells its definition; then makes the code cache. Ends in one `ended` with outcome `output`. */
const LearnSchema = z.strictObject({ type: z.literal("learn"), seq, sha256, ...isolateFields });
/**
 * Parts: input as JSON text; where it holds bytes, their BytesHeader as JSON text, and the bytes. Ends in exactly one `ended`, and one
 * `released` unless that said so already.
 */
const CallSchema = z.strictObject({
  type: z.literal("call"),
  /** Its chunks are wanted as they come. */
  stream: z.literal(true).optional(),
  seq,
  toolId: seq,
  callId: z.string().max(1_024),
  tenantId: z.string().max(1_024),
  /**
   * It runs in the session's isolate, which lives on; `tool` and its bundle are for this call only where `once` says so. With `resumes` an
   * earlier call has left that isolate: the call fails where it is gone.
   */
  session: z.strictObject({ id: seq, once: z.boolean(), resumes: z.literal(true).optional() }).optional(),
  /** It is to repeat exactly: it gets a new isolate, whose clock and random numbers begin here. */
  deterministic: z.strictObject({ seed: z.string().max(MAX_SEED_UNITS), now: count }).optional(),
  /**
   * No call: the tool is loaded into an isolate for one to come, and the outcome is `output`. `like`: the tool whose calls tell how often
   * those of this one will come.
   */
  prewarm: z.strictObject({ like: seq.optional() }).optional(),
});
/** A tool has another version, or was removed: what is kept warm of it goes, and with `bundle` its code. Its calls that run go on. */
const ForgetToolSchema = z.strictObject({ type: z.literal("forget-tool"), toolId: seq, bundle: z.boolean() });
/** A session is over: its isolate, if there is one, goes. */
const EndSessionSchema = z.strictObject({ type: z.literal("end-session"), session: seq });
/** The call waits for its caller, or does so no more: meanwhile the worker says whether its guest is idle. Answered by `idle`s. */
const WatchIdleSchema = z.strictObject({ type: z.literal("watch-idle"), seq, isWatched: z.boolean() });
/** The host's clock or caller has ended the call: dispose its isolate. */
const CancelSchema = z.strictObject({ type: z.literal("cancel"), seq });
/** So many more chunks of a call have been taken by their reader. */
const CreditSchema = z.strictObject({ type: z.literal("credit"), seq, chunks: seq });
/** Parts: a CapabilityEnvelope as JSON text. */
const CapabilityResultSchema = z.strictObject({ type: z.literal("capability-result"), seq, requestId: seq });
/** Asks one in which nothing of a tool's has been for the code caches of the chunks. Answered by one `chunk-caches`. */
const MakeChunkCachesSchema = z.strictObject({ type: z.literal("make-chunk-caches") });
/** Asks for a `pong`: isolates run on threads of their own, so a worker that is well answers soon. */
const PingSchema = z.strictObject({ type: z.literal("ping") });

export const HostMessageSchema = z.discriminatedUnion("type", [
  InitSchema,
  PythonSchema,
  PythonPackageSchema,
  BundleSchema,
  ToolMessageSchema,
  LearnSchema,
  CallSchema,
  CancelSchema,
  WatchIdleSchema,
  EndSessionSchema,
  ForgetToolSchema,
  CapabilityResultSchema,
  CreditSchema,
  PingSchema,
  MakeChunkCachesSchema,
  InspectSchema,
  InspectGoSchema,
]);
export type HostMessage = z.infer<typeof HostMessageSchema>;
export type PythonMessage = Omit<z.infer<typeof PythonSchema>, "type">;
export type ToolMessage = z.infer<typeof ToolMessageSchema>;
/** How a bundle's top level is to be run, in a call as in a learning run. */
export type LearnProfile = Omit<z.infer<typeof LearnSchema>, "type" | "seq">;

/** Why the worker stopped an isolate by itself. */
export const STOP_REASONS = ["memory", "cpu", "cancelled", "isolate-failed"] as const;
export type StopReason = (typeof STOP_REASONS)[number];

/** What a worker, or a guest, says of the bytes beside a text. */
export const BytesHeaderSchema = z.strictObject({
  mark: z.string().min(1).max(64),
  lengths: z.array(z.int().min(0).max(MAX_FRAME_BYTES)).max(MAX_BYTES_VALUES),
});

/** What a call cost inside the worker. */
export const WorkerUsageSchema = z.strictObject({
  cpuMs: count,
  heapBytes: count,
  startMs: count,
  executeMs: count,
  logsDropped: count,
});
export type WorkerUsage = z.infer<typeof WorkerUsageSchema>;

export const LOG_LEVELS = ["debug", "info", "warn", "error"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/** Parts: the V8 code cache of the prelude, if the worker was given none. The worker takes messages. */
const ReadySchema = z.strictObject({ type: z.literal("ready"), protocolVersion: z.literal(PROTOCOL_VERSION) });
/**
 * The first of the Python isolates is there, or cannot be loaded, and then each call will say so. Parts: the snapshot and the code cache,
 * each empty if the worker was given one.
 */
const PythonReadySchema = z.strictObject({ type: z.literal("python-ready") });
const PongSchema = z.strictObject({ type: z.literal("pong") });
/**
 * The call must first wait for an isolate: until `started` no line of the tool has run for it. One that need not wait says `started`
 * when it has run for some milliseconds; until then nothing that it has done can be seen anywhere.
 */
const PreparingSchema = z.strictObject({ type: z.literal("preparing"), seq });
const StartedSchema = z.strictObject({ type: z.literal("started"), seq });
/**
 * Parts: the outcome's text (see GUEST_OUTCOMES); after `learn`, also the code cache. After a call, where the output holds bytes, their
 * BytesHeader as JSON text, and the bytes (both empty if it holds none but content follows); then the same three of the content.
 */
const EndedSchema = z.strictObject({
  type: z.literal("ended"),
  seq,
  outcome: z.union([z.enum(GUEST_OUTCOMES), z.enum(STOP_REASONS)]),
  /** How far it had come: a tool's top level, or its execute. */
  phase: z.enum(["load", "execute"]),
  usage: WorkerUsageSchema,
  /** Nothing of the call runs any more: no `released` follows. */
  released: z.boolean(),
  /** Of a session's call: the isolate waits for the next one. */
  kept: z.literal(true).optional(),
  /** What isolates of the bundle have touched of the platform, as far as the host has not been told. */
  touched: chunkNames.optional(),
});
/**
 * Of a call whose chunks are wanted. Parts: chunks as JSON texts, a line each; or one chunk that holds bytes, their BytesHeader as JSON
 * text, and the bytes.
 */
const ChunksSchema = z.strictObject({ type: z.literal("chunks"), seq });
/** Nothing of the call runs any more. Until this comes the host must assume that it does. */
const ReleasedSchema = z.strictObject({ type: z.literal("released"), seq });
/** `script:line:column`, of a script of the tool's. */
export const PLACE_PATTERN: RegExp = /^[\w.-]{1,40}:\d{1,9}:\d{1,9}$/;
/** Parts: text. `place` when the tool's message has asked for it. */
const LogSchema = z.strictObject({
  type: z.literal("log"),
  seq,
  level: z.enum(LOG_LEVELS),
  time: count,
  place: z.string().regex(PLACE_PATTERN).optional(),
});
/** Parts: progress as JSON text. */
const ProgressMessageSchema = z.strictObject({ type: z.literal("progress"), seq });
/**
 * Of a call that is watched: whether its guest neither runs nor has timers of its own, so that only an answer of the host can wake it. Each
 * answer that the host sends ends that, until the next `idle` says otherwise.
 */
const IdleSchema = z.strictObject({ type: z.literal("idle"), seq, isIdle: z.boolean() });
/** Parts: input as JSON text. */
const CapabilitySchema = z.strictObject({ type: z.literal("capability"), seq, requestId: seq, name: capabilityName });

/** Parts: one, with a cache for each of CHUNK_NAMES, packed (length-prefixed.ts). */
const ChunkCachesSchema = z.strictObject({ type: z.literal("chunk-caches") });
/** The call's isolate is there, without the tool: it waits for `inspect-go`. The one before it can be spoken to no longer. */
const InspectOpenSchema = z.strictObject({ type: z.literal("inspect-open"), seq });
/** Parts: a message of the DevTools protocol, from the isolate of this call. */
const InspectedSchema = z.strictObject({ type: z.literal("inspected"), seq });

/** Something runs in the worker that belongs to no call and cannot be stopped. */
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
  CapabilitySchema,
  ChunkCachesSchema,
  InspectOpenSchema,
  InspectedSchema,
]);
export type WorkerMessage = z.infer<typeof WorkerMessageSchema>;
export type EndedMessage = z.infer<typeof EndedSchema>;

/** Of the interpreter's memory before anything has run in it: 30 MiB, and what wheels may add. */
export const MAX_SNAPSHOT_BYTES: number = 64 * 1024 * 1024;

/** One message of the DevTools protocol, in bytes: scripts and heap snapshots come in pieces that are smaller. */
export const MAX_INSPECT_BYTES: number = 16 * 1024 * 1024;

/** A message's JSON may be this long at most: all that can be large travels as parts. */
export const MAX_MESSAGE_BYTES = 64 * 1024;

/** What a tool may report with `ctx.progress`, in MCP's words. */
export const ProgressSchema = z.strictObject({
  progress: z.number(),
  total: z.number().optional(),
  message: z.string().max(2_048).optional(),
});
export type Progress = z.infer<typeof ProgressSchema>;

/** A guest error's text parts, as they come through the worker. */
export const GuestErrorSchema = z.strictObject({
  name: z.string().max(1_024),
  message: z.string().max(16_384),
  stack: z.string().max(32_768),
  code: z.string().max(128).optional(),
  capabilityCode: z.string().max(64).optional(),
  capability: z.string().max(256).optional(),
});
/** Counted before it is looked at: of a million bad elements zod would report each one. */
export const GuestIssuesSchema = z
  .custom<unknown[]>((value) => Array.isArray(value) && value.length <= GUEST_ERROR_CAPS.issues)
  .pipe(z.array(z.strictObject({ pointer: z.string().max(65_536), message: z.string().max(1_024) })));

/** Sends a message to the host. */
export type Send = (message: WorkerMessage, parts?: readonly (string | Uint8Array)[]) => void;

/** A tool as the host has described it once, with what every call of it is told. */
export interface ToolProfile extends ToolMessage {
  /** An InvokeHeader as JSON text. */
  readonly header: string;
  /** It has another version, or was removed: no isolate of it is kept. */
  isForgotten?: boolean;
}
