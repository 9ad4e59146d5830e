// Runs one `tools/call` whose tool may request input from the client. In the revisions of 2025, the server sends such a request at once,
// while the call's HTTP request is open. In 2026-07-28 it takes rounds: the response contains the input requests, the call waits, and the
// client's next request contains the answers.
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
  type CallClient,
  type ClientRequestOptions,
  ElicitResultSchema,
  noteWithoutElicitation,
  RootsSchema,
  SampleResultSchema,
} from "../../../contract/client-requests.ts";
import type { ToolResult } from "../../../contract/tool-call.ts";
import type { CreatedTask } from "../tasks/start-task.ts";

/** The client capabilities that input requests need. */
export interface RequestCapabilities {
  readonly elicitation?: { readonly form?: unknown; readonly url?: unknown } | undefined;
  readonly sampling?: { readonly tools?: unknown; readonly context?: unknown } | undefined;
  readonly roots?: unknown;
}

type MissingCapabilities = Pick<ClientCapabilities, keyof RequestCapabilities>;

interface PendingRequest {
  readonly request: InputRequest;
  readonly schema: z.ZodType;
  readonly resolve: (result: unknown) => void;
}

type Responses = Readonly<Record<string, unknown>>;

/** What a call becomes: a result, or a task. */
export type ServerCallOutcome = ToolResult | CreatedTask;

export type Round = { readonly result: ServerCallOutcome } | { readonly inputRequests: InputRequests };

/**
 * Returns the signals that abort when a request is cancelled or its client disconnects. For requests in a session the SDK does not report a
 * closed stream, so the signal of the HTTP request is needed too. The response could not be delivered to another client.
 */
const abortSignalsOf = ({ mcpReq, http }: ServerContext): readonly AbortSignal[] =>
  http?.req === undefined ? [mcpReq.signal] : [mcpReq.signal, http.req.signal];

/** Longest delay of a timer. It disables the SDK's timeout, because the tool's own timeout applies to its input requests. */
const NO_TIMEOUT_MS = 2_147_483_647;
/** Time in ms in which input requests are combined into one round. */
const DEBOUNCE_MS = 5;

export class OpenToolCall {
  readonly #pending = new Map<string, PendingRequest>();
  readonly #controller = new AbortController();
  readonly #result: Promise<ServerCallOutcome>;
  #requestCount = 0;
  #onRequest: (() => void) | undefined;
  #currentRequest: ServerContext;
  /** Answers to requests that the tool has not made yet. A client that knows a request's key can send them with the call. */
  #earlyResponses: Responses;
  /** Capabilities that the tool's requests needed and the client did not declare. */
  missing: MissingCapabilities = {};
  /** Number of the current round. A token of an earlier round is no longer valid. */
  round = 0;

  /** @param run starts the call; its last argument returns the request that receives progress and logs */
  constructor(
    currentRequest: ServerContext,
    capabilities: RequestCapabilities,
    earlyResponses: Responses,
    run: (client: CallClient, signal: AbortSignal, currentRequest: () => ServerContext) => Promise<ServerCallOutcome>,
  ) {
    this.#currentRequest = currentRequest;
    this.#earlyResponses = earlyResponses;
    this.#result = run(this.#toCallClient(capabilities), this.#controller.signal, () => this.#currentRequest);
  }

  get #hasRounds(): boolean {
    return this.#currentRequest.mcpReq.envelope !== undefined;
  }

  cancel(): void {
    this.#controller.abort();
  }

  /** Returns the tool's result, or the input requests that it waits for. The call is cancelled if the request is, or if its client disconnects. */
  async next(currentRequest: ServerContext): Promise<Round> {
    this.#currentRequest = currentRequest;
    this.round += 1;
    const signals = abortSignalsOf(currentRequest);
    const cancel = (): void => this.cancel();
    if (signals.some(({ aborted }) => aborted)) cancel();
    for (const signal of signals) signal.addEventListener("abort", cancel, { once: true });
    try {
      const result = this.#result.then((toolResult) => ({ result: toolResult }));
      return await Promise.race([result, this.#collectRequests()]);
    } finally {
      for (const signal of signals) signal.removeEventListener("abort", cancel);
      this.#onRequest = undefined;
    }
  }

  async #collectRequests(): Promise<Round> {
    if (this.#pending.size === 0) await new Promise<void>((resolve) => (this.#onRequest = resolve));
    await new Promise((resolve) => setTimeout(resolve, DEBOUNCE_MS));
    return { inputRequests: Object.fromEntries([...this.#pending].map(([key, { request }]) => [key, request])) };
  }

  /** Resolves pending requests with their answers. Unknown keys and invalid answers are ignored; unanswered requests stay pending. */
  answer(responses: Responses): void {
    this.#earlyResponses = {};
    for (const [key, { schema, resolve }] of [...this.#pending]) {
      const response = Object.hasOwn(responses, key) ? responses[key] : undefined;
      if (!schema.safeParse(response).success) continue;
      this.#pending.delete(key);
      resolve(response);
    }
  }

  #request<Answer>(
    request: InputRequest,
    schema: z.ZodType<Answer>,
    { signal, key: name }: ClientRequestOptions,
  ): Promise<Answer> {
    const early =
      name !== undefined && Object.hasOwn(this.#earlyResponses, name)
        ? schema.safeParse(this.#earlyResponses[name])
        : undefined;
    if (early?.success === true) return Promise.resolve(early.data);
    if (!this.#hasRounds) return this.#requestNow(request, schema, signal);
    const key = this.#keyOf(name);
    const { promise, resolve } = Promise.withResolvers<Answer>();
    const pending = { request, schema, resolve: (result: unknown) => resolve(result as Answer) };
    const remove = (): void => {
      // A later request may have the same key by then.
      if (this.#pending.get(key) === pending) this.#pending.delete(key);
    };
    this.#pending.set(key, pending);
    signal.addEventListener("abort", remove, { once: true });
    this.#onRequest?.();
    return promise;
  }

  async #requestNow<Answer>(request: InputRequest, schema: z.ZodType<Answer>, signal: AbortSignal): Promise<Answer> {
    const { method, params } = request as { readonly method: string; readonly params?: Record<string, unknown> };
    // The revisions of 2025 require an id in requests to open a URL.
    const withId = params?.mode === "url" ? { elicitationId: randomUUID(), ...params } : params;
    const message = { method, ...(withId === undefined ? {} : { params: withId }) };
    return await this.#currentRequest.mcpReq.send(message, schema, { signal, timeout: NO_TIMEOUT_MS });
  }

  /** Returns the name that the tool gave its request, or a numbered one if it has none or the name is in use. */
  #keyOf(name: string | undefined): string {
    this.#requestCount += 1;
    if (name !== undefined && !this.#pending.has(name)) return name;
    while (this.#pending.has(`q${this.#requestCount}`)) this.#requestCount += 1;
    return `q${this.#requestCount}`;
  }

  #toCallClient({ elicitation, sampling, roots }: RequestCapabilities): CallClient {
    const supportsUrls = elicitation?.url !== undefined;
    const supportsForms = elicitation !== undefined && (elicitation.form !== undefined || !supportsUrls);
    const reportMissing = (missing: MissingCapabilities): undefined => {
      this.missing = { ...this.missing, ...missing };
    };
    const client: CallClient = {
      elicit: (request, options) => {
        if (request.mode === "url") {
          if (!supportsUrls) return reportMissing({ elicitation: { url: {} } });
          const { message, url } = request;
          return this.#request(inputRequired.elicitUrl({ message, url }), ElicitResultSchema, options);
        }
        if (!supportsForms) return reportMissing({ elicitation: {} });
        const sent = inputRequired.elicit(request as Parameters<typeof inputRequired.elicit>[0]);
        return this.#request(sent, ElicitResultSchema, options);
      },
      sample: (request, options) => {
        if (sampling === undefined) return reportMissing({ sampling: {} });
        const hasTools = request.tools !== undefined || request.toolChoice !== undefined;
        if (hasTools && sampling.tools === undefined) return reportMissing({ sampling: { tools: {} } });
        const sent = inputRequired.createMessage(request as Parameters<typeof inputRequired.createMessage>[0]);
        return this.#request(sent, SampleResultSchema, options);
      },
      listRoots: (options) =>
        roots === undefined
          ? reportMissing({ roots: {} })
          : this.#request(inputRequired.listRoots(), RootsSchema, options),
    };
    if (elicitation === undefined) noteWithoutElicitation(client);
    return client;
  }
}
