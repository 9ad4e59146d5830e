// "glovebox/openai-agents": converts hosted tools to function tools of the OpenAI Agents SDK (`@openai/agents`). Aborting a run also
// cancels its tools.
/// <reference types="node" preserve="true" />
import { type FunctionTool, type ToolCallOutputContent, tool } from "@openai/agents";
import type { ModelToolCall } from "../agent/model.ts";
import { callAgentTool } from "../agent/tools/call-tool.ts";
import { CallReader } from "../openai/calls.ts";
import { type OutputPart, toOutputParts } from "../openai/output.ts";
import { type ResponsesFunctionTool, toOpenAITools } from "../openai/tools.ts";
import { type HostedTools, selectTools, type ToolSelection } from "./hosted-tools.ts";

type AgentsTool = FunctionTool<unknown>;

/**
 * The SDK's own policy of a tool that needs no approval. With any other function, the SDK waits for an approval of each call whose arguments
 * are not a JSON object, instead of reporting them to the model.
 */
const { needsApproval } = tool({
  name: "unused",
  description: "",
  strict: false,
  parameters: { type: "object", properties: {}, required: [], additionalProperties: true },
  execute: () => "",
});

const FILE = /^data:([^;]*);base64,(.*)$/s;

function toOutputContent(part: OutputPart): ToolCallOutputContent {
  switch (part.type) {
    case "text":
      return part;
    case "image":
      return { type: "image", image: part.url };
    case "file": {
      const [, mediaType = "", data = ""] = FILE.exec(part.data) ?? [];
      return { type: "file", file: { data, mediaType, filename: part.filename } };
    }
  }
}

/** Returns a single text as a string: the SDK would interpret some JSON objects as its own parts, and a tool controls their content. */
function toOutput(parts: readonly OutputPart[]): string | ToolCallOutputContent[] {
  const [first] = parts;
  return parts.length === 1 && first?.type === "text" ? first.text : parts.map(toOutputContent);
}

/**
 * Converts hosted tools to function tools.
 * @param host a Glovebox, or a ToolRouter
 * @returns the value for an agent's `tools`, with one entry per tool: strict if its schema allows it, and with an alias if its name is not
 *   valid for OpenAI. A failed call is answered with its message, so that the run continues.
 * @throws {ToolError} PARAM_INVALID for an unknown option or one of the wrong type, naming its path; TOOL_UNAVAILABLE if a tool that is
 *   requested by name does not exist
 * @example
 * ```typescript
 * import { Agent, run } from "@openai/agents";
 * import { createGlovebox } from "glovebox";
 * import { toAgentsTools } from "glovebox/openai-agents";
 *
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ path: "./tools/add.ts" });
 * const agent = new Agent({ name: "clerk", tools: toAgentsTools(glovebox) });
 * const result = await run(agent, "How much is 19 + 23?");
 * console.log(result.finalOutput);
 * ```
 */
export function toAgentsTools(host: HostedTools, options?: ToolSelection): AgentsTool[] {
  const { router, definitions, contextOf } = selectTools(host, options);
  const openai = toOpenAITools(definitions, { api: "responses" });
  return (openai.tools as readonly ResponsesFunctionTool[]).map(({ name, description, parameters, strict }) => ({
    type: "function",
    name,
    description,
    strict,
    parameters: parameters as AgentsTool["parameters"],
    needsApproval: needsApproval as unknown as AgentsTool["needsApproval"],
    isEnabled: async () => true,
    invoke: async (_run, argumentsText, details) => {
      const rawCall = { id: details?.toolCall?.callId, name, kind: "function", argumentsText } as const;
      const [call] = new CallReader(openai).read(rawCall) as [ModelToolCall];
      return toOutput(toOutputParts(await callAgentTool(router, call, contextOf(details?.signal))));
    },
  }));
}
