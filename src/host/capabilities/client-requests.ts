// Capabilities elicit, sample and roots: a tool sends a request to the client that called it, in MCP's terms. The time that a person or a
// model takes to answer does not count against the tool's timeout.

import * as z from "zod";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import {
  type CallClient,
  type ClientRequestOptions,
  type ElicitResult,
  ElicitResultSchema,
  KeyedElicitRequestSchema,
  RootsSchema,
  requestKeyFields,
  SampleRequestSchema,
  SampleResultSchema,
} from "../contract/client-requests.ts";
import { formatIssues } from "../json/format-issues.ts";
import { type CompiledSchema, compileSchema } from "../json-schema/compile-schema.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { type CallbackOutcome, runCallback } from "../util/host-callback.ts";
import { callOf } from "./call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "./capability.ts";

/** Longest time in ms that the clock of one call is paused, over all requests. After that, waiting counts against the tool's timeout. */
const MAX_PAUSED_MS = 900_000;

/** Counts the time in ms for which a call's clock was paused. */
const openMeter = (): { pausedMs: number } => ({ pausedMs: 0 });

/**
 * Sends a request to the client of a call and returns its answer, which is not validated yet. The wait ends with the call.
 * @throws {ToolError} CAPABILITY_DENIED without a client that answers, TOOL_TIMEOUT after `limits.clientWaitMs`, TOOL_FAILED when the client
 *   fails; a ToolError of the client is passed on
 */
async function requestFromClient(
  method: keyof CallClient,
  context: CapabilityContext,
  key: string | undefined,
  send: (client: CallClient, options: ClientRequestOptions) => unknown,
): Promise<unknown> {
  const call = callOf(context);
  const { client } = call.context;
  const { clientWaitMs } = call.limits;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(clientWaitMs)]);
  const answering = runCallback(() => (client === undefined ? undefined : send(client, { signal, key })), {
    timeoutMs: clientWaitMs,
    signal,
  });
  const outcome = answering instanceof Promise ? await whilePaused(call, context, answering) : answering;
  if ("answer" in outcome) {
    if (outcome.answer !== undefined) return outcome.answer;
    throw new ToolError(
      "CAPABILITY_DENIED",
      `The client that called "${context.toolName}" does not support "${method}"`,
    );
  }
  context.signal.throwIfAborted();
  const { failed, cause } = outcome;
  if (failed !== "threw") {
    throw new ToolError(
      "TOOL_TIMEOUT",
      `The client that called "${context.toolName}" did not answer within ${clientWaitMs} ms (limits.clientWaitMs)`,
    );
  }
  if (Error.isError(cause) && cause instanceof ToolError) throw cause;
  throw new ToolError("TOOL_FAILED", `The client that called "${context.toolName}" failed to answer "${method}"`, {
    cause,
  });
}

/** Pauses the clocks of the call and of its parent calls until the client answers. A clock runs on while the tool does other work. */
export async function whilePaused<Outcome = CallbackOutcome>(
  { chain }: PreparedCall,
  context: CapabilityContext,
  answering: Promise<Outcome>,
): Promise<Outcome> {
  const meter = context.perCall(openMeter);
  const since = performance.now();
  const waiter = {};
  chain.setWaiting(true, waiter);
  const limit = setTimeout(() => chain.setWaiting(false, waiter), Math.max(0, MAX_PAUSED_MS - meter.pausedMs)).unref();
  try {
    return await answering;
  } finally {
    clearTimeout(limit);
    meter.pausedMs += performance.now() - since;
    chain.setWaiting(false, waiter);
  }
}

/** Requests a form or a page. The content is validated against the form's schema, since the client may not have done so. */
export async function elicit(
  { key, ...request }: z.infer<typeof KeyedElicitRequestSchema>,
  context: CapabilityContext,
): Promise<ElicitResult> {
  const form = "requestedSchema" in request ? compileForm(request.requestedSchema) : undefined;
  const answer = await requestFromClient("elicit", context, key, (client, options) =>
    client.elicit?.(request, options),
  );
  const { action, content } = readAnswer(ElicitResultSchema, answer, "elicit");
  if (action !== "accept" || form === undefined) return { action };
  const outcome = form.validate((content ?? {}) as JsonValue);
  if (outcome.valid) return { action, content: content ?? {} };
  const issues = outcome.stopped ? outcome.message : formatIssues(outcome.issues);
  throw new ToolError("PARAM_INVALID", `The client's answer does not match requestedSchema: ${issues}`);
}

const compileForm = (schema: Readonly<Record<string, unknown>>): CompiledSchema =>
  compileSchema(schema as JsonSchema, { code: "PARAM_INVALID", subject: "requestedSchema" });

function readAnswer<Schema extends z.ZodType>(
  schema: Schema,
  answer: unknown,
  method: keyof CallClient,
): z.infer<Schema> {
  const parsed = schema.safeParse(answer);
  if (parsed.success) return parsed.data;
  throw new ToolError("TOOL_FAILED", `The client returned an invalid answer to "${method}"`);
}

/** Creates the capabilities behind `ctx.elicit(request)`, `ctx.sample(request)` and `ctx.roots()`. */
export function createClientRequestCapabilities(): readonly Capability[] {
  return [
    defineCapability({
      name: "elicit",
      description: "Asks the person behind the call to fill in a form, or to visit a page",
      inputSchema: KeyedElicitRequestSchema,
      outputSchema: z.unknown(),
      handler: elicit,
    }),
    defineCapability({
      name: "sample",
      description: "Asks the model behind the call for a message",
      inputSchema: SampleRequestSchema.extend(requestKeyFields),
      outputSchema: z.unknown(),
      handler: async ({ key, ...request }, context) =>
        readAnswer(
          SampleResultSchema,
          await requestFromClient("sample", context, key, (client, options) => client.sample?.(request, options)),
          "sample",
        ),
    }),
    defineCapability({
      name: "roots",
      description: "Lists the files and folders that the person behind the call works on",
      inputSchema: z.object(requestKeyFields).nullish(),
      outputSchema: z.unknown(),
      handler: async (request, context) =>
        readAnswer(
          RootsSchema,
          await requestFromClient("listRoots", context, request?.key, (client, options) => client.listRoots?.(options)),
          "listRoots",
        ),
    }),
  ];
}
