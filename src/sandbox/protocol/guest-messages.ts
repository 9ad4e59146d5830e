// Protocol across the isolate boundary: the messages that the guest's prelude posts, and the entries that the worker makes into the guest.
// All values are numbers, text or bytes. Type imports only: this file is bundled into the prelude and into the worker.
import type { MemberModule } from "./platform-modules.ts";

/**
 * Kind of a message that the prelude posts to the worker.
 *
 * | kind | a | b | c |
 * |---|---|---|---|
 * | `done` | {@link GuestOutcome} | JSON text | |
 * | `yield` | JSON text of the chunk that a streaming tool yielded | | |
 * | `log` | level | text, limited in length | `line:column` in the tool's script, if requested |
 * | `progress` | JSON text of {progress,total,message} | | |
 * | `span` | JSON text of {id,name,attributes}, {id,ok} or {name,agoMs,durationMs} | | |
 * | `capability` | request id | capability name | JSON text of the input |
 * | `timer` | timer id | delay in ms; 0 is the worker's next turn, a negative delay clears the timer | |
 *
 * If the value of a `done` or a `yield` contains bytes, its text is followed by the JSON text of a {@link BytesHeader} and the bytes.
 */
export type GuestMessageKind = "done" | "yield" | "log" | "progress" | "span" | "capability" | "timer";

/**
 * Kind of a synchronous request of the prelude. The guest waits while the worker responds.
 *
 * | kind | a | response |
 * |---|---|---|
 * | `module` | name | the platform module's script, whose completion value is a function that takes the module's dependencies |
 * | `random` | number of bytes | an ArrayBuffer |
 * | `crypto` | a method and its arguments as JSON text, then ArrayBuffers (crypto-messages.ts) | JSON text or an ArrayBuffer |
 * | `asset` | name of a file of the Python interpreter | an ArrayBuffer |
 * | `job` | request id, then as for `crypto` | JSON text: a failure, or a confirmation that the job has started |
 */
export type GuestRequestKind = "module" | "asset" | "random" | "crypto" | "job";

/** Limits of one text and of one ArrayBuffer in a request. Both are copied on the worker's main thread; 8 MiB take about 10 ms. */
export const MAX_QUESTION_LENGTH: number = 128 * 1024;
export const MAX_QUESTION_BYTES: number = 8 * 1024 * 1024;

/**
 * Outcome of an entry into the guest. Each comes with a text:
 *
 * | outcome | text |
 * |---|---|
 * | `ready` (the bundle is loaded) | empty |
 * | `output` | the value as JSON |
 * | `streamed` (the chunks were the output) | empty |
 * | `thrown` | a {@link GuestError} |
 * | `input`, `output-schema` (the value does not match the schema) | a list of {@link GuestIssue} |
 * | `unserializable` (the value is not JSON) | a {@link GuestError} |
 * | `rejected` (the module is not a tool) | a {@link GuestError} |
 * | `too-large` | the size in UTF-16 code units, as a decimal number |
 */
export const GUEST_OUTCOMES = [
  "ready",
  "output",
  "streamed",
  "thrown",
  "input",
  "output-schema",
  "unserializable",
  "rejected",
  "too-large",
] as const;
export type GuestOutcome = (typeof GUEST_OUTCOMES)[number];

/** A thrown value as texts of limited length. `stack` is V8's, with positions in the bundle. */
export interface GuestError {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  /** The error's own property `code`, if it is a short text. Set by the guest, so untrusted. */
  readonly code?: string;
  /** A code of ERROR_CODES. Only the prelude sets it, on errors that it created for a denied or failed capability call. */
  readonly capabilityCode?: string;
  /** Name of the capability, if the error is that it was not granted. */
  readonly capability?: string | undefined;
  /**
   * For a TypeError about `undefined`: names of the members of ctx that the call has read and that do not exist. The host finds out from the
   * tool's source whether one of them is the cause.
   */
  readonly missing?: readonly string[];
}

/** `code` of a GuestError with which the Python runtime reports that its interpreter has crashed. Its isolate cannot be used again. */
export const INTERPRETER_CRASHED = "INTERPRETER_CRASHED";

/** A validation issue that the tool's own schema library reported. */
export interface GuestIssue {
  /** JSON Pointer (RFC 6901) into the value. */
  readonly pointer: string;
  readonly message: string;
}

/**
 * Kind of an entry into the guest, through the prelude's only entry function `enter(kind, a, b, …)`. Each `load`, `describe` and `invoke`
 * ends with exactly one `done`.
 *
 * | kind | a | b |
 * |---|---|---|
 * | `load` | the bundle's function | JSON text of the {@link InvokeHeader} of the next calls if a warm-up call should run, else empty; then pairs of name and function for the platform modules that earlier isolates of the bundle used |
 * | `describe` | | |
 * | `invoke` | JSON text of the input | call id; then the JSON text of an {@link InvokeHeader} and the tenant id, if they differ from those of the last call; then whether to stream chunks, and the {@link BytesHeader} and the bytes of the input, if it has any |
 * | `invoke-now` | as for `invoke`, on the worker's main thread: what the guest posts from now on is posted at once | |
 * | `credit` | number of chunks that the reader has consumed | |
 * | `deliver` | request id | JSON text of a {@link CapabilityEnvelope}; then further such pairs |
 * | `deliver-now` | as for `deliver`, on the worker's main thread: what the guest posts from now on is posted at once | |
 * | `timer` | timer id | |
 * | `answer` | request id of a job | JSON text of a JobAnswer (crypto-messages.ts); then its ArrayBuffers |
 * | `rollback` | limit of each registered function in ms | |
 * | `unhandled` | reason of an unhandled promise rejection, as text | |
 */
export type EnterKind =
  | "load"
  | "describe"
  | "invoke"
  | "invoke-now"
  | "credit"
  | "deliver"
  | "deliver-now"
  | "timer"
  | "answer"
  | "rollback"
  | "unhandled";

/**
 * Flow control of a stream: the next chunk is not requested while this number of chunks, or this many UTF-16 code units of them,
 * are unread. The window exceeds what a reader consumes during one round trip of a credit.
 */
export const STREAM_WINDOW = { chunks: 256, units: 256 * 1024 } as const;

/**
 * Describes the bytes of a JSON value, which are sent next to its text. The text contains a placeholder for each: a string of `mark`
 * followed by an index into `lengths`. No other string in the value starts with `mark`.
 */
export interface BytesHeader {
  readonly mark: string;
  /** Length of each in bytes. They follow each other without gaps. */
  readonly lengths: readonly number[];
}
/** Maximum number of byte values in one JSON value. */
export const MAX_BYTES_VALUES = 1_000;

/** Response of a capability. Host functions never throw into the guest; they return one of these. */
export type CapabilityEnvelope =
  | { readonly ok: true; readonly value: unknown }
  | {
      readonly ok: false;
      readonly code: string;
      readonly message: string;
      /** For `fetch`: Node's code of the network error, such as `ECONNREFUSED`. */
      readonly networkCode?: string;
    };

/** Settings that the guest receives for the calls of a tool. The text is identical for each call. */
export interface InvokeHeader {
  /** Granted capabilities. Requested capabilities that the host did not grant are in `denied`. */
  readonly granted: readonly string[];
  readonly denied: readonly string[];
  /** Descriptors of capabilities in both lists, except those that are a plain function whose inputs are all counted. */
  readonly descriptors?: CapabilityDescriptors | undefined;
  readonly outputBytes: number;
  readonly logBytes: number;
  readonly logLines: number;
  readonly maxCapabilityCalls: number;
  readonly maxPendingCapabilityCalls: number;
  readonly timers: number;
  /** Whether console lines contain their source location. */
  readonly logSourceLocations?: boolean;
  /** Whether another call of the session may follow. Its pending timers continue in that call. */
  readonly isContinued?: boolean;
}

/** Descriptor of a capability: how the guest presents it in ctx, as defined by the host. */
export interface CapabilityDescriptor {
  /** Platform module that creates the member of ctx on first access. */
  readonly platformModule?: MemberModule | undefined;
  /** If set, the capability is an object in ctx with these methods. Each sends `{ op: MEMBER, args: […] }`. */
  readonly members?: readonly string[] | undefined;
  /** Inputs whose `op` is one of these do not count as capability calls. */
  readonly uncounted?: readonly string[] | undefined;
}
export type CapabilityDescriptors = { readonly [name: string]: CapabilityDescriptor };

/** Engine feature that a guest has only if the host grants it. ENGINE_FEATURES describes each. */
export type EngineFeature = "webAssembly" | "sharedArrayBuffer" | "atomics" | "resizableBuffers" | "stringToCode";

/** Options that the prelude receives as JSON text before it creates the guest's globals. */
export interface BootOptions {
  readonly features: readonly EngineFeature[];
  /** Whether the guest's clock is frozen while the guest runs. */
  readonly coarseTime: boolean;
  /** Whether the call is a durable run that is rolled back: it ends with the entry `rollback`, however its own code ends. */
  readonly isRollback?: boolean | undefined;
  /** For deterministic calls: the guest's clock starts at `now` and only its timers advance it. `words` is the seed of Math.random. */
  readonly deterministic?: { readonly now: number; readonly words: readonly number[] } | undefined;
}

/** Prefix of the filenames of all scripts in an isolate. */
export const SCRIPT_ORIGIN = "glovebox:///";
/** Filename of a tool's script in the isolate. Stack frames of it and of a session's cells are mapped to the author's files. */
export const TOOL_SCRIPT_NAME = "glovebox:///tool.js";
/** Filename of the prelude. Its frames are removed from stacks. */
export const PRELUDE_SCRIPT_NAME = "glovebox:///prelude.js";

/** Limits of an error that leaves a guest: texts in UTF-16 code units, and the number of issues. */
export const GUEST_ERROR_LIMITS = {
  name: 128,
  capability: 128,
  message: 8_192,
  stack: 16_384,
  issues: 100,
  missing: 16,
} as const;

/** Fields of a certificate that the guest receives, named as in Node's X509Certificate. */
export const CERTIFICATE_FIELDS = [
  "ca",
  "fingerprint",
  "fingerprint256",
  "fingerprint512",
  "infoAccess",
  "issuer",
  "keyUsage",
  "serialNumber",
  "signatureAlgorithm",
  "signatureAlgorithmOid",
  "subject",
  "subjectAltName",
  "validFrom",
  "validTo",
] as const;

/** Code of the error with which Python reports that a tool ran out of memory. Unlike V8, which ends the isolate, Python keeps running. */
export const PYTHON_OUT_OF_MEMORY = "PYTHON_MEMORY";
