// Adds to the errors in code what the tools' declarations tell: the tool that was probably meant, and the declarations of the tools that the
// errors concern.
import { findNearestName } from "../config/option-errors.ts";
import { runTimeSliced } from "../util/time-slicing.ts";
import type { CodeApi, CodeTool } from "./api/code-api.ts";
import type { CodeDiagnostic } from "./type-checker/diagnostics.ts";

const TOOL_USE = /\btools\s*\.\s*(\w+)(?:\s*\.\s*(\w+))?/g;
/** Distance in code units within which an error belongs to the call of a tool before it. */
const MAX_DISTANCE = 2_000;
const MAX_DECLARATIONS = 4_000;
/** Messages about a name that does not exist: the property of a type, and a member of every object, which has the type `never`. */
const UNKNOWN_NAME: ReadonlySet<number> = new Set([2339, 2349, 2551]);

interface ToolUse {
  readonly name: string;
  readonly offset: number;
  readonly tool: CodeTool | undefined;
}

/** Returns the uses of tools in the code, as far as a pattern finds them. */
function usesOf(code: string, api: CodeApi): readonly ToolUse[] {
  return [...code.matchAll(TOOL_USE)].slice(0, 1_000).map(({ 1: first = "", 2: second, index }) => {
    const long = second === undefined ? first : `${first}.${second}`;
    const tool = api.find(long) ?? api.find(first);
    return { name: long, offset: index, tool };
  });
}

/** Returns the use of a tool that an error belongs to: the last one before it. */
function useAt(uses: readonly ToolUse[], { offset }: CodeDiagnostic): ToolUse | undefined {
  return uses.findLast((use) => use.offset <= offset && offset - use.offset < MAX_DISTANCE);
}

/** A line of Markdown that begins or ends a block of code. Within a template literal it is rare, and no error. */
const FENCE = /^\s{0,3}```/m;
const FENCE_HINT = "Send the code alone, without Markdown and without text around it";

/** Adds the tool that was probably meant, or that text around the code is not code. */
export function withTools(diagnostic: CodeDiagnostic, code: string, api: CodeApi): CodeDiagnostic {
  if (diagnostic.suggestion === undefined && FENCE.test(code)) return { ...diagnostic, suggestion: FENCE_HINT };
  if (!UNKNOWN_NAME.has(diagnostic.code) || diagnostic.suggestion !== undefined) return diagnostic;
  const use = useAt(usesOf(code, api), diagnostic);
  const isInName = use !== undefined && diagnostic.offset <= use.offset + "tools".length + use.name.length + 4;
  // A tool can have another name in code.
  if (use === undefined || use.tool?.codeName === use.name || !isInName) return diagnostic;
  const nearest =
    use.tool?.codeName ??
    findNearestName(
      use.name,
      api.tools.map(({ codeName }) => codeName),
    );
  const suggestion = nearest === undefined ? "Find the tool with search_tools" : `Use tools.${nearest}`;
  return { ...diagnostic, suggestion };
}

/**
 * Returns the declarations of the tools that the errors concern, or that were probably meant. They are made in time slices. Rejects with the
 * reason of the signal.
 */
export async function declarationsFor(
  diagnostics: readonly CodeDiagnostic[],
  code: string,
  api: CodeApi,
  signal: AbortSignal,
): Promise<string> {
  const uses = usesOf(code, api);
  const names = api.tools.map(({ codeName }) => codeName);
  const concerned = new Set<CodeTool>();
  for (const diagnostic of diagnostics) {
    const use = useAt(uses, diagnostic);
    const nearest = use === undefined ? undefined : (use.tool ?? api.find(findNearestName(use.name, names) ?? ""));
    if (nearest !== undefined) concerned.add(nearest);
  }
  const shown: string[] = [];
  let length = 0;
  const waiting = concerned.values();
  await runTimeSliced(() => {
    const { value: tool } = waiting.next();
    if (tool === undefined) return true;
    const text = api.describe(tool, "typescript");
    if (length + text.length > MAX_DECLARATIONS) return false;
    shown.push(text);
    length += text.length;
    return false;
  }, signal);
  return shown.join("\n\n");
}
