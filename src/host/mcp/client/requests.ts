// What an upstream server asks of its client: a person's answer, a model's, its roots. Nothing unless the host has stated a hook.
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
import { ANSWER_MS, type UpstreamCall } from "./upstream-call.ts";

const ELICITATION = "a short message with a form, or with a page at an http(s): address";
/** Values of one form. */
const MAX_FORM_VALUES = 1_000;

/** What is told of the host: only what it has a hook for. A form that was accepted has the defaults of what was left out (SEP-1034). */
export function toCapabilities({ onElicitation, onSampling, roots }: McpServerConfig): ClientCapabilities {
  return {
    ...(onElicitation === undefined ? {} : { elicitation: { form: { applyDefaults: true }, url: {} } }),
    ...(onSampling === undefined ? {} : { sampling: {} }),
    ...(roots === undefined ? {} : { roots: {} }),
  };
}

/** Whose call a request belongs to; undefined where that cannot be told. */
export type FindCall = () => UpstreamCall | undefined;

const invalid = (expected: string): ProtocolError =>
  new ProtocolError(ProtocolErrorCode.InvalidParams, `Expected ${expected}`);
const refused = (message: string): ProtocolError => new ProtocolError(ProtocolErrorCode.InvalidRequest, message);

/** @throws {ProtocolError} InvalidParams, for what nobody is to be asked */
function read<Schema extends z.ZodType>(schema: Schema, params: unknown, expected: string): z.output<Schema> {
  const parsed = schema.safeParse(params);
  if (parsed.success) return parsed.data;
  throw invalid(expected);
}

interface Asking {
  readonly findCall: FindCall;
  readonly server: string;
  /** Aborts when the server does not want the answer any more. */
  readonly asked: AbortSignal;
}

/** Asks the host's hook within its call, whose clock stands meanwhile. @throws {ProtocolError} for an answer that is none, as a rejection */
async function within<Schema extends z.ZodType>(
  { findCall, server, asked }: Asking,
  schema: Schema,
  ask: (context: McpRequestContext) => unknown,
): Promise<z.output<Schema>> {
  const call = findCall();
  // Asked without a call, or with several on their way on one channel, nobody knows whom it is about.
  if (call === undefined) throw refused("Nothing may be asked outside of a call, or of one among several");
  using question = call.asked();
  if (question === undefined) throw refused("One call may ask so often and no more");
  const { toolName } = call;
  const { tenantId, callId, client } = call.context;
  const signal = AbortSignal.any([asked, question.signal]);
  const context = { server, tenantId, callId, toolName, client, signal };
  const outcome = await runCallback(() => ask(context), { timeoutMs: ANSWER_MS, signal });
  const parsed = "answer" in outcome ? schema.safeParse(outcome.answer) : undefined;
  if (parsed?.success === true) return parsed.data;
  // What the host's function says or throws is not for the server.
  throw new ProtocolError(ProtocolErrorCode.InternalError, "It could not be answered");
}

/** What a person is shown has nothing invisible in it. @throws {ProtocolError} InvalidParams, for names or values that have */
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

/** Answers what the server asks, as the host's hooks do. Before the client connects. */
export function answerRequests(client: Client, server: string, config: McpServerConfig, findCall: FindCall): void {
  const { onElicitation, onSampling, roots } = config;
  if (onElicitation !== undefined) {
    client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
      const request = toVisibleRequest(read(ElicitRequestSchema, params, ELICITATION));
      const asking = { findCall, server, asked: mcpReq.signal };
      return (await within(asking, ElicitResultSchema, (context) => onElicitation(request, context))) as never;
    });
  }
  if (onSampling !== undefined) {
    client.setRequestHandler("sampling/createMessage", async ({ params }, { mcpReq }) => {
      const request = read(SampleRequestSchema, params, "up to 256 messages, and maxTokens");
      // As the protocol has it of a client that has not said `sampling.tools`.
      if ("tools" in request || "toolChoice" in request) throw invalid("messages without tools: they are not offered");
      const asking = { findCall, server, asked: mcpReq.signal };
      return (await within(asking, SampleResultSchema, (context) => onSampling(request, context))) as never;
    });
  }
  if (roots !== undefined) {
    const told = roots.map(({ uri, name }) => (name === undefined ? { uri } : { uri, name }));
    client.setRequestHandler("roots/list", () => ({ roots: told }));
  }
}
