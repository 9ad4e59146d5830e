// A run that waits for approval, as plain JSON that another process can go on from. What comes back is believed in nothing: parsed, bounded,
// and, where the host has a key, refused unless it is what went out.
import { createHmac, randomUUID, timingSafeEqual } from "node:crypto";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { ERROR_CODES, type ErrorCode, type JsonValue, ToolError } from "../../sandbox/errors.ts";
import { isSmallJson, parseLargeText, parseSmallJson } from "../json-text.ts";
import { type MarkedBytes, markBytes, unmarkBytes } from "../marked-bytes.ts";
import type { ToolValue } from "../tool-value.ts";
import { callsOf, checkConversation } from "./conversation.ts";
import type { Message, ModelToolCall, ModelUsage } from "./model.ts";

const STATE_KIND = "glovebox.agent-state";
export const STATE_VERSION = 1;

/**
 * A paused run: plain JSON, to be kept wherever JSON is kept. It holds the whole conversation; whoever can change it can change what is
 * run, unless it is sealed (`stateKey`).
 */
export interface AgentState {
  readonly kind: typeof STATE_KIND;
  readonly version: typeof STATE_VERSION;
  /** A UUID: what `claim` is asked about. */
  readonly id: string;
  readonly tenantId: string | null;
  /** Turns of the model so far. */
  readonly stepCount: number;
  readonly usage: ModelUsage;
  /** Ids of the calls that wait: those of the last turn without an answer. */
  readonly pending: readonly string[];
  readonly messages: JsonValue;
  /** Bytes that stand in the messages, as base64. */
  readonly bytes?: MarkedBytes;
  /** HMAC-SHA-256 of all the rest, in hexadecimal. */
  readonly seal?: string;
}

/** A state as text, and what its conversation may be. */
const BOUNDS = { bytes: 64 * 1024 * 1024, depth: 200, values: 1_250_000 } as const;
const CODES = { invalid: "PARAM_INVALID", tooLarge: "PARAM_INVALID" } as const;
const MIN_KEY_BYTES = 32;

const id = z.string().min(1).max(1_024);
const count = z.number().min(0);
const UsageSchema = z.strictObject({ inputTokens: count, outputTokens: count });
const BytesSchema = z.instanceof(Uint8Array);

/** Parts of content in MCP's words; what is in them goes to a model only. */
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
/** What a result carries beside these fields is JSON, and passes. */
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
  pending: z.array(id).min(1).max(1_024),
  messages: z.array(z.unknown()).min(1),
  bytes: z.strictObject({ mark: z.string().min(8).max(200), parts: z.array(z.base64()) }).optional(),
  seal: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

/** Keys in one order: what keeps JSON may give it back in another. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = value as { readonly [key: string]: unknown };
  const keys = Object.keys(fields).sort();
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(fields[key])}`).join(",")}}`;
}

/** @throws {ToolError} PARAM_INVALID for a key of less than 32 bytes */
export function checkStateKey(key: string | Uint8Array | undefined): void {
  if (key === undefined || Buffer.byteLength(key) >= MIN_KEY_BYTES) return;
  throw new ToolError("PARAM_INVALID", `stateKey: expected at least ${MIN_KEY_BYTES} bytes of a secret, got fewer`);
}

const sealOf = (state: Omit<AgentState, "seal">, key: string | Uint8Array): string =>
  createHmac("sha256", key).update(canonical(state)).digest("hex");

/** What a pause keeps. */
export interface PausedRun {
  readonly tenantId: string | undefined;
  readonly stepCount: number;
  readonly usage: ModelUsage;
  readonly messages: readonly Message[];
  readonly pending: readonly ModelToolCall[];
}

/** @param key seals the state: with it only what this host has paused can be resumed */
export function toAgentState(run: PausedRun, key?: string | Uint8Array): AgentState {
  const { value, bytes } = markBytes(run.messages as unknown as ToolValue);
  const state: Omit<AgentState, "seal"> = {
    kind: STATE_KIND,
    version: STATE_VERSION,
    id: randomUUID(),
    tenantId: run.tenantId ?? null,
    stepCount: run.stepCount,
    usage: run.usage,
    pending: run.pending.map(({ id: callId }) => callId),
    // What has no JSON, as a field that is undefined, goes now rather than on the way.
    messages: JSON.parse(JSON.stringify(value)) as JsonValue,
    ...(bytes === undefined ? {} : { bytes }),
  };
  return key === undefined ? state : { ...state, seal: sealOf(state, key) };
}

const invalid = (problem: string): ToolError => new ToolError("PARAM_INVALID", `state: ${problem}`);

async function parseText(state: unknown, signal: AbortSignal): Promise<JsonValue> {
  let text: string | undefined;
  try {
    text = typeof state === "string" ? state : (JSON.stringify(state) as string | undefined);
  } catch {
    text = undefined;
  }
  if (text === undefined) throw invalid("expected JSON, got something that is none");
  if (isSmallJson(text)) return parseSmallJson(text, BOUNDS, CODES, "The state");
  return await parseLargeText(text, BOUNDS, CODES, "The state", signal);
}

function firstIssue(error: z.ZodError, at: string): string {
  const [issue] = error.issues;
  const where = [at, ...(issue?.path ?? [])].filter((step) => step !== "").map(String);
  return `${where.length === 0 ? "" : `${where.join(".")}: `}${issue?.message ?? "not what a pause leaves"}`.slice(
    0,
    300,
  );
}

/** A state's version is looked at first: of another one nothing else can be said. */
function checkVersion(parsed: JsonValue): void {
  const { kind, version } = (typeof parsed === "object" && parsed !== null ? parsed : {}) as {
    readonly [field: string]: unknown;
  };
  if (kind !== STATE_KIND) throw invalid(`expected kind "${STATE_KIND}", got something else`);
  if (version !== STATE_VERSION)
    throw invalid(`expected version ${STATE_VERSION}, got ${JSON.stringify(version)?.slice(0, 20)}`);
}

function checkSeal(state: AgentState, key: string | Uint8Array): void {
  const { seal, ...rest } = state;
  if (seal === undefined) throw invalid("expected one with a seal, since there is a stateKey");
  if (!timingSafeEqual(Buffer.from(seal, "hex"), Buffer.from(sealOf(rest, key), "hex"))) {
    throw invalid("expected it as it was paused, got one that was changed, or sealed with another key");
  }
}

/** The calls that wait, which must be the last turn's that have no answer: no others can be smuggled in, and none can be lost. */
function pendingOf(messages: readonly Message[], pending: readonly string[]): readonly ModelToolCall[] {
  const last = messages.findLastIndex(({ role }) => role === "assistant");
  const open = checkConversation(messages);
  const other = open.find(({ kind, messageIndex }) => kind !== "unanswered-call" || messageIndex !== last);
  if (other !== undefined) throw invalid(`messages: ${other.kind} in message ${other.messageIndex}`);
  const unanswered = open.map(({ callId }) => callId);
  const isSame = unanswered.length === pending.length && unanswered.every((callId) => pending.includes(callId));
  if (!isSame) throw invalid("pending: expected the calls of the last turn that have no answer, got others");
  return callsOf(messages[last]).filter(({ id: callId }) => pending.includes(callId));
}

export interface ParsedState extends PausedRun {
  readonly id: string;
}

/**
 * Reads a state that comes from anywhere, as an object or as text. Rejects with a ToolError, PARAM_INVALID, naming what is wrong with it.
 */
export async function parseAgentState(
  state: unknown,
  key: string | Uint8Array | undefined,
  signal: AbortSignal,
): Promise<ParsedState> {
  const parsed = await parseText(state, signal);
  checkVersion(parsed);
  const whole = StateSchema.safeParse(parsed);
  if (!whole.success) throw invalid(firstIssue(whole.error, ""));
  const { messages: stored, bytes, id: stateId, tenantId, stepCount, usage, pending } = whole.data;
  if (key !== undefined) checkSeal(parsed as unknown as AgentState, key);
  const value = bytes === undefined ? stored : unmarkBytes(stored as JsonValue, bytes);
  const messages = z.array(MessageSchema).safeParse(value);
  if (!messages.success) throw invalid(firstIssue(messages.error, "messages"));
  const conversation = messages.data as unknown as readonly Message[];
  return {
    id: stateId.toLowerCase(),
    ...{ tenantId: tenantId ?? undefined, stepCount, usage },
    messages: conversation,
    pending: pendingOf(conversation, pending),
  };
}

/**
 * Whether a state may be resumed: asked once with its id, when all else is in order and before anything runs. True the first time and
 * false from then on, for all processes that could resume it: plain JSON can be copied, so nothing in the state itself can tell.
 */
export type ClaimState = (stateId: string) => boolean | Promise<boolean>;

/** Claims kept in this process: enough where no other one resumes, and where nobody resumes after a restart. */
export function createMemoryClaims(): ClaimState {
  const claimed = new Set<string>();
  return (stateId) => {
    if (claimed.has(stateId)) return false;
    claimed.add(stateId);
    return true;
  };
}

/** Claims kept as empty files in a folder of the host's, one for each state: for all processes that share it. Rejects where it cannot write. */
export function createFileClaims(directory: string): ClaimState {
  return async (stateId) => {
    if (!z.uuid().safeParse(stateId).success) throw invalid("id: expected a UUID");
    await mkdir(directory, { recursive: true, mode: 0o700 });
    try {
      // Made or refused in one step, by the file system.
      await (await open(join(directory, stateId), "wx", 0o600)).close();
      return true;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw thrown;
    }
  };
}
