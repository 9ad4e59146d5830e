// The API that code sees: the tools that it may call, under names for code, with their declarations in TypeScript and Python.
import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";
import { TypeNames } from "../../json-schema/typescript/type-text.ts";
import { checkDefinitions } from "../../routing/definitions.ts";
import { runTimeSliced } from "../../util/time-slicing.ts";
import { type CodePath, codePathsOf } from "./code-names.ts";
import { toPythonSignature, toStubFile } from "./python-api.ts";
import { DeclarationFile, toSignature } from "./typescript-api.ts";

/** A tool of the API. */
export interface CodeTool {
  /** Name of the tool in the router. */
  readonly toolName: string;
  /** Name in code, after `tools.`: `add`, or `github.create_issue`. */
  readonly codeName: string;
  readonly path: CodePath;
  readonly definition: ToolDefinition;
}

/** Declarations of tools for code. Immutable. */
export interface CodeApi {
  readonly tools: readonly CodeTool[];
  /** Declaration file of `tools`, `result` and `input`, for the type checker. */
  readonly typescript: string;
  /** The same as a Python stub file. */
  readonly python: string;
  /** Finds a tool by its name in code, or by its name in the router. */
  find(name: string): CodeTool | undefined;
  /** Returns the declaration of one tool as text for a model, starting with `tools.`. */
  describe(tool: CodeTool, language: "typescript" | "python"): string;
}

/** An API whose declaration file can be written without blocking other calls. */
export interface TimeSlicedCodeApi extends CodeApi {
  /** Returns the same as `typescript`, made in time slices. */
  declareTypeScript(): Promise<string>;
}

function describeTypeScript(tool: CodeTool): string {
  const { comment, method, types } = toSignature(tool, new TypeNames());
  const name = tool.path.at(-1) as string;
  return [`${comment}tools.${tool.codeName}${method.slice(name.length)}`, ...types].join("\n");
}

function describePython(tool: CodeTool): string {
  const { method, classes } = toPythonSignature(tool, new TypeNames());
  const shown = method.replace(/^async def \w+\(self(?:, )?/, () => `async def tools.${tool.codeName}(`);
  return [shown, ...classes].join("\n");
}

/**
 * Creates the API of these tools, whose schemas may be untrusted.
 * @throws {ToolError} PARAM_INVALID for anything but an array of tool definitions
 * @example
 * ```ts
 * import { createCodeApi } from "glovebox/code-mode";
 * const definition = { name: "add", description: "Adds", inputSchema: { type: "object" } } as const;
 * console.log(createCodeApi([definition]).typescript);
 * ```
 */
export function createCodeApi(definitions: readonly ToolDefinition[]): CodeApi {
  return createApiOf(definitions, { isDurable: false });
}

/**
 * Creates the API as `createCodeApi` does.
 * @param options `isDurable`: whether code can wait with `ctx.waitFor`
 */
export function createApiOf(
  definitions: readonly ToolDefinition[],
  options: { readonly isDurable: boolean },
): TimeSlicedCodeApi {
  checkDefinitions(definitions, "definitions");
  const paths = codePathsOf(definitions);
  const tools = definitions.map((definition): CodeTool => {
    const path = paths.get(definition.name) as CodePath;
    return { toolName: definition.name, codeName: path.join("."), path, definition };
  });
  const byCodeName = new Map(tools.map((tool) => [tool.codeName, tool]));
  const byToolName = new Map(tools.map((tool) => [tool.toolName, tool]));
  let typescript: string | undefined;
  let declared: Promise<string> | undefined;
  let python: string | undefined;
  const declareTimeSliced = async (): Promise<string> => {
    if (typescript !== undefined) return typescript;
    const file = new DeclarationFile();
    const waiting = tools.values();
    await runTimeSliced(() => {
      const { value: tool } = waiting.next();
      if (tool !== undefined) file.add(tool);
      return tool === undefined;
    }, undefined);
    typescript ??= file.toText(options);
    return typescript;
  };
  return {
    tools,
    get typescript() {
      if (typescript !== undefined) return typescript;
      const file = new DeclarationFile();
      for (const tool of tools) file.add(tool);
      typescript = file.toText(options);
      return typescript;
    },
    declareTypeScript() {
      declared ??= declareTimeSliced();
      return declared;
    },
    get python() {
      python ??= toStubFile(tools, options);
      return python;
    },
    find: (name) => byCodeName.get(name) ?? byToolName.get(name),
    describe: (tool, language) => (language === "python" ? describePython(tool) : describeTypeScript(tool)),
  };
}
