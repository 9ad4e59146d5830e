// Schemas of what the control plane sends to executors: runs, answers of capabilities, cancellations, sessions, and parts of objects.
import * as z from "zod";
import { DeterministicStartSchema } from "../../../sandbox/protocol/host-message-schemas.ts";
import { PythonSchema } from "./executor-messages.ts";
import {
  CountSchema,
  callFields,
  countedFields,
  FleetIdSchema,
  fetchFields,
  MAX_FLEET_CALLS,
  MAX_FLEET_SESSIONS,
  NameSchema,
  ObjectNameSchema,
  objectFields,
  partFields,
  SecretSchema,
  Sha256Schema,
} from "./message-fields.ts";

/** Session whose isolate runs the call, one call at a time. The isolate outlives the call. */
const SessionSchema = z.strictObject({
  /** Name of the session between this control plane and this executor. */
  id: SecretSchema,
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
  key: SecretSchema,
  control: FleetIdSchema,
  /** Fencing token of this attempt. Messages with another one are ignored. */
  token: SecretSchema,
  callId: NameSchema,
  tenantId: NameSchema,
  /** Owner of the worker processes that may run the call. */
  owner: z.string().min(1).max(8_192),
  toolKey: z.string().max(8_192),
  weight: z.number().min(0.01).max(100),
  memoryMiB: z.int().min(1).max(65_536),
  /** The caller of this nested call waits for it, and lends its slot. */
  isNested: z.boolean(),
  stream: z.literal(true).optional(),
  exclusive: z.literal(true).optional(),
  dataBytes: CountSchema.optional(),
  /** Remaining time of the call in ms, if it may run on the main thread of its process. */
  leftMs: z.number().min(0).max(3_600_000).optional(),
  deterministic: DeterministicStartSchema.optional(),
  /** Not for Python calls, whose bundle is the runtime. */
  bundle: z.strictObject({ code: Sha256Schema, ...objectFields }).optional(),
  /** Only for executors that have announced this runtime. */
  python: PythonSchema.optional(),
  /** Only for executors that have announced that they keep sessions. */
  session: SessionSchema.optional(),
});

export type RunMessage = z.infer<typeof RunSchema>;

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
  key: SecretSchema,
  control: FleetIdSchema,
  tokens: z.array(SecretSchema).max(MAX_FLEET_CALLS),
  /** For each of them the number of its last message. Only for executors that count. */
  sent: z.array(CountSchema).max(MAX_FLEET_CALLS).optional(),
});

/** Lists all sessions of a control plane on this executor. A session that is missing ends. */
const HoldSessionsSchema = z.strictObject({
  type: z.literal("hold-sessions"),
  key: SecretSchema,
  control: FleetIdSchema,
  sessions: z.array(SecretSchema).max(MAX_FLEET_SESSIONS),
});

/** A session has ended: the executor disposes its isolate. */
const EndSessionSchema = z.strictObject({ type: z.literal("end-session"), key: SecretSchema, session: SecretSchema });

/** The processes of an owner end, for example because its tenant was deleted. */
const EndOwnerSchema = z.strictObject({
  type: z.literal("end-owner"),
  key: SecretSchema,
  owner: z.string().min(1).max(8_192),
  isShared: z.boolean(),
});

/** A tenant was deleted: bundles that only its calls have used are deleted. Executors of releases without this message ignore it. */
const DeleteTenantSchema = z.strictObject({
  type: z.literal("delete-tenant"),
  key: SecretSchema,
  tenantId: NameSchema,
});

/**
 * The executor finishes its calls, accepts no others, and ends. Executors of releases without this message ignore it.
 */
const DrainSchema = z.strictObject({ type: z.literal("drain"), key: SecretSchema });

/**
 * An earlier process with the same id is connected, so this one gets no calls, and ends. Executors of releases without this message ignore it.
 */
const IdInUseSchema = z.strictObject({ type: z.literal("id-in-use"), key: SecretSchema });

/** The control plane has Python tools: the executor prepares what it needs to start an interpreter. */
const PreparePythonSchema = z.strictObject({
  type: z.literal("prepare-python"),
  key: SecretSchema,
  runtime: Sha256Schema,
});

/** The message is in an object, because it is too large. Later messages with the same token wait for it. */
const ControlObjectSchema = z.strictObject({
  type: z.literal("object"),
  control: FleetIdSchema,
  ...callFields,
  ...objectFields,
});

/** Requests a part of an object that the receiver has offered about this attempt. */
const ControlFetchSchema = z.strictObject({ type: z.literal("fetch"), ...callFields, ...fetchFields });

export type PartRequest = z.infer<typeof ControlFetchSchema>;

/** Parts: the requested bytes; none if there is no such object. */
const ControlPartSchema = z.strictObject({ type: z.literal("part"), ...callFields, ...partFields });

/** The object was read, or is not needed: it can be dropped. */
const ControlReceivedSchema = z.strictObject({ type: z.literal("received"), ...callFields, name: ObjectNameSchema });

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
