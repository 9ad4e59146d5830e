// Defines the format of a recorded call (version 1): everything that the call received from outside, in the order in which it received it.
// With the same bundle, a recording gives the same output. Recordings are untrusted where they are read: from files, databases, uploads.
import { isDeepStrictEqual } from "node:util";
import * as z from "zod";
import { ENGINE_FEATURE_NAMES, EngineFeatureSchema } from "../../sandbox/contract/engine-features.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LimitsSchema } from "../../sandbox/contract/limits.ts";
import { MAX_MEMBER_LENGTH, MAX_MEMBERS, MAX_SEED_LENGTH } from "../../sandbox/protocol/message-fields.ts";
import { MEMBER_MODULES } from "../../sandbox/protocol/platform-modules.ts";
import { TurnsSchema } from "../../sandbox/protocol/turn-schemas.ts";
import { formatIssues } from "../json/format-issues.ts";

export const RECORDING_FORMAT = "glovebox-recording";
export const RECORDING_VERSION = 1;

const MAX_TEXT = 256 * 1024 * 1024;
const MAX_REQUESTS = 1_000_000;
/** No call has more: see the limit `jsonValues`. */
const MAX_CHUNKS = 2_000_000;
const count = z.number().min(0).max(Number.MAX_SAFE_INTEGER);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const name = z.string().max(64);
const members = z.array(z.string().max(MAX_MEMBER_LENGTH)).max(MAX_MEMBERS).readonly().optional();

/** Longest part of a request's input that a recording shows, in UTF-16 code units. */
export const SHOWN_INPUT_LENGTH = 1_000;

/** One call of a capability, or of another tool. */
const RequestSchema = z.strictObject({
  /** Position: the number of the request in the call. */
  id: z.int().min(1),
  name,
  /** SHA-256 of the input as canonical JSON. */
  inputHash: sha256,
  /**
   * For a request of `fetch` whose input is longer than what the recording shows: number of the HTTP exchange, and the hash of the input without it.
   * Another version may number its exchanges differently.
   */
  exchange: z.strictObject({ id: z.number(), hash: sha256 }).optional(),
  /** For the reader: the first 1,000 characters of the input. */
  input: z.string().max(SHOWN_INPUT_LENGTH),
  /** The answer as JSON text: `{"ok":true,"value":…}` or `{"ok":false,"code":…,"message":…}`. Absent if the call ended before it arrived. */
  answer: z.string().max(MAX_TEXT).optional(),
  /** Time of the request by the call's clock, in ms since 1970. */
  at: count,
});

/** Settings of the call's isolate that a tool can observe. */
export const ProfileSchema = z.strictObject({
  limits: LimitsSchema,
  features: z.array(EngineFeatureSchema).max(ENGINE_FEATURE_NAMES.length).readonly(),
  granted: z.array(name).max(256).readonly(),
  denied: z.array(name).max(256).readonly(),
  descriptors: z
    .record(name, z.strictObject({ platformModule: z.enum(MEMBER_MODULES).optional(), members, uncounted: members }))
    .readonly()
    .optional(),
  logSourceLocations: z.boolean(),
});

const OutcomeSchema = z.union([
  z.strictObject({
    /** Output as JSON text. Bytes in it are placeholders. */
    output: z.string().max(MAX_TEXT),
    /** SHA-256 of output, its bytes, and content. */
    digest: sha256,
  }),
  z.strictObject({
    error: z.strictObject({
      code: z.string().max(64),
      message: z.string().max(1_000_000),
      /** Name and `code` of the error that the tool threw. Recordings of earlier versions lack them. */
      details: z
        .strictObject({ errorName: z.string().max(1_024), errorCode: z.string().max(128).optional() })
        .optional(),
    }),
  }),
]);

const ChunksSchema = z.strictObject({
  count: z.int().min(0),
  /** SHA-256 of all chunks, with their bytes. */
  digest: sha256,
  /**
   * The first chunks as JSON texts, as many as fit into the recording. Bytes in them are placeholders. Empty for a tool that returned nothing,
   * because its output is the list of its chunks.
   */
  texts: z.array(z.string().max(MAX_TEXT)).max(MAX_CHUNKS).readonly(),
});

export const RecordingSchema = z.strictObject({
  format: z.literal(RECORDING_FORMAT),
  version: z.literal(RECORDING_VERSION),
  /** Version of Glovebox and of V8 that ran the call. */
  engine: z.strictObject({ glovebox: z.string().max(64), v8: z.string().max(64) }),
  /** Time of the recording, in ms since 1970. */
  recordedAt: count,
  toolName: z.string().min(1).max(128),
  toolVersion: z.string().max(128).optional(),
  bundle: sha256,
  callId: z.string().max(1_024),
  tenantId: z.string().max(1_024),
  /** Arguments as JSON text. `bytes`: the bytes in them, as base64; the placeholder of `parts[n]` is `mark` followed by n. */
  input: z.strictObject({
    text: z.string().max(MAX_TEXT),
    bytes: z.strictObject({ mark: z.string().min(1).max(64), parts: z.array(z.base64()).max(1_000) }).optional(),
  }),
  profile: ProfileSchema,
  /** Seed of all random numbers, and the first time of the clock. The seed is a secret: it reveals keys that the call created. */
  start: z.strictObject({ seed: z.string().min(1).max(MAX_SEED_LENGTH), now: count }),
  /** Everything that reached the tool, in order: see `Turn`. */
  turns: TurnsSchema,
  requests: z.array(RequestSchema).max(MAX_REQUESTS),
  outcome: OutcomeSchema,
  /** What the reader of a stream received before the outcome; null if the call was not streamed. Recordings of earlier versions lack it. */
  chunks: ChunksSchema.nullable().optional(),
  /** Time in ms from admission to the outcome, CPU time, and memory, for comparisons. */
  usage: z.strictObject({ executeMs: count, cpuMs: count, peakBytes: count, heapBytes: count }),
  /** Whether `record.redact` has replaced values in it. */
  redacted: z.literal(true).optional(),
  /** Why the recording has gaps. Such a recording cannot be replayed. */
  incomplete: z.enum(["too_large", "too_many_turns", "interrupted"]).optional(),
});

/** A recorded call: plain JSON, see docs/guides/replay.md. */
export type CallRecording = z.infer<typeof RecordingSchema>;
export type RecordedRequest = CallRecording["requests"][number];
export type RecordedOutcome = CallRecording["outcome"];
export type RecordedError = Extract<RecordedOutcome, { readonly error: unknown }>["error"];
export type RecordedChunks = z.infer<typeof ChunksSchema>;

/** Returns whether an error is the recorded one. Details are not compared with a recording of an earlier version, which has none. */
export const isRecordedError = (recorded: RecordedError, { code, message, details }: RecordedError): boolean =>
  code === recorded.code &&
  message === recorded.message &&
  (recorded.details === undefined || isDeepStrictEqual(details, recorded.details));

/** Default and bounds of `record.maxBytes`. */
export const RECORDING_BYTES = { default: 1024 * 1024, max: 64 * 1024 * 1024, min: 1_024 } as const;

/**
 * Validates a recording that was stored elsewhere.
 * @param value a recording as plain JSON, for example from `JSON.parse`
 * @throws {ToolError} PARAM_INVALID for anything but a recording of this version
 * @example
 * const recording = parseRecording(JSON.parse(await readFile("call.json", "utf8")));
 */
export function parseRecording(value: unknown): CallRecording {
  const version = typeof value === "object" && value !== null ? (value as { version?: unknown }).version : undefined;
  if (typeof version === "number" && version !== RECORDING_VERSION) {
    const message = `The recording has format version ${version}. Expected version ${RECORDING_VERSION}`;
    throw new ToolError("PARAM_INVALID", message);
  }
  const parsed = RecordingSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.slice(0, 5).map(({ path, message }) => ({
    pointer: `/${path.map(String).join("/")}`,
    message,
  }));
  throw new ToolError("PARAM_INVALID", `The recording is not valid: ${formatIssues(issues)}`);
}
