// The messages that the host sends to a worker. The comment of a message lists the parts of its frame. They are types without schemas: the
// worker trusts its host, which has the same version, and to build schemas took a tenth of the CPU time of each worker's start.
import type { Limits } from "../contract/limits.ts";
import type { CapabilityDescriptors, EngineFeature } from "./guest-messages.ts";
import type { IsolateLifetime, PROTOCOL_VERSION } from "./message-fields.ts";
import type { PlatformModuleName } from "./platform-modules.ts";
import type { TurnMode } from "./turns.ts";

/** Longest time of a call on the worker's main thread in ms: the largest `timeoutMs`, and time for the host to end the call first. */
export const MAX_MAIN_THREAD_MS = 301_000;

/** Settings of an isolate, for a call and for the extraction of a definition. */
interface IsolateSettings {
  readonly limits: Limits;
  readonly features: readonly EngineFeature[];
  readonly coarseTime: boolean;
}

/** Parts: prelude source, V8 code cache of the prelude (may be empty), and the code caches of the platform modules (length-prefixed.ts). */
interface InitMessage {
  readonly type: "init";
  readonly protocolVersion: typeof PROTOCOL_VERSION;
  /** Whether the worker's isolates can be inspected. Only the host sets it, on the request of its operator. */
  readonly inspect?: true | undefined;
}

/**
 * Sent after `init` to a process that runs Python. Parts: the code of the Python runtime (which is the bundle of all its tools), its V8
 * code cache (may be empty), Pyodide's wasm, its standard library, and the snapshot of its memory (may be empty). The worker responds with
 * one `python-ready`.
 */
export interface PythonMessage {
  readonly type: "python";
  readonly sha256: string;
  readonly coarseTime: boolean;
  /** Size of the warm pool: isolates with Python loaded and no tool. */
  readonly warmIsolates: number;
}

/** Sent before `python`. Parts: a wheel that Python code can import. */
interface PythonPackageMessage {
  readonly type: "python-package";
  readonly fileName: string;
}

/**
 * Sent once per worker and bundle, before the first call that uses it. Parts: code, V8 code cache (may be empty). `modules`: the platform
 * modules that its isolates in other workers have used.
 */
interface BundleMessage {
  readonly type: "bundle";
  readonly sha256: string;
  readonly modules: readonly PlatformModuleName[];
}

/** Settings of a tool: how its calls run. */
export interface WorkerToolProfile extends IsolateSettings {
  readonly sha256: string;
  readonly isolateLifetime: IsolateLifetime;
  /** Whether the tool's top-level code may run before a call arrives. */
  readonly prewarm: boolean;
  /** Whether console lines contain their source location. */
  readonly logSourceLocations: boolean;
  /** Whether the tool's isolates are repeatable and report their turns. */
  readonly isRecorded?: true | undefined;
  readonly granted: readonly string[];
  readonly denied: readonly string[];
  readonly descriptors?: CapabilityDescriptors | undefined;
}

/** Sent once per worker; calls refer to the tool by `toolId`. */
export interface ToolMessage extends WorkerToolProfile {
  readonly type: "tool";
  readonly toolId: number;
}

/** Evaluates the bundle, extracts its definition and creates its code cache. Success is reported as one `ended` with outcome `output`. */
interface ExtractMessage extends IsolateSettings {
  readonly type: "extract";
  readonly seq: number;
  readonly sha256: string;
}

/** Makes a call repeatable: it gets a new isolate whose clock starts at `now` and whose random numbers start from `seed`. */
export interface DeterministicStart {
  readonly seed: string;
  readonly now: number;
  readonly mode?: TurnMode | undefined;
  /** Rolls a durable run back after its recorded turns. Limit of each function that the run registered, in ms. */
  readonly rollbackMs?: number | undefined;
}

/**
 * Parts: input as JSON text and, if it contains bytes, their BytesHeader as JSON text and the bytes (both empty if only turns follow);
 * then the recorded turns as a JSON array, for a call that replays them. The call ends with exactly one `ended`, followed by one `released`
 * unless `ended` had `released: true`.
 */
interface CallMessage {
  readonly type: "call";
  /** Whether to send the chunks of a streaming tool as they are produced. */
  readonly stream?: true | undefined;
  readonly seq: number;
  readonly toolId: number;
  readonly callId: string;
  readonly tenantId: string;
  /**
   * Runs the call in the session's isolate, which stays open. With `once`, the tool and its bundle are used for this call only. With
   * `resumes`, an earlier call created the isolate, and the call fails if the isolate is gone.
   */
  readonly session?: { readonly id: number; readonly once: boolean; readonly resumes?: true | undefined } | undefined;
  readonly deterministic?: DeterministicStart | undefined;
  /**
   * Loads the tool into an isolate for a future call instead of running one. The outcome is `output`. `like`: the tool whose call rate
   * predicts that of this tool.
   */
  readonly prewarm?: { readonly like?: number | undefined } | undefined;
  /**
   * Runs the call on the worker's main thread, where no thread has to wake up, and stops it after this time in ms. The process reads no
   * message meanwhile, so the host sends this only if no other call is in the process, and sends no other call before the worker has
   * reported `parked` or the call's end.
   */
  readonly mainThreadMs?: number | undefined;
}

/** Text in place of an envelope, for a call that is rehearsed: the recording has no answer, so the request stays open. */
export const NO_ANSWER = "";

/** Parts: a CapabilityEnvelope as JSON text, or {@link NO_ANSWER}. `mainThreadMs`: continues the call on the main thread, as in `call`. */
interface CapabilityResultMessage {
  readonly type: "capability-result";
  readonly seq: number;
  readonly requestId: number;
  readonly mainThreadMs?: number | undefined;
  /** For a call that is rehearsed: how long the capability took in the recording, in ms. */
  readonly latencyMs?: number | undefined;
}

export type HostMessage =
  | InitMessage
  | PythonMessage
  | PythonPackageMessage
  | BundleMessage
  | ToolMessage
  | ExtractMessage
  | CallMessage
  | CapabilityResultMessage
  /** The call has timed out or was cancelled: the worker disposes its isolate. */
  | { readonly type: "cancel"; readonly seq: number }
  /** Starts or stops idle reports for a call that waits for its client. The worker reports with `idle` messages. */
  | { readonly type: "watch-idle"; readonly seq: number; readonly isWatched: boolean }
  /** A session has ended: the worker disposes its isolate, if it exists. */
  | { readonly type: "end-session"; readonly session: number }
  /** A tool was updated or removed. The worker disposes its warm isolates and, with `bundle`, its code. Its running calls continue. */
  | { readonly type: "forget-tool"; readonly toolId: number; readonly bundle: boolean }
  /** The reader of a stream has consumed this number of further chunks. */
  | { readonly type: "credit"; readonly seq: number; readonly chunks: number }
  /** Requests a `pong`. A healthy worker responds soon, unless a call runs on its main thread. */
  | { readonly type: "ping" }
  /** Requests the code caches of the platform modules from a worker that has not run any tool code. It responds with one `module-caches`. */
  | { readonly type: "make-module-caches" }
  /** Sent only to a worker that was started with `inspect`. Parts: a message of the DevTools protocol, for the isolate of this call. */
  | { readonly type: "inspect"; readonly seq: number }
  /** Continues the call's isolate: the DevTools client has finished its setup, such as setting breakpoints. */
  | { readonly type: "inspect-go"; readonly seq: number };

/** How to run a bundle's top-level code, in a call and in the extraction of a definition. */
export type ExtractionProfile = Omit<ExtractMessage, "type" | "seq">;

/** Settings of a tool, as the host sent them once, with the header of its calls. */
export interface ToolProfile extends ToolMessage {
  /** An InvokeHeader as JSON text. */
  readonly header: string;
  /** Whether the tool was updated or removed. If so, no isolate of it is kept. */
  isForgotten?: boolean;
}
