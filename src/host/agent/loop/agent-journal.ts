// Agent loops as durable runs: keeps the turns of the model and the results of calls in a journal, so that a loop whose
// process died goes on in another one, without asking the model again for what it has said, and without making a call
// twice.
import { createHash } from "node:crypto";
import * as z from "zod";
import { isRepeatableTool } from "../../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError, unavailable } from "../../../sandbox/contract/errors.ts";
import { describeKind, strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { type CallContext, NO_USAGE, type ToolCall, type ToolResult } from "../../contract/tool-call.ts";
import { toJson } from "../../contract/tool-value.ts";
import { failedResultOf } from "../../pipeline/normalize.ts";
import { RunStoreSchema } from "../../runs/run-options.ts";
import type { RunClaim, RunStore } from "../../runs/run-store.ts";
import { tenancyOf } from "../../tenants/tenancy.ts";
import { clockOf } from "../../util/store-clock.ts";
import type { Message, Model, ModelEvent } from "../model.ts";
import { type AgentRouter, type CallRouter, toCallRouter, toolsOf } from "../tools/call-tool.ts";
import type { AgentOutcome } from "./agent-events.ts";

/** Options of {@link openAgentJournal}. */
export interface AgentJournalOptions {
  /**
   * Keeps the journals. It can have durable runs too. Name it in `createGlovebox({ runStores })`, so that
   * `deleteTenant` removes a tenant's journals.
   */
  readonly store: RunStore;
  /** Id of the loop's run, unique for its tenant. */
  readonly id: string;
  /** The tenant of the loop: required if its router has `tenancy: "multi"`, and an error if it has not. */
  readonly tenantId?: string | undefined;
  /**
   * Length of the claim's lease in ms. It is renewed until the journal is disposed; after a crash, another process can open the journal when it
   * has expired.
   * @default 30000
   */
  readonly leaseMs?: number | undefined;
  /**
   * Largest journal in UTF-16 code units.
   * @default 67108864
   */
  readonly maxJournalLength?: number | undefined;
  /**
   * Time in ms after which the store may delete a journal that was not ended.
   * @default 2592000000
   */
  readonly lifetimeMs?: number | undefined;
}

const OptionsSchema = strictObject({
  store: RunStoreSchema,
  id: z.string().min(1).max(200),
  tenantId: z.string().min(1).max(1_024).optional(),
  leaseMs: z.int().min(100).max(3_600_000).default(30_000),
  maxJournalLength: z
    .int()
    .min(1_024)
    .max(1024 * 1024 * 1024)
    .default(64 * 1024 * 1024),
  lifetimeMs: z
    .int()
    .min(1)
    .max(366 * 86_400_000)
    .default(30 * 86_400_000),
});

/** The fields of an outcome that the journal keeps. */
const OutcomeSchema = z.discriminatedUnion("status", [
  z.looseObject({ status: z.enum(["paused", "cancelled"]) }),
  z.looseObject({ status: z.literal("finished"), text: z.string() }),
  z.looseObject({ status: z.literal("failed"), error: z.looseObject({ code: z.string(), message: z.string() }) }),
]);
const JsonSchema: z.ZodType<JsonValue> = z.json();
const EntrySchema = z.discriminatedUnion("type", [
  /** A turn of the model. `request`: hash of the conversation before it. */
  z.strictObject({ type: z.literal("turn"), request: z.string(), events: z.array(JsonSchema) }),
  /** A call is made now. */
  z.strictObject({ type: z.literal("call"), id: z.string(), toolName: z.string() }),
  z.strictObject({ type: z.literal("result"), id: z.string(), result: JsonSchema }),
]);
type Entry = z.infer<typeof EntrySchema>;

/** What identifies a conversation. Times and usage differ when it is repeated. */
const shownOf = (message: Message): unknown => {
  if (message.role !== "tool") return message;
  const { callId, toolName, result } = message;
  const { output, content } = result.success ? result : { output: undefined, content: undefined };
  const error = result.success ? undefined : [result.error.code, result.error.message];
  return [callId, toolName, output, content, error];
};
const hashOf = (messages: readonly Message[]): string =>
  createHash("sha256")
    .update(JSON.stringify(messages.map(shownOf)))
    .digest("hex");

/** The journal of one loop. Create it with {@link openAgentJournal}. */
export class AgentJournal implements AsyncDisposable {
  readonly #store: RunStore;
  readonly #claim: RunClaim;
  readonly #tenantId: string | undefined;
  readonly #turns = new Map<string, readonly ModelEvent[]>();
  readonly #begun = new Set<string>();
  readonly #results = new Map<string, ToolResult>();
  readonly #renewing: NodeJS.Timeout;
  readonly #maxLength: number;
  #length = 0;
  #entries: number;
  #last: Promise<unknown> = Promise.resolve();
  #isOpen = true;

  /** @internal use {@link openAgentJournal} */
  constructor(options: z.output<typeof OptionsSchema>, claim: RunClaim, texts: readonly string[]) {
    const { store, tenantId, leaseMs, maxJournalLength } = options;
    this.#store = store;
    this.#tenantId = tenantId;
    this.#claim = claim;
    this.#maxLength = maxJournalLength;
    this.#entries = texts.length;
    for (const text of texts) {
      this.#length += text.length;
      this.#read(parseEntry(text));
    }
    const now = clockOf(store);
    const renew = (): void => {
      store.renew(claim, now() + leaseMs).then(
        (isOurs) => {
          this.#isOpen &&= isOurs;
        },
        () => {},
      );
    };
    this.#renewing = setInterval(renew, leaseMs / 3);
    this.#renewing.unref();
  }

  #read(entry: Entry): void {
    if (entry.type === "turn") this.#turns.set(entry.request, entry.events as unknown as readonly ModelEvent[]);
    else if (entry.type === "call") this.#begun.add(entry.id);
    else this.#results.set(entry.id, entry.result as unknown as ToolResult);
  }

  #checkOpen(): void {
    if (!this.#isOpen)
      throw new ToolError("CANCELLED", "The journal of the agent is closed, or another process has it");
  }

  /** Stores an entry, one after the other. @throws {ToolError} CANCELLED if another process has the journal; QUOTA_EXCEEDED */
  async #append(entry: Entry): Promise<void> {
    const text = JSON.stringify(entry);
    const append = async (): Promise<void> => {
      this.#checkOpen();
      this.#length += text.length;
      if (this.#length > this.#maxLength) {
        const message = `The journal of the agent exceeds ${this.#maxLength} characters (maxJournalLength)`;
        throw new ToolError("QUOTA_EXCEEDED", message);
      }
      let isTaken = false;
      try {
        isTaken = await this.#store.append(this.#claim, [text]);
      } finally {
        // What is not in the journal must not be followed by anything.
        this.#isOpen &&= isTaken;
      }
      this.#checkOpen();
      this.#entries += 1;
    };
    const next = this.#last.then(append);
    this.#last = next.catch(() => undefined);
    await next;
  }

  /**
   * Wraps a model: a turn that the journal has is not requested again. Calls of a turn start when the journal has it.
   * @throws {ToolError} PARAM_INVALID for a model that is not a function
   */
  model(model: Model): Model {
    if (typeof model !== "function")
      throw new ToolError("PARAM_INVALID", `model: Expected a function, got ${describeKind(model)}`);
    const turn = (request: Parameters<Model>[0]): AsyncIterable<ModelEvent> => this.#turn(model, request);
    return turn;
  }

  async *#turn(model: Model, request: Parameters<Model>[0]): AsyncGenerator<ModelEvent> {
    const hash = hashOf(request.messages);
    const known = this.#turns.get(hash);
    if (known !== undefined) {
      yield* known;
      return;
    }
    this.#checkOpen();
    const events: ModelEvent[] = [];
    const held: ModelEvent[] = [];
    let isStored = false;
    for await (const event of model(request)) {
      if (isStored) {
        // The reader of the turn ignores it.
        yield event;
        continue;
      }
      events.push(event);
      if (event.type === "text-delta") yield event;
      else held.push(event);
      if (event.type !== "finish") continue;
      await this.#append({ type: "turn", request: hash, events: JSON.parse(JSON.stringify(events)) as JsonValue[] });
      isStored = true;
      yield* held;
    }
    // A stream that ends earlier is requested again. Its calls must not be made, because the next turn has other ones.
  }

  /**
   * Wraps a router: a call that the journal has a result of is not made again.
   * @throws {ToolError} PARAM_INVALID if the journal has no tenant and the router needs one, or the other way round
   */
  router(router: AgentRouter): CallRouter {
    const own = toCallRouter(router);
    const tenancy = tenancyOf(own);
    tenancy?.tenantOf(this.#tenantId);
    return {
      ...(tenancy === undefined ? {} : { tenancy }),
      execute: (call: ToolCall, context?: CallContext, timeoutMs?: number) => this.#call(own, call, context, timeoutMs),
      stream: own.stream.bind(own),
      getRegisteredTools: own.getRegisteredTools.bind(own),
      digestOf: own.digestOf.bind(own),
      ...(own.listTools === undefined ? {} : { listTools: own.listTools.bind(own) }),
    } as CallRouter;
  }

  async #call(
    router: CallRouter,
    call: ToolCall,
    context: CallContext | undefined,
    timeoutMs: number | undefined,
  ): Promise<ToolResult> {
    const { id, toolName } = call as { readonly id: string; readonly toolName: string };
    if (context?.tenantId !== this.#tenantId) return failedResultOf({ callId: id, toolName }, otherTenant());
    const known = this.#results.get(id);
    if (known !== undefined) return known;
    const result =
      this.#begun.has(id) && !(await isRepeatable(router, toolName, context?.tenantId))
        ? failedResultOf({ callId: id, toolName }, interrupted(toolName))
        : await this.#make(router, call, context, timeoutMs);
    const stored = JSON.parse(
      JSON.stringify(result.success ? { ...result, output: toJson(result.output) } : result),
    ) as ToolResult;
    await this.#append({ type: "result", id, result: stored as unknown as JsonValue });
    this.#results.set(id, stored);
    return stored;
  }

  async #make(
    router: CallRouter,
    call: ToolCall,
    context: CallContext | undefined,
    timeoutMs: number | undefined,
  ): Promise<ToolResult> {
    const { id, toolName } = call as { readonly id: string; readonly toolName: string };
    await this.#append({ type: "call", id, toolName });
    return await router.execute(call, context, timeoutMs);
  }

  /**
   * Ends the journal with the outcome of the loop. A paused loop can be continued, with the same journal.
   * @throws {ToolError} PARAM_INVALID, as a rejection, for a value that is not an outcome: the journal is as before then
   */
  async end(outcome: AgentOutcome): Promise<void> {
    parseOptions(OutcomeSchema, outcome, "outcome");
    const { status, text } = outcome;
    if (status === "paused") return await this.#suspend();
    this.#close();
    const base = { callId: this.#claim.id, toolName: AGENT, durationMs: 0, usage: NO_USAGE, logs: [] };
    const result: ToolResult =
      status === "finished"
        ? { ...base, success: true, output: text }
        : { ...base, success: false, error: status === "failed" ? outcome.error : CANCELLED.toData(AGENT) };
    const state = status === "finished" ? "succeeded" : status;
    await this.#store.release(this.#claim, { state, result }, 0);
  }

  #close(): void {
    this.#isOpen = false;
    clearInterval(this.#renewing);
  }

  async #suspend(): Promise<void> {
    if (!this.#isOpen) return;
    this.#close();
    await this.#last;
    await this.#store.release(this.#claim, { state: "suspended", waits: [], wakeAt: undefined }, this.#entries);
  }

  /** Lets another process open the journal, unless it has ended. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#suspend();
  }
}

const AGENT = "agent";
const CANCELLED = new ToolError("CANCELLED", "The agent was cancelled");
const otherTenant = (): ToolError =>
  new ToolError("PARAM_INVALID", "context.tenantId: Expected the tenant of the agent's journal");
const interrupted = (toolName: string): ToolError =>
  new ToolError("TOOL_FAILED", `The process ended while "${toolName}" was under way. Its effects are possible`, {
    details: { effects: "possible" },
  });

async function isRepeatable(router: CallRouter, toolName: string, tenantId: string | undefined): Promise<boolean> {
  const definition = (await toolsOf(router, tenantId)).find(({ name }) => name === toolName);
  return definition !== undefined && isRepeatableTool(definition);
}

function parseEntry(text: string): Entry {
  try {
    return EntrySchema.parse(JSON.parse(text));
  } catch (thrown) {
    throw new ToolError("INTERNAL", "The journal of the agent cannot be read", { cause: thrown });
  }
}

/**
 * Opens the journal of an agent loop, or creates it. Run the loop with the same messages in each process, with `journal.model(model)` and
 * `journal.router(router)`; what the journal has is repeated from it.
 * @throws {ToolError} PARAM_INVALID for invalid options; NAME_TAKEN if another process has the journal; TOOL_UNAVAILABLE if it has ended
 * @example
 * ```ts
 * import { createGlovebox, MemoryRunStore } from "glovebox";
 * import { AgentLoop, type Model, openAgentJournal } from "glovebox/agent";
 *
 * const model: Model = async function* () {
 *   const message = { role: "assistant", content: [{ type: "text", text: "Hello" }] } as const;
 *   yield { type: "finish", reason: "stop", message };
 * };
 * await using glovebox = await createGlovebox();
 * await using journal = await openAgentJournal({ store: new MemoryRunStore(), id: "chat-1" });
 * const loop = new AgentLoop({ model: journal.model(model), router: journal.router(glovebox) });
 * const outcome = await loop.run({ messages: [{ role: "user", content: "Hi" }] });
 * await journal.end(outcome);
 * console.log(outcome.status); // finished
 * ```
 */
export async function openAgentJournal(options: AgentJournalOptions): Promise<AgentJournal> {
  const parsed = parseOptions(OptionsSchema, options, "options");
  const { store, id, tenantId = "default", leaseMs, lifetimeMs } = parsed;
  const now = clockOf(store)();
  const key = { tenantId, id };
  const times = { createdAt: now, expiresAt: now + lifetimeMs, leaseUntil: now + leaseMs };
  const created = await store.create(
    { ...key, kind: AGENT, toolName: AGENT, input: "{}", ...times },
    Number.MAX_SAFE_INTEGER,
  );
  const fence = created === "created" ? 1 : await store.claim(key, { kind: AGENT, now, until: now + leaseMs });
  if (fence === undefined) {
    const { state } = (await store.find(key)) ?? {};
    if (state === "running") throw new ToolError("NAME_TAKEN", `Another process has the journal ${JSON.stringify(id)}`);
    throw unavailable("not_found", `The journal ${JSON.stringify(id)} has ended`);
  }
  return new AgentJournal(parsed, { ...key, fence }, await store.journal(key));
}
