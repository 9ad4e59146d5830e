// Schemas of the messages between control plane and executors. Each side parses what the other sends.
import * as z from "zod";
import { DeterministicStartSchema } from "../../../sandbox/protocol/host-message-schemas.ts";
import { FLEET_ID_PATTERN } from "./subjects.ts";
import { FLEET_PROTOCOL_VERSION, MAX_FLEET_BYTES } from "./wire.ts";

/** Most calls of one control plane on one executor, nested ones included. */
export const MAX_FLEET_CALLS = 8_192;
/** Most calls that an executor runs at the same time, without nested ones. */
export const MAX_SLOTS = 2_048;
/** Most sessions on one executor. */
export const MAX_FLEET_SESSIONS = 4_096;
/** For each slot, an executor accepts this number of nested calls beyond its slots, since their callers wait for them. */
export const NESTED_PER_SLOT = 3;

/** Room for the JSON of a message and the protocol of NATS around what it carries. */
const OVERHEAD_BYTES = 4_096;
/** Messages above this size are read in parts, so that large ones of one call do not delay those of others. */
export const MAX_DIRECT_BYTES: number = 256 * 1024;
/** Largest part of such a message. */
export const MAX_PART_BYTES: number = 256 * 1024;

/** Returns how many bytes one message may carry. @param maxPayload largest payload that the NATS server accepts, in bytes */
export const carriedBytes = (maxPayload: number, limit: number): number => Math.min(limit, maxPayload - OVERHEAD_BYTES);

/** 16 random bytes in base64url. */
const secret = z.string().regex(/^[A-Za-z0-9_-]{22}$/);
const id = z.string().regex(FLEET_ID_PATTERN);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);
const name = z.string().max(1_024);
/** Name of an object among those of its attempt. */
const objectName = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);
/** An object that holds a message or a bundle, and that the receiver reads in parts. */
const objectFields = {
  name: objectName,
  sha256,
  bytes: z.int().min(1).max(MAX_FLEET_BYTES),
};
export const ObjectRefSchema = z.strictObject(objectFields);
export type ObjectRef = z.infer<typeof ObjectRefSchema>;

/**
 * Published regularly by an executor. The subject carries its id and pool, which NATS checks. Control planes repeat `key`,
 * a secret of this process, in each message. A message with another key is ignored.
 */
export const AnnouncementSchema = z.strictObject({
  type: z.literal("alive"),
  protocol: z.literal(FLEET_PROTOCOL_VERSION),
  key: secret,
  version: z.string().max(64),
  /** Start of the process, in ms since 1970. */
  since: count,
  slots: z.int().min(1).max(MAX_SLOTS),
  /** Calls that it runs, without nested ones. */
  busy: count,
  isDraining: z.boolean(),
});
export type Announcement = z.infer<typeof AnnouncementSchema>;

/**
 * The languages that an executor runs in addition to JavaScript, and what else it can do: a part of its announcements,
 * which control planes of releases without it ignore. What later releases add is ignored as well.
 */
export const LanguagesSchema = z.object({
  /** Hash of its Python runtime. It gets calls only from control planes with the same one. */
  python: sha256.optional(),
  /** Whether it can start an interpreter at once. Before that, it waits for a request to prepare Python, and gets no calls. */
  isPythonReady: z.boolean().optional(),
  /** Whether it keeps the isolates of sessions. Without it, it gets no calls of sessions. */
  hasSessions: z.boolean().optional(),
  /** Whether it notices when a message about a call is missing. Without it, messages have no numbers. */
  countsMessages: z.boolean().optional(),
});
export type Languages = z.infer<typeof LanguagesSchema>;
/** Largest size of the languages part of an announcement. */
export const MAX_LANGUAGES_BYTES = 1_024;

/** A Python call. Its source and wheels are objects that the executor keeps. */
const PythonSchema = z.strictObject({
  /** Hash of the runtime that the call needs. */
  runtime: sha256,
  /** Text that the input begins with, and that the message does not hold. */
  source: ObjectRefSchema.optional(),
  wheels: ObjectRefSchema.optional(),
});

/** Session whose isolate runs the call, one call at a time. The isolate outlives the call. */
const SessionSchema = z.strictObject({
  /** Name of the session between this control plane and this executor. */
  id: secret,
  /** Bundle and settings are used for this call only. */
  once: z.boolean(),
  /** An earlier call has left its isolate. If the executor does not have it any longer, it rejects the call. */
  resumes: z.literal(true).optional(),
});

/**
 * Parts: the settings of the tool as JSON text, the input; the BytesHeader of the input and its bytes (both empty if
 * there are none); the recorded turns as JSON text (empty if there are none). The executor responds with `rejected`, or
 * with one `ended` event or `lost`, and before it within a few ms if the call takes longer.
 */
const RunSchema = z.strictObject({
  type: z.literal("run"),
  key: secret,
  control: id,
  /** Fencing token of this attempt. Messages with another one are ignored. */
  token: secret,
  callId: name,
  tenantId: name,
  /** Owner of the worker processes that may run the call. */
  owner: z.string().min(1).max(8_192),
  toolKey: z.string().max(8_192),
  weight: z.number().min(0.01).max(100),
  memoryMiB: z.int().min(1).max(65_536),
  /** The caller of this nested call waits for it, and lends its slot. */
  isNested: z.boolean(),
  stream: z.literal(true).optional(),
  exclusive: z.literal(true).optional(),
  dataBytes: count.optional(),
  /** Remaining time of the call in ms, if it may run on the main thread of its process. */
  leftMs: z.number().min(0).max(3_600_000).optional(),
  deterministic: DeterministicStartSchema.optional(),
  /** Not for Python calls, whose bundle is the runtime. */
  bundle: z.strictObject({ code: sha256, ...objectFields }).optional(),
  /** Only for executors that have announced this runtime. */
  python: PythonSchema.optional(),
  /** Only for executors that have announced that they keep sessions. */
  session: SessionSchema.optional(),
});
export type RunMessage = z.infer<typeof RunSchema>;

const callFields = { key: secret, token: secret };
/**
 * `n` counts the messages about an attempt from 1, so that a missing one is noticed. Only for executors that have announced
 * that they count.
 */
const countedFields = { ...callFields, n: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional() };
/** Parts: a CapabilityEnvelope as JSON text. */
const AnswerSchema = z.strictObject({
  type: z.literal("answer"),
  ...countedFields,
  requestId: z.int().min(1).max(Number.MAX_SAFE_INTEGER),
  latencyMs: z.number().min(0).max(Number.MAX_SAFE_INTEGER).optional(),
});
const CancelSchema = z.strictObject({ type: z.literal("cancel"), ...countedFields });
/** Lets the executor send this many more chunks of a streamed call. */
const CreditSchema = z.strictObject({
  type: z.literal("credit"),
  ...countedFields,
  chunks: z.int().min(1).max(1_000_000),
});
/** Says that a call waits for a person or a model, so that other calls may use its slot, or that this wait has ended. */
const RestSchema = z.strictObject({ type: z.literal("rest"), ...countedFields, isResting: z.boolean() });
const WatchIdleSchema = z.strictObject({ type: z.literal("watch-idle"), ...countedFields, isWatched: z.boolean() });
/**
 * Lists all calls of a control plane on this executor. A call that is missing is cancelled. If the executor does not run one of
 * them, it responds with `running`.
 */
const HoldSchema = z.strictObject({
  type: z.literal("hold"),
  key: secret,
  control: id,
  tokens: z.array(secret).max(MAX_FLEET_CALLS),
  /** For each of them the number of its last message. Only for executors that count. */
  sent: z.array(count).max(MAX_FLEET_CALLS).optional(),
});
/** Lists all sessions of a control plane on this executor. A session that is missing ends. */
const HoldSessionsSchema = z.strictObject({
  type: z.literal("hold-sessions"),
  key: secret,
  control: id,
  sessions: z.array(secret).max(MAX_FLEET_SESSIONS),
});
/** A session has ended: the executor disposes its isolate. */
const EndSessionSchema = z.strictObject({ type: z.literal("end-session"), key: secret, session: secret });
/** The processes of an owner end, for example because its tenant was deleted. */
const EndOwnerSchema = z.strictObject({
  type: z.literal("end-owner"),
  key: secret,
  owner: z.string().min(1).max(8_192),
  isShared: z.boolean(),
});
/** A tenant was deleted: bundles that only its calls have used are deleted. Executors of releases without this message ignore it. */
const DeleteTenantSchema = z.strictObject({ type: z.literal("delete-tenant"), key: secret, tenantId: name });
/**
 * The executor finishes its calls, accepts no others, and ends. Executors of releases without this message ignore it.
 */
const DrainSchema = z.strictObject({ type: z.literal("drain"), key: secret });
/**
 * An earlier process with the same id is connected, so this one gets no calls, and ends. Executors of releases without this message ignore it.
 */
const IdInUseSchema = z.strictObject({ type: z.literal("id-in-use"), key: secret });
/** The control plane has Python tools: the executor prepares what it needs to start an interpreter. */
const PreparePythonSchema = z.strictObject({ type: z.literal("prepare-python"), key: secret, runtime: sha256 });
/** The message is in an object, because it is too large. Later messages with the same token wait for it. */
const ControlObjectSchema = z.strictObject({ type: z.literal("object"), control: id, ...callFields, ...objectFields });

const fetchFields = {
  name: objectName,
  from: z.int().min(0).max(MAX_FLEET_BYTES),
  length: z.int().min(1).max(MAX_PART_BYTES),
};
/** Requests a part of an object that the receiver has offered about this attempt. */
const ControlFetchSchema = z.strictObject({ type: z.literal("fetch"), ...callFields, ...fetchFields });
export type PartRequest = z.infer<typeof ControlFetchSchema>;
const partFields = { name: objectName, from: fetchFields.from };
/** Parts: the requested bytes; none if there is no such object. */
const ControlPartSchema = z.strictObject({ type: z.literal("part"), ...callFields, ...partFields });
/** The object was read, or is not needed: it can be dropped. */
const ControlReceivedSchema = z.strictObject({ type: z.literal("received"), ...callFields, name: objectName });

/** A message to an executor. */
export const ControlMessageSchema = z.discriminatedUnion("type", [
  RunSchema,
  AnswerSchema,
  CancelSchema,
  CreditSchema,
  RestSchema,
  WatchIdleSchema,
  HoldSchema,
  HoldSessionsSchema,
  EndSessionSchema,
  EndOwnerSchema,
  DeleteTenantSchema,
  DrainSchema,
  IdInUseSchema,
  PreparePythonSchema,
  ControlObjectSchema,
  ControlFetchSchema,
  ControlPartSchema,
  ControlReceivedSchema,
]);
export type ControlMessage = z.infer<typeof ControlMessageSchema>;

/** `n` counts the messages of an attempt from 1, so that a missing one is noticed. */
const eventFields = { token: secret, n: z.int().min(1).max(Number.MAX_SAFE_INTEGER) };
/**
 * The executor does not run the call, and no code of it has run. `no-bundle`: it found no valid object of the bundle;
 * `no-session`: it does not have the isolate of the session. Nothing follows.
 */
const RejectedSchema = z.strictObject({
  type: z.literal("rejected"),
  ...eventFields,
  reason: z.enum(["full", "draining", "no-bundle", "no-session", "failed"]),
});
export type RejectionReason = z.infer<typeof RejectedSchema>["reason"];
const AcceptedSchema = z.strictObject({ type: z.literal("accepted"), ...eventFields });
/** Largest age of an event in a message, in ms. */
export const MAX_AGE_MS = 3_600_000;
const ageMs = z.number().min(0).max(MAX_AGE_MS);
/** A worker process has had the call for `placedMs`. */
const PlacedSchema = z.strictObject({ type: z.literal("placed"), ...eventFields, placedMs: ageMs.optional() });
/**
 * `message`: a WorkerMessage about the call, with the parts of this message. It also reports the states of the call that no
 * earlier message has reported, so that a short call needs one message.
 */
const EventSchema = z.strictObject({
  type: z.literal("event"),
  ...eventFields,
  message: z.unknown(),
  /** As with `placed`. */
  placedMs: ageMs.optional(),
  /** The isolate was ready before this message. */
  isStarted: z.literal(true).optional(),
  /** With `ended`: largest growth of the process while the call ran, in bytes. */
  peakBytes: count.optional(),
});
/** The worker process of the call has ended, and the executor does not run it again. */
const LostSchema = z.strictObject({
  type: z.literal("lost"),
  ...eventFields,
  begun: z.boolean(),
  outOfMemory: z.boolean(),
  isNotStarted: z.boolean(),
  peakBytes: count,
});
/** All calls of a control plane that run on the executor, each with the number of its last message. */
const RunningSchema = z.strictObject({
  type: z.literal("running"),
  calls: z.array(z.tuple([secret, count])).max(MAX_FLEET_CALLS),
});
/** Sessions whose isolates the executor does not have any longer, each with the reason why its process has ended. */
const SessionsEndedSchema = z.strictObject({
  type: z.literal("sessions-ended"),
  sessions: z.array(z.tuple([secret, z.enum(["memory", "stuck", "budget", "room", "other"])])).max(MAX_FLEET_SESSIONS),
});
export type SessionEnding = z.infer<typeof SessionsEndedSchema>["sessions"][number];
/** As in a message to an executor. */
const ExecutorObjectSchema = z.strictObject({ type: z.literal("object"), ...eventFields, ...objectFields });
/** As in messages to an executor, and not counted. */
const ExecutorFetchSchema = z.strictObject({ type: z.literal("fetch"), token: secret, ...fetchFields });
const ExecutorPartSchema = z.strictObject({ type: z.literal("part"), token: secret, ...partFields });
const ExecutorReceivedSchema = z.strictObject({ type: z.literal("received"), token: secret, name: objectName });

/** A message of an executor. */
export const ExecutorMessageSchema = z.discriminatedUnion("type", [
  AcceptedSchema,
  RejectedSchema,
  PlacedSchema,
  EventSchema,
  LostSchema,
  RunningSchema,
  SessionsEndedSchema,
  ExecutorObjectSchema,
  ExecutorFetchSchema,
  ExecutorPartSchema,
  ExecutorReceivedSchema,
]);
export type ExecutorMessage = z.infer<typeof ExecutorMessageSchema>;
/** A message that is counted: its attempt has sent `n`. */
export type CountedMessage = Extract<ExecutorMessage, { readonly n: number }>;
/** A message about one call. */
export type ExecutorCallMessage = Exclude<CountedMessage, { type: "object" }>;
