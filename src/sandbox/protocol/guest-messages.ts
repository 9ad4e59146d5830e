// The words that cross the isolate wall: what the guest's prelude posts out, and what the worker asks of it. Numbers and text only.
// No imports but types: this file is bundled into the prelude and into the worker.
import type { MemberChunk } from "./platform-modules.ts";

/**
 * Posted by the prelude.
 *
 * | kind | a | b | c |
 * |---|---|---|---|
 * | `done` | {@link GuestOutcome} | JSON text | |
 * | `yield` | JSON text of what a streaming tool yielded | | |
 * | `log` | level | text, capped | `line:column` in the tool's script, when asked for |
 * | `progress` | JSON text of {progress,total,message} | | |
 * | `capability` | request id | capability name | JSON text of the input |
 * | `timer` | timer id | delay in ms; 0 is the worker's next turn, below 0 clears | |
 *
 * After the text of a `done` or a `yield` come, where it holds bytes, the JSON text of its {@link BytesHeader} and the bytes.
 */
export type GuestMessageKind = "done" | "yield" | "log" | "progress" | "capability" | "timer";

/**
 * Asked by the prelude, and answered by the worker while the guest waits.
 *
 * | kind | a | answer |
 * |---|---|---|
 * | `chunk` | name | the chunk's script, whose completion value is a function of what it requires |
 * | `random` | how many bytes | an ArrayBuffer |
 * | `crypto` | a method and its arguments as JSON text, then ArrayBuffers (crypto/wire.ts) | JSON text or an ArrayBuffer |
 * | `asset` | name of a file of the Python interpreter's | an ArrayBuffer |
 * | `job` | request id, then as for `crypto` | JSON text: a failure, or that the job has begun |
 */
export type GuestQuestionKind = "chunk" | "asset" | "random" | "crypto" | "job";

/** Of a part of a question: a text, or an ArrayBuffer. It is copied in the worker's main thread: 8 MiB in some 10 ms. */
export const MAX_QUESTION_UNITS: number = 128 * 1024;
export const MAX_QUESTION_BYTES: number = 8 * 1024 * 1024;

/**
 * How an entry into the guest ended; the text beside it:
 * `output` the value as JSON · `thrown` a {@link GuestError} · `input` / `output-schema` a list of {@link GuestIssue} ·
 * `unserializable` and `refused` a {@link GuestError} (the value is not JSON; the module is not a tool) ·
 * `too-large` the size in UTF-16 units, a number as text · `ready` empty: the bundle is loaded ·
 * `streamed` empty: the chunks were the output.
 */
export const GUEST_OUTCOMES = [
  "ready",
  "output",
  "streamed",
  "thrown",
  "input",
  "output-schema",
  "unserializable",
  "refused",
  "too-large",
] as const;
export type GuestOutcome = (typeof GUEST_OUTCOMES)[number];

/** A thrown value as text parts, capped; `stack` is V8's, in the bundle's coordinates. */
export interface GuestError {
  readonly name: string;
  readonly message: string;
  readonly stack: string;
  /** Own `code` of the error, if it had a short text one: the guest's word. */
  readonly code?: string;
  /** Set by the prelude alone, on errors that it made for a capability's refusal: a code of ERROR_CODES. */
  readonly capabilityCode?: string;
  /** Set with it where a capability was not granted: its name. */
  readonly capability?: string | undefined;
}

/** The `code` of a GuestError by which the Python runtime says that its interpreter has ended: its isolate is of no more use. */
export const INTERPRETER_CRASHED = "INTERPRETER_CRASHED";

/** One problem that the tool's own schema library found. */
export interface GuestIssue {
  /** RFC 6901 pointer into the value. */
  readonly pointer: string;
  readonly message: string;
}

/**
 * Asked of the prelude, through its one entry function `enter(kind, a, b, …)`. `load`, `describe` and `invoke` end in one `done`.
 *
 * | kind | a | b |
 * |---|---|---|
 * | `load` | the bundle's function | JSON text of the {@link InvokeHeader} of the calls to come, if what they run is to be run ahead, else empty; then names and functions, in turns, of chunks that earlier isolates of the bundle have touched |
 * | `describe` | | |
 * | `invoke` | JSON text of the input | call id; then the JSON text of an {@link InvokeHeader} and the tenant id, if they are not the last call's; then whether chunks are wanted, and the {@link BytesHeader} and the bytes of the input, if it has any |
 * | `credit` | number of chunks that their reader has taken | |
 * | `deliver` | request id | JSON text of a {@link CapabilityEnvelope}; then further pairs of the two |
 * | `timer` | timer id | |
 * | `answer` | request id of a job | JSON text of a JobAnswer (crypto/wire.ts); then its ArrayBuffers |
 * | `unhandled` | what a promise was rejected with that nobody handles, as text | |
 */
export type EnterKind = "load" | "describe" | "invoke" | "credit" | "deliver" | "timer" | "answer" | "unhandled";

/**
 * Chunks on their way from a tool to their reader: the tool is not asked for the next one while so many, or so much of them, have
 * not been taken. Some more than are read in the time that a credit takes to arrive.
 */
export const STREAM_WINDOW = { chunks: 256, units: 256 * 1024 } as const;

/**
 * Bytes in a JSON value travel beside its text: in their place stands the text `mark` followed by an index into `lengths`. No other
 * text in the value begins with `mark`.
 */
export interface BytesHeader {
  readonly mark: string;
  /** Of each, in bytes; they follow each other without a gap. */
  readonly lengths: readonly number[];
}
/** Values of bytes that one JSON value may hold. */
export const MAX_BYTES_VALUES = 1_000;

/** A capability's answer. Host functions never throw into the guest: they answer with one of these. */
export type CapabilityEnvelope =
  | { readonly ok: true; readonly value: unknown }
  | {
      readonly ok: false;
      readonly code: string;
      readonly message: string;
      /** Of `fetch`: what Node has as the code of a network failure, `ECONNREFUSED` for one. */
      readonly networkCode?: string;
    };

/** What every call of a tool is told; the same text from call to call. */
export interface InvokeHeader {
  /** Granted capabilities; those asked for but not granted are in `denied`. */
  readonly granted: readonly string[];
  readonly denied: readonly string[];
  /** Of those of both lists that are more than a function whose inputs all count. */
  readonly shapes?: CapabilityShapes | undefined;
  readonly outputBytes: number;
  readonly logBytes: number;
  readonly logLines: number;
  readonly hostCalls: number;
  readonly pendingHostCalls: number;
  readonly timers: number;
  /** Lines of console carry the place that they come from. */
  readonly logPlaces?: boolean;
  /** Another call of the session may follow: timers that wait go on in it. */
  readonly goesOn?: boolean;
}

/** How a capability looks from the guest, as the host that defined it says. */
export interface CapabilityShape {
  /** This chunk makes what it is in ctx, when that is first touched. */
  readonly chunk?: MemberChunk | undefined;
  /** It is an object in ctx: each of these sends `{ op: MEMBER, args: […] }`. */
  readonly members?: readonly string[] | undefined;
  /** Inputs with one of these as their `op` are not counted as host calls. */
  readonly uncounted?: readonly string[] | undefined;
}
export type CapabilityShapes = { readonly [name: string]: CapabilityShape };

/** What a guest has of the engine only when the host grants it; a row each in ENGINE_FEATURES. */
export type EngineFeature = "webAssembly" | "sharedArrayBuffer" | "atomics" | "resizableBuffers" | "stringToCode";

/** What the prelude is told before it gives the guest its globals, as JSON text. */
export interface BootOptions {
  readonly features: readonly EngineFeature[];
  /** The guest's clock stands still while the guest runs. */
  readonly coarseTime: boolean;
  /** The guest's clock begins at `now` and moves by its own timers only; Math.random begins with these four words. */
  readonly fixed?: { readonly now: number; readonly words: readonly number[] } | undefined;
}

/** Every script in an isolate is named below it. */
export const SCRIPT_ORIGIN = "glovebox:///";
/** The filename of a tool's script in the isolate: its frames, and those of a session's cells, are mapped to the author's files. */
export const TOOL_SCRIPT_NAME = "glovebox:///tool.js";
/** The filename of the prelude: its frames are dropped from stacks. */
export const PRELUDE_SCRIPT_NAME = "glovebox:///prelude.js";

/** Caps of the error text that leaves a guest, in UTF-16 units. */
export const GUEST_ERROR_CAPS = { name: 128, capability: 128, message: 8_192, stack: 16_384, issues: 100 } as const;

/** What is told of a certificate by the names that X509Certificate gives it. */
export const CERTIFICATE_FACTS = [
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

/** Code of the error by which Python says that the tool's memory was not enough: Python goes on, where V8 ends the isolate. */
export const PYTHON_OUT_OF_MEMORY = "PYTHON_MEMORY";
