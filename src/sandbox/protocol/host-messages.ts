// Schemas of the messages that the host sends to a worker, which parses them. The comment of a message lists the parts of its frame. The
// schemas of the other direction are in a file of their own, because a worker would take 20 ms to build them at each start.
import * as z from "zod";
import { ENGINE_FEATURE_NAMES, EngineFeatureSchema } from "../contract/engine-features.ts";
import { LimitsSchema } from "../contract/limits.ts";
import {
  CapabilityNameSchema,
  CountSchema,
  ISOLATE_LIFETIMES,
  MAX_MEMBER_LENGTH,
  MAX_MEMBERS,
  MAX_SEED_LENGTH,
  ModuleNamesSchema,
  PROTOCOL_VERSION,
  SeqSchema,
} from "./message-fields.ts";
import { MEMBER_MODULES } from "./platform-modules.ts";
import { TURN_MODES } from "./turns.ts";

const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const memberNames = z.array(z.string().max(MAX_MEMBER_LENGTH)).max(MAX_MEMBERS).readonly().optional();

/** Longest time of a call on the worker's main thread in ms: the largest `timeoutMs`, and time for the host to end the call first. */
export const MAX_MAIN_THREAD_MS = 301_000;

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
/**
 * Sent once per worker and bundle, before the first call that uses it. Parts: code, V8 code cache (may be empty). `modules`: the platform
 * modules that its isolates in other workers have used.
 */
const BundleSchema = z.strictObject({ type: z.literal("bundle"), sha256, modules: ModuleNamesSchema });
/** Sent only to a worker that was started with `inspect`. Parts: a message of the DevTools protocol, for the isolate of this call. */
const InspectSchema = z.strictObject({ type: z.literal("inspect"), seq: SeqSchema });
/** Continues the call's isolate: the DevTools client has finished its setup, such as setting breakpoints. */
const InspectGoSchema = z.strictObject({ type: z.literal("inspect-go"), seq: SeqSchema });
/** Settings of a tool that are the same for each of its calls. Sent once per worker; calls refer to it by `toolId`. */
const ToolMessageSchema = z.strictObject({
  type: z.literal("tool"),
  toolId: SeqSchema,
  sha256,
  isolateLifetime: z.enum(ISOLATE_LIFETIMES),
  /** Whether the tool's top-level code may run before a call arrives. */
  prewarm: z.boolean(),
  /** Whether console lines contain their source location. */
  logSourceLocations: z.boolean(),
  /** Whether the tool's isolates are repeatable and report their turns. */
  isRecorded: z.literal(true).optional(),
  ...isolateFields,
  granted: z.array(CapabilityNameSchema).max(256),
  denied: z.array(CapabilityNameSchema).max(256),
  descriptors: z
    .record(
      CapabilityNameSchema,
      z.strictObject({
        platformModule: z.enum(MEMBER_MODULES).optional(),
        members: memberNames,
        uncounted: memberNames,
      }),
    )
    .optional(),
});
/** Evaluates the bundle, extracts its definition and creates its code cache. Success is reported as one `ended` with outcome `output`. */
const ExtractSchema = z.strictObject({ type: z.literal("extract"), seq: SeqSchema, sha256, ...isolateFields });
/**
 * Parts: input as JSON text and, if it contains bytes, their BytesHeader as JSON text and the bytes (both empty if only turns follow);
 * then the recorded turns as a JSON array, for a call that replays them. The call ends with exactly one `ended`, followed by one `released`
 * unless `ended` had `released: true`.
 */
const CallSchema = z.strictObject({
  type: z.literal("call"),
  /** Whether to send the chunks of a streaming tool as they are produced. */
  stream: z.literal(true).optional(),
  seq: SeqSchema,
  toolId: SeqSchema,
  callId: z.string().max(1_024),
  tenantId: z.string().max(1_024),
  /**
   * Runs the call in the session's isolate, which stays open. With `once`, the tool and its bundle are used for this call only. With
   * `resumes`, an earlier call created the isolate, and the call fails if the isolate is gone.
   */
  session: z.strictObject({ id: SeqSchema, once: z.boolean(), resumes: z.literal(true).optional() }).optional(),
  /** Makes the call repeatable: it gets a new isolate whose clock starts at `now` and whose random numbers start from `seed`. */
  deterministic: z
    .strictObject({
      ...{ seed: z.string().max(MAX_SEED_LENGTH), now: CountSchema, mode: z.enum(TURN_MODES).optional() },
      /** Rolls a durable run back after its recorded turns. Limit of each function that the run registered, in ms. */
      rollbackMs: z.int().min(1).max(3_600_000).optional(),
    })
    .optional(),
  /**
   * Loads the tool into an isolate for a future call instead of running one. The outcome is `output`. `like`: the tool whose call rate
   * predicts that of this tool.
   */
  prewarm: z.strictObject({ like: SeqSchema.optional() }).optional(),
  /**
   * Runs the call on the worker's main thread, where no thread has to wake up, and stops it after this time in ms. The process reads no
   * message meanwhile, so the host sends this only if no other call is in the process, and sends no other call before the worker has
   * reported `parked` or the call's end.
   */
  mainThreadMs: z.int().min(1).max(MAX_MAIN_THREAD_MS).optional(),
});
/** A tool was updated or removed. The worker disposes its warm isolates and, with `bundle`, its code. Its running calls continue. */
const ForgetToolSchema = z.strictObject({ type: z.literal("forget-tool"), toolId: SeqSchema, bundle: z.boolean() });
/** A session has ended: the worker disposes its isolate, if it exists. */
const EndSessionSchema = z.strictObject({ type: z.literal("end-session"), session: SeqSchema });
/** Starts or stops idle reports for a call that waits for its client. The worker reports with `idle` messages. */
const WatchIdleSchema = z.strictObject({ type: z.literal("watch-idle"), seq: SeqSchema, isWatched: z.boolean() });
/** The call has timed out or was cancelled: the worker disposes its isolate. */
const CancelSchema = z.strictObject({ type: z.literal("cancel"), seq: SeqSchema });
/** The reader of a stream has consumed this number of further chunks. */
const CreditSchema = z.strictObject({ type: z.literal("credit"), seq: SeqSchema, chunks: SeqSchema });
/** Parts: a CapabilityEnvelope as JSON text. `mainThreadMs`: continues the call on the main thread, as in `call`. */
const CapabilityResultSchema = z.strictObject({
  type: z.literal("capability-result"),
  seq: SeqSchema,
  requestId: SeqSchema,
  mainThreadMs: z.int().min(1).max(MAX_MAIN_THREAD_MS).optional(),
  /** For a call that is rehearsed: how long the capability took in the recording, in ms. */
  latencyMs: CountSchema.optional(),
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

/** Settings of a tool, as the host sent them once, with the header of its calls. */
export interface ToolProfile extends ToolMessage {
  /** An InvokeHeader as JSON text. */
  readonly header: string;
  /** Whether the tool was updated or removed. If so, no isolate of it is kept. */
  isForgotten?: boolean;
}
