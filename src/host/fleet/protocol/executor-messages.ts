// Schemas of what executors send to the control plane: announcements, events of calls, lists of what runs.
import * as z from "zod";
import {
  CountSchema,
  fetchFields,
  MAX_FLEET_CALLS,
  MAX_FLEET_SESSIONS,
  MAX_SLOTS,
  MAX_TIME,
  ObjectNameSchema,
  ObjectRefSchema,
  objectFields,
  partFields,
  SecretSchema,
  Sha256Schema,
} from "./message-fields.ts";
import { FLEET_PROTOCOL_VERSION } from "./wire.ts";

/**
 * Published regularly by an executor. The subject carries its id and pool, which NATS checks. Control planes repeat `key`,
 * a secret of this process, in each message. A message with another key is ignored.
 */
export const AnnouncementSchema = z.strictObject({
  type: z.literal("alive"),
  protocol: z.literal(FLEET_PROTOCOL_VERSION),
  key: SecretSchema,
  version: z.string().max(64),
  /** Start of the process, in ms since 1970. */
  since: z.int().min(0).max(MAX_TIME),
  slots: z.int().min(1).max(MAX_SLOTS),
  /** Calls that it runs, without nested ones. */
  busy: z.int().min(0).max(MAX_SLOTS),
  isDraining: z.boolean(),
});

export type Announcement = z.infer<typeof AnnouncementSchema>;

/** A Python call. Its source and wheels are objects that the executor keeps. */
export const PythonSchema = z.strictObject({
  /** Hash of the runtime that the call needs. */
  runtime: Sha256Schema,
  /** Text that the input begins with, and that the message does not hold. */
  source: ObjectRefSchema.optional(),
  wheels: ObjectRefSchema.optional(),
});

/** `n` counts the messages of an attempt from 1, so that a missing one is noticed. */
const eventFields = { token: SecretSchema, n: z.int().min(1).max(Number.MAX_SAFE_INTEGER) };

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
  peakBytes: CountSchema.optional(),
});

/** The worker process of the call has ended, and the executor does not run it again. */
const LostSchema = z.strictObject({
  type: z.literal("lost"),
  ...eventFields,
  begun: z.boolean(),
  outOfMemory: z.boolean(),
  isNotStarted: z.boolean(),
  peakBytes: CountSchema,
});

/** All calls of a control plane that run on the executor, each with the number of its last message. */
const RunningSchema = z.strictObject({
  type: z.literal("running"),
  calls: z.array(z.tuple([SecretSchema, CountSchema])).max(MAX_FLEET_CALLS),
});

/** Sessions whose isolates the executor does not have any longer, each with the reason why its process has ended. */
const SessionsEndedSchema = z.strictObject({
  type: z.literal("sessions-ended"),
  sessions: z
    .array(z.tuple([SecretSchema, z.enum(["memory", "stuck", "budget", "room", "other"])]))
    .max(MAX_FLEET_SESSIONS),
});

export type SessionEnding = z.infer<typeof SessionsEndedSchema>["sessions"][number];

/** As in a message to an executor. */
const ExecutorObjectSchema = z.strictObject({ type: z.literal("object"), ...eventFields, ...objectFields });

/** As in messages to an executor, and not counted. */
const ExecutorFetchSchema = z.strictObject({ type: z.literal("fetch"), token: SecretSchema, ...fetchFields });

const ExecutorPartSchema = z.strictObject({ type: z.literal("part"), token: SecretSchema, ...partFields });

const ExecutorReceivedSchema = z.strictObject({
  type: z.literal("received"),
  token: SecretSchema,
  name: ObjectNameSchema,
});

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
