// The tools of a durable run of code: each name in it means the same tool until the run ends, whatever is deployed meanwhile.
import type { PinnedCode } from "../runs/run-pin.ts";
import type { CodeApi, CodeTool } from "./api/code-api.ts";

/** The tools that code can call, and what its names for them mean. */
export type CodeTools = Pick<CodeApi, "tools" | "find">;

/** Returns the names in code that differ from the names of their tools, each with the name of its tool. */
export const renamedTools = ({ tools }: Pick<CodeApi, "tools">): PinnedCode["names"] =>
  tools.filter(({ codeName, toolName }) => codeName !== toolName).map(({ codeName, toolName }) => [codeName, toolName]);

/**
 * Returns the tools of today under the names with which a run began. Every other name means the tool of exactly this name: today's rules could
 * give it to another one.
 */
export function pinTools({ tools }: Pick<CodeApi, "tools">, names: PinnedCode["names"]): CodeTools {
  const toolNames = new Map(names);
  const byToolName = new Map<string, CodeTool>(tools.map((tool) => [tool.toolName, tool]));
  return { tools, find: (name) => byToolName.get(toolNames.get(name) ?? name) };
}

/**
 * Returns a function that finds the name in code of a tool.
 * @param names what the names in code mean for a run that has begun before
 */
export function createNameLookup(
  { tools }: Pick<CodeApi, "tools">,
  names: PinnedCode["names"] | undefined,
): (toolName: string) => string {
  const codeNames = new Map(
    names?.map(([codeName, toolName]) => [toolName, codeName]) ??
      tools.map(({ codeName, toolName }) => [toolName, codeName]),
  );
  return (toolName) => codeNames.get(toolName) ?? toolName;
}
