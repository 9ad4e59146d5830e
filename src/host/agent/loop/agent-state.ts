// Converts a paused run to plain JSON, which another process can resume. A state that comes back is untrusted: it is parsed within limits
// and, with a key, rejected unless its signature is valid.
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { isUint8Array } from "node:util/types";
import * as z from "zod";
import { ERROR_CODES, type ErrorCode, type JsonValue, ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind } from "../../../sandbox/contract/plain-object.ts";
import type { ToolValue } from "../../contract/tool-value.ts";
import { type PlaceholderBytes, replaceBytes, restoreBytes } from "../../json/binary-placeholders.ts";
import { toCanonicalJson } from "../../json/canonical-json.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../../json/parse-json.ts";
import { callsOf, findProblems } from "../conversation.ts";
import type { Message, ModelToolCall, ModelUsage } from "../model.ts";

const STATE_KIND = "glovebox.agent-state";
const STATE_VERSION = 2;

/** `signingKey: "unsigned"` is the host's explicit choice to turn signing off. */
const UNSIGNED = "unsigned";

/** A call that waits for approval, and the digest of the tool that the approval is about. */
export interface PendingApproval {
  readonly callId: string;
  /** `router.digestOf` when approval was requested. */
  readonly toolDigest: string;
}

/**
 * A paused run as plain JSON, to be stored by the host. It contains the whole conversation and determines which calls run as approved: sign
 * it (`signingKey`), or store it where no other process can write.
 */
export interface AgentState {
  readonly kind: typeof STATE_KIND;
  readonly version: typeof STATE_VERSION;
  /** UUID of the pause, passed to `claim`. */
  readonly id: string;
  readonly tenantId: string | null;
  /** Number of model turns so far. */
  readonly stepCount: number;
  readonly usage: ModelUsage;
  /** The calls that wait for approval: the unanswered calls of the last turn. */
  readonly pending: readonly PendingApproval[];
  readonly messages: JsonValue;
  /** Binary data of the messages, as base64. */
  readonly bytes?: PlaceholderBytes;
  /** HMAC-SHA-256 of all other fields, in hexadecimal. Absent with `signingKey: "unsigned"`. */
  readonly seal?: string;
}

/** Limits of a state's text and of its conversation. */
const LIMITS = { bytes: 64 * 1024 * 1024, depth: 200, values: 1_250_000 } as const;
const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
const MIN_KEY_BYTES = 32;

const id = z.string().min(1).max(1_024);
const count = z.number().min(0);
const UsageSchema = z.strictObject({ inputTokens: count, outputTokens: count });
const BytesSchema = z.instanceof(Uint8Array);

/** MCP content parts. Their contents are passed only to a model. */
const ContentPartSchema = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("text"), text: z.string() }),
  z.looseObject({ type: z.enum(["image", "audio"]), data: BytesSchema, mimeType: z.string() }),
  z.looseObject({ type: z.literal("resource"), resource: z.looseObject({ uri: z.string() }) }),
  z.looseObject({ type: z.literal("resource_link"), uri: z.string(), name: z.string() }),
]);
const CallSchema = z.strictObject({
  id,
  toolName: z.string().min(1).max(128),
  argumentsText: z.string(),
  arguments: z.unknown().optional(),
  problem: z.string().optional(),
  kind: z.enum(["function", "custom"]),
  itemId: z.string().optional(),
});
const AssistantPartSchema = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text"), text: z.string() }),
  z.strictObject({ type: z.literal("tool-call"), call: CallSchema }),
  z.strictObject({ type: z.literal("provider"), provider: z.string(), item: z.unknown() }),
]);
const resultFields = {
  callId: id,
  toolName: z.string().min(1).max(128),
  durationMs: z.number(),
  usage: z.record(z.string(), z.unknown()),
  logs: z.array(z.looseObject({ message: z.string() })),
};
/** Further fields of a result are JSON and pass unchecked. */
const ResultSchema = z.discriminatedUnion("success", [
  z.looseObject({
    ...resultFields,
    success: z.literal(true),
    output: z.unknown(),
    content: z.array(ContentPartSchema).optional(),
  }),
  z.looseObject({
    ...resultFields,
    success: z.literal(false),
    error: z.looseObject({
      code: z.enum(Object.keys(ERROR_CODES) as [ErrorCode, ...ErrorCode[]]),
      message: z.string(),
      userMessage: z.string(),
      recoverable: z.boolean(),
    }),
  }),
]);
const MessageSchema = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("system"), content: z.string() }),
  z.strictObject({ role: z.literal("user"), content: z.union([z.string(), z.array(ContentPartSchema)]) }),
  z.strictObject({ role: z.literal("assistant"), content: z.array(AssistantPartSchema) }),
  z.strictObject({ role: z.literal("tool"), callId: id, toolName: z.string().max(128), result: ResultSchema }),
]);
const StateSchema = z.strictObject({
  kind: z.literal(STATE_KIND),
  version: z.literal(STATE_VERSION),
  id: z.uuid(),
  tenantId: z.string().max(1_024).nullable(),
  stepCount: z.int().min(1),
  usage: UsageSchema,
  pending: z
    .array(z.strictObject({ callId: id, toolDigest: id }))
    .min(1)
    .max(1_024),
  messages: z.array(z.unknown()).min(1),
  bytes: z.strictObject({ mark: z.string().min(8).max(200), parts: z.array(z.base64()) }).optional(),
  seal: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

/** A secret of at least 32 bytes, or `"unsigned"`. */
export const SigningKeySchema: z.ZodType<string | Uint8Array> = z.custom<string | Uint8Array>(
  (value) =>
    value === UNSIGNED ||
    ((typeof value === "string" || isUint8Array(value)) && Buffer.byteLength(value) >= MIN_KEY_BYTES),
  {
    error: ({ input }) => {
      const got =
        typeof input === "string" || isUint8Array(input) ? `${Buffer.byteLength(input)} bytes` : describeKind(input);
      return `Expected a secret of at least ${MIN_KEY_BYTES} bytes or "${UNSIGNED}", got ${got}`;
    },
  },
);

const sealOf = (state: Omit<AgentState, "seal">, key: string | Uint8Array): string =>
  createHmac("sha256", key).update(toCanonicalJson(state)).digest("hex");

/** The data of a run that a pause keeps. */
export interface PausedRun {
  readonly tenantId: string | undefined;
  readonly stepCount: number;
  readonly usage: ModelUsage;
  readonly messages: readonly Message[];
  readonly pending: readonly PendingCall[];
}

/** A call that waits for approval. */
export interface PendingCall {
  readonly call: ModelToolCall;
  readonly toolDigest: string;
}

/** Converts a paused run. @param key signs the state, unless it is `"unsigned"` */
export function toAgentState(run: PausedRun, key: string | Uint8Array): AgentState {
  const { value, bytes } = replaceBytes(run.messages as unknown as ToolValue);
  const state: Omit<AgentState, "seal"> = {
    kind: STATE_KIND,
    version: STATE_VERSION,
    id: randomUUID(),
    tenantId: run.tenantId ?? null,
    stepCount: run.stepCount,
    usage: run.usage,
    pending: run.pending.map(({ call, toolDigest }) => ({ callId: call.id, toolDigest })),
    // Drop values that JSON cannot represent, such as undefined fields, before signing.
    messages: JSON.parse(JSON.stringify(value)) as JsonValue,
    ...(bytes === undefined ? {} : { bytes }),
  };
  return key === UNSIGNED ? state : { ...state, seal: sealOf(state, key) };
}

const invalid = (issue: string): ToolError => new ToolError("PARAM_INVALID", `options.state: ${issue}`);

async function parseText(state: unknown, signal: AbortSignal): Promise<JsonValue> {
  let text: string | undefined;
  try {
    text = typeof state === "string" ? state : (JSON.stringify(state) as string | undefined);
  } catch {
    text = undefined;
  }
  if (text === undefined) throw invalid(`Expected an object or JSON text, got ${describeKind(state)}`);
  if (isSmallJson(text)) return parseSmallJson(text, LIMITS, CODES, "The state");
  return await parseLargeText(text, LIMITS, CODES, "The state", signal);
}

function firstIssue(error: z.ZodError, at: string): string {
  const [issue] = error.issues;
  const where = [at, ...(issue?.path ?? [])].filter((step) => step !== "").map(String);
  return `${where.length === 0 ? "" : `${where.join(".")}: `}${issue?.message ?? "Invalid state"}`.slice(0, 300);
}

/** Checks the version first: the schema describes only the current one. */
function checkVersion(parsed: JsonValue): void {
  const { kind, version } = (typeof parsed === "object" && parsed !== null ? parsed : {}) as {
    readonly [field: string]: unknown;
  };
  if (kind !== STATE_KIND) throw invalid(`Expected the kind "${STATE_KIND}"`);
  if (version !== STATE_VERSION)
    throw invalid(`Expected version ${STATE_VERSION}, got ${JSON.stringify(version)?.slice(0, 20)}`);
}

function checkSeal(state: AgentState, key: string | Uint8Array): void {
  const { seal, ...rest } = state;
  if (key === UNSIGNED) {
    // The host may have intended to verify it, so a signed state is never accepted as unsigned.
    if (seal !== undefined)
      throw invalid(`The state is signed. Pass the signingKey that it was signed with instead of "${UNSIGNED}"`);
    return;
  }
  if (seal === undefined) throw invalid("The state is not signed with this signingKey: it has no seal");
  if (!timingSafeEqual(Buffer.from(seal, "hex"), Buffer.from(sealOf(rest, key), "hex"))) {
    throw invalid("The seal does not match: the state was changed, or signed with another key");
  }
}

/** Returns the pending calls. They must be the unanswered calls of the last turn, so that none can be added or removed. */
function pendingOf(messages: readonly Message[], pending: readonly PendingApproval[]): readonly PendingCall[] {
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  const open = findProblems(messages);
  const other = open.find(({ kind, messageIndex }) => kind !== "unanswered-call" || messageIndex !== last);
  if (other !== undefined) throw invalid(`messages.${other.messageIndex}: ${other.kind}`);
  const unanswered = open.map(({ callId }) => callId);
  const digests = new Map(pending.map(({ callId, toolDigest }) => [callId, toolDigest]));
  const isSame = unanswered.length === pending.length && unanswered.every((callId) => digests.has(callId));
  if (!isSame) throw invalid("pending: Expected exactly the unanswered calls of the last turn");
  return callsOf(messages[last]).flatMap((call) => {
    const toolDigest = digests.get(call.id);
    return toolDigest === undefined ? [] : [{ call, toolDigest }];
  });
}

export interface ParsedState extends PausedRun {
  readonly id: string;
}

/**
 * Parses an untrusted state, given as an object or as text, and checks its signature. Rejects with PARAM_INVALID, naming the path.
 */
export async function parseAgentState(
  state: unknown,
  key: string | Uint8Array,
  signal: AbortSignal,
): Promise<ParsedState> {
  const parsed = await parseText(state, signal);
  checkVersion(parsed);
  const whole = StateSchema.safeParse(parsed);
  if (!whole.success) throw invalid(firstIssue(whole.error, ""));
  const { messages: stored, bytes, id: stateId, tenantId, stepCount, usage, pending } = whole.data;
  checkSeal(parsed as unknown as AgentState, key);
  const value = bytes === undefined ? stored : restoreBytes(stored as JsonValue, bytes);
  const messages = z.array(MessageSchema).safeParse(value);
  if (!messages.success) throw invalid(firstIssue(messages.error, "messages"));
  const conversation = messages.data as unknown as readonly Message[];
  return {
    id: stateId.toLowerCase(),
    tenantId: tenantId ?? undefined,
    stepCount,
    usage,
    messages: conversation,
    pending: pendingOf(conversation, pending),
  };
}
