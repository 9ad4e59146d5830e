// One tools/call, whose tool may ask its caller. In 2025's protocol it is asked at once, while its request is open. In 2026-07-28's that
// takes rounds: the caller is told what is asked, and comes back with answers to a call that has been waiting for them.
import { randomUUID } from "node:crypto";
import {
  type ClientCapabilities,
  type InputRequest,
  type InputRequests,
  inputRequired,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type * as z from "zod";
import {
  type AskOptions,
  type CallClient,
  ElicitResultSchema,
  RootsSchema,
  SampleResultSchema,
} from "../../contract/client-requests.ts";
import type { ToolResult } from "../../contract/tool-call.ts";

/** What a caller has said that it can be asked. */
export interface AskableClient {
  readonly elicitation?: { readonly form?: unknown; readonly url?: unknown } | undefined;
  readonly sampling?: { readonly tools?: unknown; readonly context?: unknown } | undefined;
  readonly roots?: unknown;
}

/** What it would have had to say. */
type Missing = Pick<ClientCapabilities, keyof AskableClient>;

interface Question {
  readonly request: InputRequest;
  readonly schema: z.ZodType;
  readonly answer: (result: unknown) => void;
}

type Responses = Readonly<Record<string, unknown>>;

export type Round = { readonly result: ToolResult } | { readonly questions: InputRequests };

/**
 * What aborts when a request is cancelled, or whoever made it has gone. Of a session's request the protocol's machinery does not tell that
 * its stream has broken off; nobody else can have its answer.
 */
const endsOf = ({ mcpReq, http }: ServerContext): readonly AbortSignal[] =>
  http?.req === undefined ? [mcpReq.signal] : [mcpReq.signal, http.req.signal];

/** A timer's longest: how long an answer may take is whoever asks to say. */
const NEVER_MS = 2_147_483_647;
/** Questions of one turn of the tool are asked together. */
const GATHER_MS = 5;

export class OpenToolCall {
  readonly #questions = new Map<string, Question>();
  readonly #controller = new AbortController();
  readonly #result: Promise<ToolResult>;
  #asked = 0;
  #onQuestion: (() => void) | undefined;
  #hearer: ServerContext;
  /** Answers to what has not been asked yet: a caller that knows what will be asked may send them with its first request. */
  #ahead: Responses;
  /** What the tool would have asked of its caller, had that one declared that it can be asked. */
  missing: Missing = {};
  /** Rounds begun: what names an earlier one is out of date. */
  round = 0;

  /** @param run begins the call; whoever it tells of progress and logs is the request of the present round */
  constructor(
    hearer: ServerContext,
    client: AskableClient,
    ahead: Responses,
    run: (client: CallClient, signal: AbortSignal, hearer: () => ServerContext) => Promise<ToolResult>,
  ) {
    this.#hearer = hearer;
    this.#ahead = ahead;
    this.#result = run(this.#toCallClient(client), this.#controller.signal, () => this.#hearer);
  }

  get #hasRounds(): boolean {
    return this.#hearer.mcpReq.envelope !== undefined;
  }

  cancel(): void {
    this.#controller.abort();
  }

  /** The tool's result, or what it asks before it goes on; a request that is cancelled, or whose caller goes away, ends the call. */
  async next(hearer: ServerContext): Promise<Round> {
    this.#hearer = hearer;
    this.round += 1;
    const signals = endsOf(hearer);
    const cancel = (): void => this.cancel();
    if (signals.some(({ aborted }) => aborted)) cancel();
    for (const signal of signals) signal.addEventListener("abort", cancel, { once: true });
    try {
      const result = this.#result.then((one) => ({ result: one }));
      return await Promise.race([result, this.#gather()]);
    } finally {
      for (const signal of signals) signal.removeEventListener("abort", cancel);
      this.#onQuestion = undefined;
    }
  }

  async #gather(): Promise<Round> {
    if (this.#questions.size === 0) await new Promise<void>((resolve) => (this.#onQuestion = resolve));
    await new Promise((resolve) => setTimeout(resolve, GATHER_MS));
    return { questions: Object.fromEntries([...this.#questions].map(([key, { request }]) => [key, request])) };
  }

  /** What is not asked, or is no answer, is not heard; what is not answered is asked again. */
  answer(responses: Responses): void {
    this.#ahead = {};
    for (const [key, { schema, answer }] of [...this.#questions]) {
      const response = Object.hasOwn(responses, key) ? responses[key] : undefined;
      if (!schema.safeParse(response).success) continue;
      this.#questions.delete(key);
      answer(response);
    }
  }

  #ask<Answer>(request: InputRequest, schema: z.ZodType<Answer>, { signal, key: named }: AskOptions): Promise<Answer> {
    const ahead =
      named !== undefined && Object.hasOwn(this.#ahead, named) ? schema.safeParse(this.#ahead[named]) : undefined;
    if (ahead?.success === true) return Promise.resolve(ahead.data);
    if (!this.#hasRounds) return this.#askNow(request, schema, signal);
    const key = this.#keyOf(named);
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const question = { request, schema, answer: (result: unknown) => resolve(result as Answer) };
    const forget = (): void => {
      // Another one may have the same name by then.
      if (this.#questions.get(key) === question) this.#questions.delete(key);
    };
    this.#questions.set(key, question);
    signal.addEventListener("abort", forget, { once: true });
    this.#onQuestion?.();
    return promise;
  }

  async #askNow<Answer>(request: InputRequest, schema: z.ZodType<Answer>, signal: AbortSignal): Promise<Answer> {
    const { method, params } = request as { readonly method: string; readonly params?: Record<string, unknown> };
    // That revision has its pages named.
    const named = params?.mode === "url" ? { elicitationId: randomUUID(), ...params } : params;
    const asked = { method, ...(named === undefined ? {} : { params: named }) };
    return await this.#hearer.mcpReq.send(asked, schema, { signal, timeout: NEVER_MS });
  }

  /** What the tool calls its question, or the next number: no question that is open has it. */
  #keyOf(named: string | undefined): string {
    this.#asked += 1;
    if (named !== undefined && !this.#questions.has(named)) return named;
    while (this.#questions.has(`q${this.#asked}`)) this.#asked += 1;
    return `q${this.#asked}`;
  }

  #toCallClient({ elicitation, sampling, roots }: AskableClient): CallClient {
    const takesUrls = elicitation?.url !== undefined;
    const takesForms = elicitation !== undefined && (elicitation.form !== undefined || !takesUrls);
    const cannot = (missing: Missing): undefined => {
      this.missing = { ...this.missing, ...missing };
    };
    return {
      elicit: (request, options) => {
        if (request.mode === "url") {
          if (!takesUrls) return cannot({ elicitation: { url: {} } });
          const { message, url } = request;
          return this.#ask(inputRequired.elicitUrl({ message, url }), ElicitResultSchema, options);
        }
        if (!takesForms) return cannot({ elicitation: {} });
        const sent = inputRequired.elicit(request as Parameters<typeof inputRequired.elicit>[0]);
        return this.#ask(sent, ElicitResultSchema, options);
      },
      sample: (request, options) => {
        if (sampling === undefined) return cannot({ sampling: {} });
        const hasTools = request.tools !== undefined || request.toolChoice !== undefined;
        if (hasTools && sampling.tools === undefined) return cannot({ sampling: { tools: {} } });
        const sent = inputRequired.createMessage(request as Parameters<typeof inputRequired.createMessage>[0]);
        return this.#ask(sent, SampleResultSchema, options);
      },
      listRoots: (options) =>
        roots === undefined ? cannot({ roots: {} }) : this.#ask(inputRequired.listRoots(), RootsSchema, options),
    };
  }
}
