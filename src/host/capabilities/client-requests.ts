// elicit, sample, roots: a tool asks whoever calls it, in MCP's words, as far as that one can be asked. What a person or a model takes
// for its answer is not the tool's time.

import * as z from "zod";
import type { JsonSchema } from "../../sandbox/contract/definition.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import {
  AskedElicitSchema,
  type AskOptions,
  asked,
  type CallClient,
  type ElicitResult,
  ElicitResultSchema,
  RootsSchema,
  SampleRequestSchema,
  SampleResultSchema,
} from "../contract/client-requests.ts";
import { formatIssues } from "../json/format-issues.ts";
import { type CompiledSchema, compileSchema } from "../json-schema/compile-schema.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { type CallbackOutcome, runCallback } from "../util/host-callback.ts";
import { callOf } from "./call-scope.ts";
import { type Capability, type CapabilityContext, defineCapability } from "./capability.ts";

/** Of one call, with its clock standing still; what waits longer takes the tool's own time. */
const HELD_MS = 900_000;

/** How long a call's clock has stood still for answers. */
const openMeter = (): { heldMs: number } => ({ heldMs: 0 });

/**
 * Asks the client of a call and returns its answer, not yet validated. The wait ends with the call.
 * @throws {ToolError} CAPABILITY_DENIED without a client that answers, TOOL_TIMEOUT after `limits.clientWaitMs`, TOOL_FAILED when the client
 *   fails; a ToolError of the client is passed on
 */
async function ask(
  what: keyof CallClient,
  context: CapabilityContext,
  key: string | undefined,
  send: (client: CallClient, options: AskOptions) => unknown,
): Promise<unknown> {
  const call = callOf(context);
  const { client } = call.context;
  const { clientWaitMs } = call.limits;
  const signal = AbortSignal.any([context.signal, AbortSignal.timeout(clientWaitMs)]);
  const asking = runCallback(() => (client === undefined ? undefined : send(client, { signal, key })), {
    timeoutMs: clientWaitMs,
    signal,
  });
  const outcome = asking instanceof Promise ? await whileHeld(call, context, asking) : asking;
  if ("answer" in outcome) {
    if (outcome.answer !== undefined) return outcome.answer;
    throw new ToolError("CAPABILITY_DENIED", `The client that called "${context.toolName}" does not answer "${what}"`);
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
  throw new ToolError("TOOL_FAILED", `The client that called "${context.toolName}" failed to answer "${what}"`, {
    cause,
  });
}

/** Stops the call's clock, and those of the calls that it is nested in, until there is an answer, while the tool does nothing else. */
async function whileHeld(
  { chain }: PreparedCall,
  context: CapabilityContext,
  asking: Promise<CallbackOutcome>,
): Promise<CallbackOutcome> {
  const meter = context.perCall(openMeter);
  const since = performance.now();
  const holder = {};
  chain.hold(true, holder);
  const limit = setTimeout(() => chain.hold(false, holder), Math.max(0, HELD_MS - meter.heldMs)).unref();
  try {
    return await asking;
  } finally {
    clearTimeout(limit);
    meter.heldMs += performance.now() - since;
    chain.hold(false, holder);
  }
}

/** What was filled in is checked against the form: whoever shows it may not have. */
async function elicit(
  { key, ...request }: z.infer<typeof AskedElicitSchema>,
  context: CapabilityContext,
): Promise<ElicitResult> {
  const form = "requestedSchema" in request ? compileForm(request.requestedSchema) : undefined;
  const answered = await ask("elicit", context, key, (client, options) => client.elicit?.(request, options));
  const { action, content } = readAnswer(ElicitResultSchema, answered, "elicit");
  if (action !== "accept" || form === undefined) return { action };
  const outcome = form.validate((content ?? {}) as JsonValue);
  if (outcome.valid) return { action, content: content ?? {} };
  const problem = outcome.stopped ? outcome.message : formatIssues(outcome.problems);
  throw new ToolError("PARAM_INVALID", `The answer does not fit the form: ${problem}`);
}

const compileForm = (schema: Readonly<Record<string, unknown>>): CompiledSchema =>
  compileSchema(schema as JsonSchema, { code: "PARAM_INVALID", subject: "requestedSchema" });

function readAnswer<Schema extends z.ZodType>(
  schema: Schema,
  answer: unknown,
  what: keyof CallClient,
): z.infer<Schema> {
  const read = schema.safeParse(answer);
  if (read.success) return read.data;
  throw new ToolError("TOOL_FAILED", `The client returned an invalid answer (${what})`);
}

/** `ctx.elicit(request)`, `ctx.sample(request)`, `ctx.roots()`. */
export function createAskCapabilities(): readonly Capability[] {
  return [
    defineCapability({
      name: "elicit",
      description: "Asks the person behind the call to fill in a form, or to visit a page",
      inputSchema: AskedElicitSchema,
      outputSchema: z.unknown(),
      handler: elicit,
    }),
    defineCapability({
      name: "sample",
      description: "Asks the model behind the call for a message",
      inputSchema: SampleRequestSchema.extend(asked),
      outputSchema: z.unknown(),
      handler: async ({ key, ...request }, context) =>
        readAnswer(
          SampleResultSchema,
          await ask("sample", context, key, (client, options) => client.sample?.(request, options)),
          "sample",
        ),
    }),
    defineCapability({
      name: "roots",
      description: "Lists the places in their files that the person behind the call works on",
      inputSchema: z.object(asked).nullish(),
      outputSchema: z.unknown(),
      handler: async (request, context) =>
        readAnswer(
          RootsSchema,
          await ask("listRoots", context, request?.key, (client, options) => client.listRoots?.(options)),
          "listRoots",
        ),
    }),
  ];
}
