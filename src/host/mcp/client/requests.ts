// What an upstream server asks of its client: a person's answer, a model's, its roots. Nothing unless the host has stated a hook.
import { type Client, type ClientCapabilities, ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/client";
import type * as z from "zod";
import { ElicitRequestSchema, SampleRequestSchema } from "../../capabilities/ask-client.ts";
import { untilAborted } from "../../until-aborted.ts";
import type { McpRequestContext, McpServerConfig } from "./mcp-options.ts";
import type { UpstreamCall } from "./upstream-call.ts";

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

/** Within its call: that one's clock stands meanwhile. */
async function within<Answer>(
  findCall: FindCall,
  server: string,
  asked: AbortSignal,
  ask: (context: McpRequestContext) => Answer | Promise<Answer>,
): Promise<Answer> {
  const call = findCall();
  // Asked without a call, or with several on their way on one channel, nobody knows whom it is about.
  if (call === undefined) throw refused("Nothing may be asked outside of a call, or of one among several");
  using question = call.asked();
  if (question === undefined) throw refused("One call may ask so often and no more");
  const { toolName } = call;
  const { tenantId, callId, client } = call.context;
  const signal = AbortSignal.any([asked, question.signal]);
  try {
    const context = { server, tenantId, callId, toolName, client, signal };
    return await untilAborted((async () => await ask(context))(), signal);
  } catch {
    // What the host's function says is not for the server.
    throw new ProtocolError(ProtocolErrorCode.InternalError, "It could not be answered");
  }
}

/** Answers what the server asks, as the host's hooks do. Before the client connects. */
export function answerRequests(client: Client, server: string, config: McpServerConfig, findCall: FindCall): void {
  const { onElicitation, onSampling, roots } = config;
  if (onElicitation !== undefined) {
    client.setRequestHandler("elicitation/create", async ({ params }, { mcpReq }) => {
      const request = read(
        ElicitRequestSchema,
        params,
        "a short message with a form, or with a page at an http(s): address",
      );
      // What a hook answers is checked by the machinery.
      return (await within(findCall, server, mcpReq.signal, (context) => onElicitation(request, context))) as never;
    });
  }
  if (onSampling !== undefined) {
    client.setRequestHandler("sampling/createMessage", async ({ params }, { mcpReq }) => {
      const request = read(SampleRequestSchema, params, "up to 256 messages, and maxTokens");
      // As the protocol has it of a client that has not said `sampling.tools`.
      if ("tools" in request || "toolChoice" in request) throw invalid("messages without tools: they are not offered");
      return (await within(findCall, server, mcpReq.signal, (context) => onSampling(request, context))) as never;
    });
  }
  if (roots !== undefined) {
    const told = roots.map(({ uri, name }) => (name === undefined ? { uri } : { uri, name }));
    client.setRequestHandler("roots/list", () => ({ roots: told }));
  }
}
