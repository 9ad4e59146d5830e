// "glovebox/openai-agents": hosted tools as function tools of the OpenAI Agents SDK (`@openai/agents`). When a run is aborted, its tools
// are stopped.
import { randomUUID } from "node:crypto";
import type { FunctionTool, ToolCallOutputContent } from "@openai/agents";
import { createToolFailureMessage } from "../failure-message.ts";
import type { ToolResult } from "../tool-call.ts";
import { toJson } from "../tool-value.ts";
import { type EdgeTools, type HostedTools, selectTools } from "./hosted-tools.ts";
import { type ModelPart, toModelParts } from "./model-parts.ts";

type AgentsTool = FunctionTool<unknown>;

function toOutputPart(part: ModelPart): ToolCallOutputContent {
  if (part.type === "text") return part;
  const { data, mimeType, filename = "file" } = part;
  return mimeType.startsWith("image/")
    ? { type: "image", image: `data:${mimeType};base64,${data}` }
    : { type: "file", file: { data, mediaType: mimeType, filename } };
}

/** Text, but where there is content: the SDK would take some objects for parts of its own, and they are a tool's. */
function toOutput(result: Extract<ToolResult, { success: true }>): string | ToolCallOutputContent[] {
  const parts = toModelParts(result);
  if (parts !== undefined) return parts.map(toOutputPart);
  return typeof result.output === "string" ? result.output : JSON.stringify(toJson(result.output));
}

/**
 * @param host a Glovebox, or a ToolRouter
 * @returns one function tool for each tool, to be given as an agent's `tools`. A call that fails is answered with one honest sentence, so
 *   that the run goes on. Names that the provider does not take are replaced by aliases.
 */
export function toAgentsTools(host: HostedTools, options: EdgeTools = {}): AgentsTool[] {
  const { tenantId } = options;
  const { router, tools } = selectTools(host, options);
  return tools.map(({ alias, definition }) => ({
    type: "function",
    name: alias,
    description: definition.description,
    parameters: definition.inputSchema as AgentsTool["parameters"],
    strict: false,
    needsApproval: async () => false,
    isEnabled: async () => true,
    invoke: async (_run, argumentsText, details) => {
      const call = { id: details?.toolCall?.callId ?? randomUUID(), toolName: definition.name, argumentsText };
      const signal = details?.signal;
      const result = await router.execute(call, {
        ...options.context,
        tenantId,
        ...(signal === undefined ? {} : { signal }),
      });
      return result.success ? toOutput(result) : (createToolFailureMessage(result) ?? result.error.userMessage);
    },
  }));
}
