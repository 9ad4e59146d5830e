// The messages between the replicas of a server: small, and hints only. What a message is about is in the database, and its receiver reads it
// there, so that a message that is false or late can cause work but grants nothing.
import * as z from "zod";

/** Longest message in bytes. A payload of NOTIFY must be shorter than 8,000 bytes. */
export const MAX_MESSAGE_BYTES = 7_500;

const IdSchema = z.string().min(1).max(1_024);

export const ReplicaMessageSchema = z.discriminatedUnion("type", [
  /** Cancels a call, wherever it runs. With a request, each replica answers whether it runs there. */
  z.strictObject({ type: z.literal("cancel"), request: IdSchema.optional(), tenant: IdSchema, call: IdSchema }),
  /**
   * Someone watches a call: the replica that runs it writes its log lines to the database for a while, and its timeline if that is requested.
   * Each replica answers.
   */
  z.strictObject({
    type: z.literal("watch"),
    request: IdSchema,
    tenant: IdSchema,
    call: IdSchema,
    timeline: z.literal(true).optional(),
  }),
  /** Something of a tenant has changed: its state, its policy, or its secrets. With a request, the tenant is being deleted. */
  z.strictObject({ type: z.literal("tenant"), tenant: IdSchema, request: IdSchema.optional() }),
  /** A replica needs slots for calls of a tenant, or has given some back. */
  z.strictObject({ type: z.literal("slots"), tenant: IdSchema, isFree: z.boolean() }),
  /** Calls wait in the queue that their replica has no room for. */
  z.strictObject({ type: z.literal("queue") }),
  /** Someone looks at the limits of a tenant or a key: each replica answers how many of its calls run and wait there. */
  z.strictObject({ type: z.literal("count"), request: IdSchema, kind: z.enum(["tenant", "key"]), id: IdSchema }),
  /** A replica that does not reach NATS looks whether others do. Each replica answers. */
  z.strictObject({ type: z.literal("nats"), request: IdSchema }),
  /** Answers a message with this request. The counts are those of `count`. */
  z.strictObject({
    type: z.literal("answer"),
    request: IdSchema,
    isDone: z.boolean(),
    counts: z.strictObject({ running: z.int().min(0), waiting: z.int().min(0) }).optional(),
  }),
]);
export type ReplicaMessage = z.infer<typeof ReplicaMessageSchema>;

/** A message as its receivers get it. */
export interface ReceivedMessage<Type extends ReplicaMessage["type"] = ReplicaMessage["type"]> {
  /** Id of the replica that sent it. */
  readonly sender: string;
  readonly message: Extract<ReplicaMessage, { readonly type: Type }>;
}

/** @throws {Error} for a message that is not valid, or too long */
export function encodeMessage(message: ReplicaMessage): string {
  const text = JSON.stringify(ReplicaMessageSchema.parse(message));
  if (Buffer.byteLength(text) > MAX_MESSAGE_BYTES)
    throw new Error(`A message between replicas has at most ${MAX_MESSAGE_BYTES} bytes`);
  return text;
}

/** Parses a message from the database. Returns undefined for one that another version has sent, or that is not valid. */
export function decodeMessage(text: string): ReplicaMessage | undefined {
  if (Buffer.byteLength(text) > MAX_MESSAGE_BYTES) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  return ReplicaMessageSchema.safeParse(value).data;
}
