// The entries of a run's journal, and what an attempt to continue the run needs of them. Entries come from a store and are parsed strictly.
import * as z from "zod";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import { MAX_SEED_LENGTH } from "../../sandbox/protocol/message-fields.ts";
import { TurnSchema } from "../../sandbox/protocol/turn-schemas.ts";
import type { Turn } from "../../sandbox/protocol/turns.ts";
import { toCanonicalJson } from "../json/canonical-json.ts";
import { isSecretLength, MAX_SECRET_BYTES, MIN_SECRET_BYTES } from "../observability/redaction/call-redactor.ts";
import { ProfileSchema } from "../recording/recording.ts";
import { EngineSchema, PinnedCodeSchema } from "./run-pin.ts";
import { RollbackStepSchema, type RunCompensation, toCompensations } from "./run-rollback.ts";
import type { RunWait } from "./run-wait.ts";

const position = z.int().min(1);
const time = z.number().min(0);
const JsonSchema: z.ZodType<JsonValue> = z.json();

export const WaitSchema = z.strictObject({
  id: position,
  kind: z.enum(["event", "approval", "duration", "elicitation"]),
  name: z.string().optional(),
  message: z.string().optional(),
  requestedSchema: z.record(z.string(), JsonSchema).optional(),
  url: z.string().optional(),
  toolName: z.string().optional(),
  input: JsonSchema.optional(),
  toolDigest: z.string().optional(),
  until: time.optional(),
});

const SecretSchema = z.strictObject({
  label: z.string(),
  value: z.string().refine(isSecretLength, `Expected ${MIN_SECRET_BYTES} to ${MAX_SECRET_BYTES} bytes`),
});
/** A value that is redacted in all attempts of a run. */
export type RunSecret = z.infer<typeof SecretSchema>;

const EntrySchema = z.discriminatedUnion("type", [
  /** The start of a run, to which it is pinned: the code, the settings of its isolate, its random numbers and its first time. */
  z.strictObject({
    type: z.literal("start"),
    bundle: z.string(),
    engine: EngineSchema,
    profile: ProfileSchema,
    code: PinnedCodeSchema.optional(),
    seed: z.string().min(1).max(MAX_SEED_LENGTH),
    now: time,
  }),
  /** Everything that has reached the tool, in order. */
  z.strictObject({ type: z.literal("turns"), turns: z.array(TurnSchema) }),
  /** A capability call. It is stored before the capability is used. */
  z.strictObject({
    type: z.literal("request"),
    id: position,
    name: z.string().max(64),
    hash: z.string(),
    input: z.string(),
    wait: WaitSchema.optional(),
    /** A step of ctx.onRollback. */
    rollback: RollbackStepSchema.optional(),
  }),
  /**
   * Its answer, which is stored before the tool receives it. `event`: index of the event that it took. `secrets`: what the capability has registered
   * to be redacted, as far as the answer contains it.
   */
  z.strictObject({
    type: z.literal("answer"),
    id: position,
    envelope: z.string(),
    event: z.int().min(0).optional(),
    secrets: z.array(SecretSchema).optional(),
  }),
  /** Something from outside, for the first wait of this name. */
  z.strictObject({ type: z.literal("event"), name: z.string(), value: JsonSchema }),
  /** A person's decision about one wait. */
  z.strictObject({ type: z.literal("decision"), wait: position, approved: z.boolean(), reason: z.string().optional() }),
  /** A call that was approved is made now. */
  z.strictObject({ type: z.literal("approved"), id: position }),
  /** A person's answer to an elicitation, which matches its form. */
  z.strictObject({
    type: z.literal("elicited"),
    wait: position,
    action: z.enum(["accept", "decline", "cancel"]),
    content: JsonSchema.optional(),
  }),
  /** The run has failed or was cancelled, with this result, and is rolled back until this time at the latest. */
  z.strictObject({
    type: z.literal("rollback"),
    state: z.enum(["failed", "cancelled"]),
    result: JsonSchema,
    until: time,
  }),
]);
export type JournalEntry = z.infer<typeof EntrySchema>;
type Entry<Type extends JournalEntry["type"]> = Extract<JournalEntry, { type: Type }>;

/** The journal of a run as an attempt reads it. */
export class RunJournal {
  readonly start: Entry<"start"> | undefined;
  readonly turns: readonly Turn[];
  readonly requests: ReadonlyMap<number, Entry<"request">>;
  readonly answers: ReadonlyMap<number, string>;
  /** What the run has received and what is redacted. */
  readonly secrets: readonly RunSecret[];
  readonly #events: (Entry<"event"> & { isUsed: boolean })[] = [];
  readonly #decisions = new Map<number, Entry<"decision">>();
  readonly #elicited = new Map<number, Entry<"elicited">>();
  /** Ids of the calls that were approved and made. */
  readonly approved: ReadonlySet<number>;
  /** Set if the run is rolled back. */
  readonly rollback: Entry<"rollback"> | undefined;
  /** Number of entries. */
  readonly size: number;

  /** @throws {ToolError} INTERNAL for a journal that this version of Glovebox has not written */
  constructor(texts: readonly string[]) {
    const turns: Turn[] = [];
    const requests = new Map<number, Entry<"request">>();
    const answers = new Map<number, string>();
    const approved = new Set<number>();
    const secrets: RunSecret[] = [];
    let start: Entry<"start"> | undefined;
    let rollback: Entry<"rollback"> | undefined;
    for (const text of texts) {
      const entry = parseEntry(text);
      if (entry.type === "start") start ??= entry;
      else if (entry.type === "turns") for (const turn of entry.turns) turns.push(turn);
      else if (entry.type === "request") requests.set(entry.id, entry);
      else if (entry.type === "event") this.#events.push({ ...entry, isUsed: false });
      else if (entry.type === "decision") {
        // An answer that precedes its question in the journal is ignored: no person can have seen the question.
        if (requests.get(entry.wait)?.wait?.kind === "approval") setFirst(this.#decisions, entry);
      } else if (entry.type === "approved") approved.add(entry.id);
      else if (entry.type === "elicited") {
        if (requests.get(entry.wait)?.wait?.kind === "elicitation") setFirst(this.#elicited, entry);
      } else if (entry.type === "rollback") rollback ??= entry;
      else {
        answers.set(entry.id, entry.envelope);
        if (entry.secrets !== undefined) secrets.push(...entry.secrets);
        const event = entry.event === undefined ? undefined : this.#events[entry.event];
        if (event !== undefined) event.isUsed = true;
      }
    }
    this.start = start;
    this.rollback = rollback;
    this.turns = turns;
    this.requests = requests;
    this.answers = answers;
    this.secrets = secrets;
    this.approved = approved;
    this.size = texts.length;
  }

  /** Returns a person's decision about a wait. */
  decisionOf(id: number): Pick<Entry<"decision">, "approved" | "reason"> | undefined {
    return this.#decisions.get(id);
  }

  /**
   * Whether a person has given another answer to the wait of this one before. The first answer of a wait counts.
   * @param text entry of a decision or of an answer to an elicitation
   */
  hasOtherAnswer(text: string): boolean {
    const entry = parseEntry(text);
    if (entry.type === "decision") {
      const first = this.#decisions.get(entry.wait);
      return first !== undefined && first.approved !== entry.approved;
    }
    const first = entry.type === "elicited" ? this.#elicited.get(entry.wait) : undefined;
    return first !== undefined && toCanonicalJson(first) !== toCanonicalJson(entry);
  }

  /** Returns the functions that the run has registered with ctx.onRollback, in the order in which they run. */
  get compensations(): readonly RunCompensation[] {
    return toCompensations([...this.requests.values()].flatMap(({ rollback }) => rollback ?? []));
  }

  /**
   * Returns the answer of a wait, if it has ended.
   * @param now ms since 1970
   */
  answerOf(wait: RunWait, now: number): { readonly envelope: string; readonly event?: number } | undefined {
    const { id, kind, name, until } = wait;
    if (kind === "approval") {
      const decision = this.#decisions.get(id);
      if (decision !== undefined) {
        const { approved, reason = null } = decision;
        return { envelope: JSON.stringify({ ok: true, value: { approved, reason } }) };
      }
    }
    if (kind === "elicitation") {
      const elicited = this.#elicited.get(id);
      if (elicited !== undefined) {
        const { action, content } = elicited;
        return { envelope: JSON.stringify({ ok: true, value: { action, content } }) };
      }
    }
    if (kind === "event") {
      const index = this.#events.findIndex((event) => event.name === name && !event.isUsed);
      const event = this.#events[index];
      if (event !== undefined) {
        event.isUsed = true;
        return { envelope: JSON.stringify({ ok: true, value: event.value }), event: index };
      }
    }
    if (until === undefined || until > now) return undefined;
    if (kind === "duration") return { envelope: JSON.stringify({ ok: true, value: null }) };
    const message = kind === "event" ? `No event ${JSON.stringify(name)} came in time` : "No one decided in time";
    return { envelope: JSON.stringify({ ok: false, code: "TOOL_TIMEOUT", message }) };
  }
}

/** Keeps the first answer of a wait. */
function setFirst<Answer extends { readonly wait: number }>(answers: Map<number, Answer>, answer: Answer): void {
  if (!answers.has(answer.wait)) answers.set(answer.wait, answer);
}

/**
 * Returns the time at which the rollback of a run ends, also of a run whose journal cannot be read otherwise. A later release may have written it.
 * @returns undefined if the run is not rolled back
 */
export function rollbackEndOf(texts: readonly string[]): number | undefined {
  const text = texts.find((one) => one.startsWith('{"type":"rollback",'));
  const parsed = text === undefined ? undefined : EntrySchema.safeParse(JSON.parse(text)).data;
  return parsed?.type === "rollback" ? parsed.until : undefined;
}

/** Checks that a journal with this entry can be read. @throws {ToolError} PARAM_INVALID */
export function checkEntry(text: string): void {
  try {
    parseEntry(text);
  } catch (cause) {
    throw new ToolError("PARAM_INVALID", "signal: The journal of the run cannot hold this value", { cause });
  }
}

function parseEntry(text: string): JournalEntry {
  try {
    return EntrySchema.parse(JSON.parse(text));
  } catch (thrown) {
    throw new ToolError("INTERNAL", "The journal of the run cannot be read", { cause: thrown });
  }
}
