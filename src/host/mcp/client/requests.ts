// Handles the requests of an upstream server to its client (elicitation, sampling, roots) with the hooks that the host has configured.
import { type Client, type ClientCapabilities, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";
import type * as z from "zod";
import {
  type ElicitRequest,
  ElicitRequestSchema,
  type ElicitResult,
  ElicitResultSchema,
  SampleRequestSchema,
  SampleResultSchema,
} from "../../contract/client-requests.ts";
import { runCallback } from "../../util/host-callback.ts";
import type { McpRequestContext, McpServerConfig } from "./mcp-options.ts";
import { hasAtMost } from "./reading/json-size.ts";
import { TASKS_EXTENSION } from "./tasks/upstream-task.ts";
import { toVisibleSchema } from "./text/visible-schema.ts";
import { toVisible } from "./text/visible-text.ts";
import { ANSWER_MS, MAX_REQUESTS, type UpstreamCall } from "./upstream-call.ts";

const ELICITATION = "a short message with a form, or with a page at an http(s): address";
/** Largest number of values in the schema of a form. */
const MAX_FORM_VALUES = 1_000;

/** Returns the client capabilities to declare: those with a hook. Defaults are filled into an accepted form (SEP-1034). */
export function toCapabilities({ onElicitation, onSampling, roots }: McpServerConfig): ClientCapabilities {
  return {
    ...(onElicitation === undefined ? {} : { elicitation: { form: { applyDefaults: true }, url: {} } }),
    ...(onSampling === undefined ? {} : { sampling: {} }),
    ...(roots === undefined ? {} : { roots: {} }),
    // A call may become a task, which the client polls.
    extensions: { [TASKS_EXTENSION]: {} },
  };
}

/** Returns the call that the current request belongs to; undefined if that is unknown. */
export type FindCall = () => UpstreamCall | undefined;

const invalid = (expected: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, `Expected ${expected}`);
const rejected = (message: string): ProtocolError => new ProtocolError(ProtocolErrorCode.InvalidRequest, message);

/** Parses the parameters of a request. @throws {ProtocolError} InvalidParams */
function parseParams<Schema extends z.ZodType>(schema: Schema, params: unknown, expected: string): z.output<Schema> {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  throw invalid(expected);
}

interface HookRequest {
  readonly call: UpstreamCall | undefined;
  readonly server: string;
  /** Aborts when the server cancels its request. */
  readonly cancelled: AbortSignal;
}

/**
 * Calls a hook of the host within the call that the request belongs to, whose timeouts are paused meanwhile.
 * @throws {ProtocolError} as a rejection, for a request outside of a call, and for an invalid answer of the hook
 */
async function callHook<Schema extends z.ZodType>(
  { call, server, cancelled }: HookRequest,
  schema: Schema,
  hook: (context: McpRequestContext) => unknown,
): Promise<z.output<Schema>> {
  // Without a call, or with several on one channel, the tenant that the request concerns is unknown.
  if (call === undefined) throw rejected("The request cannot be attributed to one running call");
  using pending = call.beginRequest();
  if (pending === undefined) throw rejected(`A call can send at most ${MAX_REQUESTS} requests to its client`);
  const { toolName } = call;
  const { tenantId, callId, client } = call.context;
  const signal = AbortSignal.any([cancelled, pending.signal]);
  const context = { server, tenantId, callId, toolName, client, signal };
  const outcome = await runCallback(() => hook(context), { timeoutMs: ANSWER_MS, signal });
  const parsed = "answer" in outcome ? schema.safeParse(outcome.answer) : undefined;
  if (parsed?.success === true) return parsed.data;
  // The server must not see the hook's errors.
  throw new ProtocolError(ProtocolErrorCode.InternalError, "The request could not be answered");
}

/**
 * Removes invisible characters from the texts of a request that a user will see.
 * @throws {ProtocolError} InvalidParams for names and values that contain invisible characters
 */
function toVisibleRequest(request: ElicitRequest): ElicitRequest {
  const message = toVisible(request.message);
  if (!("requestedSchema" in request)) return { ...request, message };
  if (!hasAtMost(request.requestedSchema, MAX_FORM_VALUES))
    throw invalid(`a form of at most ${MAX_FORM_VALUES} values`);
  try {
    return { ...request, message, requestedSchema: toVisibleSchema(request.requestedSchema, "requestedSchema") };
  } catch {
    throw invalid("a form whose names and values are visible");
  }
}

/** Fills the defaults of a form into its accepted values (SEP-1034), as the SDK does where it receives the request. */
function withDefaults(request: ElicitRequest, result: ElicitResult): ElicitResult {
  if (!("requestedSchema" in request) || result.action !== "accept") return result;
  const content: { [name: string]: unknown } = { ...result.content };
  for (const [name, field] of Object.entries(request.requestedSchema.properties)) {
    if (Object.hasOwn(content, name) || field.default === undefined) continue;
    Object.defineProperty(content, name, {
      value: field.default,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return { ...result, content };
}

/** Answers a request of a server. @throws {ProtocolError} as a rejection, with the error that the server may see */
type AnswerRequest = (params: unknown, cancelled: AbortSignal, call: UpstreamCall | undefined) => Promise<object>;
const REQUEST_METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"] as const;

/** Functions that answer a server's requests, by method: those that the host allows. */
export type RequestAnswers = { readonly [Method in (typeof REQUEST_METHODS)[number]]?: AnswerRequest };

/** Returns the functions that answer a server's requests with the host's hooks. */
export function toAnswers(server: string, { onElicitation, onSampling, roots }: McpServerConfig): RequestAnswers {
  const elicit: AnswerRequest = async (params, cancelled, call) => {
    const request = toVisibleRequest(parseParams(ElicitRequestSchema, params, ELICITATION));
    const answer = await callHook({ call, server, cancelled }, ElicitResultSchema, (ctx) =>
      onElicitation?.(request, ctx),
    );
    return withDefaults(request, answer);
  };
  const sample: AnswerRequest = (params, cancelled, call) => {
    const request = parseParams(SampleRequestSchema, params, "up to 256 messages, and maxTokens");
    // The protocol requires this error of a client without the capability `sampling.tools`.
    if ("tools" in request || "toolChoice" in request) throw invalid("messages without tools (sampling.tools)");
    return callHook({ call, server, cancelled }, SampleResultSchema, (context) => onSampling?.(request, context));
  };
  const rootList = roots?.map(({ uri, name }) => (name === undefined ? { uri } : { uri, name })) ?? [];
  return {
    ...(onElicitation === undefined ? {} : { "elicitation/create": elicit }),
    ...(onSampling === undefined ? {} : { "sampling/createMessage": async (...request) => await sample(...request) }),
    ...(roots === undefined ? {} : { "roots/list": async () => ({ roots: rootList }) }),
  };
}

/** Registers handlers for the requests that the server sends itself. Must run before the client connects. */
export function answerRequests(client: Client, answers: RequestAnswers, findCall: FindCall): void {
  for (const method of REQUEST_METHODS) {
    const answer = answers[method];
    if (answer === undefined) continue;
    client.setRequestHandler(
      method,
      async (request, { mcpReq }) => (await answer(request.params, mcpReq.signal, findCall())) as never,
    );
  }
}
