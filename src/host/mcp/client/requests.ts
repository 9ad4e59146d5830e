// Handles the requests of an upstream server to its client (elicitation, sampling, roots) with the hooks that the host has configured.
import { type Client, type ClientCapabilities, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";
import type * as z from "zod";
import {
  type ElicitRequest,
  ElicitRequestSchema,
  ElicitResultSchema,
  SampleRequestSchema,
  SampleResultSchema,
} from "../../contract/client-requests.ts";
import { runCallback } from "../../util/host-callback.ts";
import type { McpRequestContext, McpServerConfig } from "./mcp-options.ts";
import { hasAtMost } from "./reading/json-size.ts";
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
  readonly findCall: FindCall;
  readonly server: string;
  /** Aborts when the server cancels its request. */
  readonly cancelled: AbortSignal;
}

/**
 * Calls a hook of the host within the call that the request belongs to, whose timeouts are paused meanwhile.
 * @throws {ProtocolError} as a rejection, for a request outside of a call, and for an invalid answer of the hook
 */
async function callHook<Schema extends z.ZodType>(
  { findCall, server, cancelled }: HookRequest,
  schema: Schema,
  hook: (context: McpRequestContext) => unknown,
): Promise<z.output<Schema>> {
  const call = findCall();
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

/** Registers handlers for the server's requests that call the host's hooks. Must run before the client connects. */
export function answerRequests(client: Client, server: string, config: McpServerConfig, findCall: FindCall): void {
  const { onElicitation, onSampling, roots } = config;
  if (onElicitation !== undefined) {
    client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
      const request = toVisibleRequest(parseParams(ElicitRequestSchema, params, ELICITATION));
      const hookRequest = { findCall, server, cancelled: mcpReq.signal };
      return (await callHook(hookRequest, ElicitResultSchema, (context) => onElicitation(request, context))) as never;
    });
  }
  if (onSampling !== undefined) {
    client.setRequestHandler("sampling/createMessage", async ({ params }, { mcpReq }) => {
      const request = parseParams(SampleRequestSchema, params, "up to 256 messages, and maxTokens");
      // The protocol requires this error of a client without the capability `sampling.tools`.
      if ("tools" in request || "toolChoice" in request) throw invalid("messages without tools (sampling.tools)");
      const hookRequest = { findCall, server, cancelled: mcpReq.signal };
      return (await callHook(hookRequest, SampleResultSchema, (context) => onSampling(request, context))) as never;
    });
  }
  if (roots !== undefined) {
    const rootList = roots.map(({ uri, name }) => (name === undefined ? { uri } : { uri, name }));
    client.setRequestHandler("roots/list", () => ({ roots: rootList }));
  }
}
