// Parts that the messages of both sides share: ids, counts, objects, and the bounds of their sizes.
import * as z from "zod";
import { FLEET_ID_PATTERN } from "./subjects.ts";
import { MAX_FLEET_BYTES } from "./wire.ts";

/** Maximum number of calls of one control plane on one executor, nested ones included. */
export const MAX_FLEET_CALLS = 8_192;

/** Maximum number of calls that an executor runs at the same time, without nested ones. */
export const MAX_SLOTS = 2_048;
/** Latest time of a Date, in ms since 1970. */
export const MAX_TIME = 8.64e15;

/** Maximum number of sessions on one executor. */
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
export const SecretSchema = z.string().regex(/^[A-Za-z0-9_-]{22}$/);

export const FleetIdSchema = z.string().regex(FLEET_ID_PATTERN);

export const Sha256Schema = z.string().regex(/^[0-9a-f]{64}$/);

export const CountSchema = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

export const NameSchema = z.string().max(1_024);

/** Name of an object among those of its attempt. */
export const ObjectNameSchema = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/);

/** An object that holds a message or a bundle, and that the receiver reads in parts. */
export const objectFields = {
  name: ObjectNameSchema,
  sha256: Sha256Schema,
  bytes: z.int().min(1).max(MAX_FLEET_BYTES),
};

export const ObjectRefSchema = z.strictObject(objectFields);

export type ObjectRef = z.infer<typeof ObjectRefSchema>;

/**
 * The languages that an executor runs in addition to JavaScript, and what else it can do: a part of its announcements,
 * which control planes of releases without it ignore. What later releases add is ignored as well.
 */
export const LanguagesSchema = z.object({
  /** Hash of its Python runtime. It gets calls only from control planes with the same one. */
  python: Sha256Schema.optional(),
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

export const callFields = { key: SecretSchema, token: SecretSchema };

/**
 * `n` counts the messages about an attempt from 1, so that a missing one is noticed. Only for executors that have announced
 * that they count.
 */
export const countedFields = { ...callFields, n: z.int().min(1).max(Number.MAX_SAFE_INTEGER).optional() };

export const fetchFields = {
  name: ObjectNameSchema,
  from: z.int().min(0).max(MAX_FLEET_BYTES),
  length: z.int().min(1).max(MAX_PART_BYTES),
};

export const partFields = { name: ObjectNameSchema, from: fetchFields.from };
