// "glovebox/openai-agents": hosted tools as function tools of the OpenAI Agents SDK (`@openai/agents`). When a run is aborted, its tools
// are stopped.
/// <reference types="node" preserve="true" />
import type { FunctionTool, ToolCallOutputContent } from "@openai/agents";
import { callAgentTool } from "../agent/call-tool.ts";
import type { ModelToolCall } from "../agent/model.ts";
import { CallReader } from "../openai/calls.ts";
import { type OutputPart, toOutputParts } from "../openai/output.ts";
import { type ResponsesFunctionTool, toOpenAITools } from "../openai/tools.ts";
import { type EdgeTools, type HostedTools, selectTools } from "./hosted-tools.ts";

type AgentsTool = FunctionTool<unknown>;

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

/** One text is a string: the SDK would take some objects for parts of its own, and what is in them is a tool's. */
function toOutput(parts: readonly OutputPart[]): string | ToolCallOutputContent[] {
  const [first] = parts;
  return parts.length === 1 && first?.type === "text" ? first.text : parts.map(toOutputContent);
}

/**
 * @param host a Glovebox, or a ToolRouter
 * @returns one function tool for each tool, to be given as an agent's `tools`: strict where its schema allows it, under an alias where its
 *   name is none of OpenAI's. A call that fails is answered with one honest sentence, so that the run goes on.
 * @throws {ToolError} PARAM_INVALID for an option that is unknown or of the wrong type, naming its path; TOOL_UNAVAILABLE for a tool that
 *   is requested by name and is not there
 */
export function toAgentsTools(host: HostedTools, options?: EdgeTools): AgentsTool[] {
  const { router, definitions, contextOf } = selectTools(host, options);
  const openai = toOpenAITools(definitions, { api: "responses" });
  return (openai.tools as readonly ResponsesFunctionTool[]).map(({ name, description, parameters, strict }) => ({
    ...{ type: "function", name, description, strict },
    parameters: parameters as AgentsTool["parameters"],
    needsApproval: async () => false,
    isEnabled: async () => true,
    invoke: async (_run, argumentsText, details) => {
      const written = { id: details?.toolCall?.callId, name, kind: "function", argumentsText } as const;
      const [call] = new CallReader(openai).read(written) as [ModelToolCall];
      return toOutput(toOutputParts(await callAgentTool(router, call, contextOf(details?.signal))));
    },
  }));
}
