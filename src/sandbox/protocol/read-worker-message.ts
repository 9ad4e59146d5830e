// Parses a worker's messages. The few that each call sends are checked by hand; all others, and every one that these checks do not accept, are
// parsed by the schemas.
import { GUEST_OUTCOMES } from "./guest-messages.ts";
import {
  type EndedMessage,
  STOP_REASONS,
  type WorkerMessage,
  WorkerMessageSchema,
  type WorkerUsage,
} from "./worker-messages.ts";

/** Fields of a message that were not checked. */
type Fields = { readonly [name: string]: unknown };

const isSeq = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 1;
const isCount = (value: unknown): value is number =>
  typeof value === "number" && value >= 0 && value <= Number.MAX_SAFE_INTEGER;
const isText = (value: unknown, maxLength: number): value is string =>
  typeof value === "string" && value.length <= maxLength;

/** Returns the number of own keys of a parsed object, or -1 for any other value. */
function countFields(value: unknown): number {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return -1;
  let count = 0;
  for (const _key in value) count += 1;
  return count;
}

const OUTCOMES: ReadonlySet<unknown> = new Set<EndedMessage["outcome"]>([...GUEST_OUTCOMES, ...STOP_REASONS]);
const MAX_NAME_LENGTH = 64;

function isUsage(value: unknown): value is WorkerUsage {
  if (countFields(value) !== 5) return false;
  const { cpuMs, heapBytes, startMs, executeMs, logsDropped } = value as Fields;
  return isCount(cpuMs) && isCount(heapBytes) && isCount(startMs) && isCount(executeMs) && isCount(logsDropped);
}

/** Whether a value is an `ended` without the fields that most calls do not have. */
function isPlainEnded({ seq, outcome, phase, usage, released }: Fields, keys: number): boolean {
  const isPhase = phase === "load" || phase === "execute";
  return (
    keys === 6 && isSeq(seq) && OUTCOMES.has(outcome) && isPhase && isUsage(usage) && typeof released === "boolean"
  );
}

function isWorkerMessage(value: unknown): value is WorkerMessage {
  const keys = countFields(value);
  if (keys < 0) return false;
  const fields = value as Fields;
  if (!Object.hasOwn(fields, "type")) return false;
  if (fields.type === "ended") return isPlainEnded(fields, keys);
  if (fields.type === "parked") return keys === 3 && isSeq(fields.seq) && isSeq(fields.entries);
  if (fields.type !== "capability") return false;
  return keys === 4 && isSeq(fields.seq) && isSeq(fields.requestId) && isText(fields.name, MAX_NAME_LENGTH);
}

/**
 * Parses the JSON text of a worker's message.
 * @throws {Error} for anything that is not a message
 */
export const parseWorkerMessage = (text: string): WorkerMessage => checkWorkerMessage(JSON.parse(text));

/**
 * Checks a worker's message that JSON.parse() has returned.
 * @throws {Error} for anything that is not a message
 */
export const checkWorkerMessage = (value: unknown): WorkerMessage =>
  isWorkerMessage(value) ? value : WorkerMessageSchema.parse(value);
