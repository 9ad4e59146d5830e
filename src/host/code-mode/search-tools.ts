// The tool search_tools: finds tools for a request, and shows them as names, summaries, or declarations. Its answer is text of a bounded size.
import * as z from "zod";
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { ToolSearch } from "../agent/tools/tool-search.ts";
import { parseOptions } from "../config/option-errors.ts";
import { runTimeSliced } from "../util/time-slicing.ts";
import type { CodeApi, CodeTool } from "./api/code-api.ts";
import { CODE_LANGUAGES, type CodeLanguage } from "./options.ts";

export const SEARCH_TOOLS = "search_tools";
/** How much `search_tools` shows of each tool: its name only, a summary of its description, or its declaration. */
export const DETAILS = ["names", "summaries", "types"] as const;
/** One of {@link DETAILS}. */
export type SearchDetail = (typeof DETAILS)[number];

/** Results by detail, if the request has no `limit`. */
const DEFAULT_LIMITS: { readonly [Detail in SearchDetail]: number } = { names: 50, summaries: 20, types: 8 };
const MAX_LIMIT = 200;
const MAX_QUERY = 4_000;
const MAX_SUMMARY = 160;
/** Declarations that are larger than the whole answer, after which only summaries follow: each took as long as a large schema takes. */
const MAX_TOO_LARGE = 20;
/** Part of the answer for the names of what did not fit. */
const REST_SHARE = 0.1;

/** Returns the definition of search_tools for these languages; the first is the default one. */
export const searchDefinition = (languages: readonly CodeLanguage[]): ToolDefinition => ({
  name: SEARCH_TOOLS,
  description:
    'Finds the tools that code can call. Describe what you want to do, or give exact names; an empty query lists everything. `detail` is "types" (declarations, to write code against), "summaries" or "names". `language` is that of the code.',
  inputSchema: {
    type: "object",
    properties: {
      query: { type: "string", maxLength: MAX_QUERY, description: "What the tools should do, or names of tools" },
      detail: { enum: [...DETAILS], description: "How much to show of each tool (default: types)" },
      limit: { type: "integer", minimum: 1, maximum: MAX_LIMIT, description: "Maximum number of tools to show" },
      language: { enum: [...languages], description: `Language of the declarations (default: ${languages[0]})` },
    },
    required: ["query"],
    additionalProperties: false,
  },
  annotations: { title: "Search tools", readOnlyHint: true, idempotentHint: true, openWorldHint: false },
});

/** Argument of `codeMode.search()`, which is also the input of the tool `search_tools`. */
export interface SearchRequest {
  /** What the tools should do, or names of tools; "" lists all. At most 4,000 UTF-16 code units. */
  readonly query: string;
  /** @default "types" */
  readonly detail?: SearchDetail | undefined;
  /** Maximum number of tools to show, 1 to 200. @default 50 for names, 20 for summaries, 8 for types */
  readonly limit?: number | undefined;
  /**
   * Language of the declarations: one that the code mode runs.
   * @default the first language of the code mode
   */
  readonly language?: CodeLanguage | undefined;
}

const SearchRequestSchema = strictObject({
  query: z.string().max(MAX_QUERY),
  detail: z.enum(DETAILS).optional(),
  limit: z.int().min(1).max(MAX_LIMIT).optional(),
  language: z.enum(CODE_LANGUAGES).optional(),
});

/** @throws {ToolError} PARAM_INVALID, also for a language that is not one of these */
export function parseSearchRequest(request: unknown, languages: readonly CodeLanguage[]): SearchRequest {
  const parsed = parseOptions(SearchRequestSchema, request, "request");
  const { language } = parsed;
  if (language === undefined || languages.includes(language)) return parsed;
  throw new ToolError("PARAM_INVALID", `request.language: Expected one of ${languages.join(", ")}, got "${language}"`);
}

export interface SearchOptions {
  readonly language: CodeLanguage;
  /** Largest answer in UTF-16 code units. */
  readonly maxLength: number;
}

/** Returns the tools that the query names exactly, in its order. */
function named(api: CodeApi, query: string): readonly CodeTool[] {
  const words = query.split(/[\s,;()]+/, 100).map((word) => word.replace(/^tools\./, ""));
  return [...new Set(words.flatMap((word) => api.find(word) ?? []))];
}

function summaryOf({ codeName, definition }: CodeTool): string {
  const [sentence = ""] = definition.description.trim().split(/(?<=[.!?])\s|\n/, 1);
  const text = sentence.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ");
  const shown = text.length > MAX_SUMMARY ? `${text.slice(0, MAX_SUMMARY)}…` : text;
  return shown === "" ? `tools.${codeName}` : `tools.${codeName}: ${shown}`;
}

function show(api: CodeApi, tool: CodeTool, detail: SearchDetail, language: CodeLanguage): string {
  if (detail === "names") return tool.codeName;
  if (detail === "summaries") return summaryOf(tool);
  return api.describe(tool, language === "python" ? "python" : "typescript");
}

/** Searches the tools of APIs. */
export class CodeToolSearch {
  readonly #search = new ToolSearch();

  async search(
    api: CodeApi,
    { query, detail = "types", limit }: SearchRequest,
    options: SearchOptions,
  ): Promise<string> {
    const most = limit ?? DEFAULT_LIMITS[detail];
    const isAll = query.trim() === "" || query.trim() === "*";
    const first = isAll ? api.tools : named(api, query);
    const definitions = api.tools.map(({ definition }) => definition);
    const found = isAll ? [] : (await this.#search.indexOf(definitions)).search(query, MAX_LIMIT);
    const all = new Set([...first, ...found.flatMap(({ name }) => api.find(name) ?? [])]);
    if (all.size === 0) return `No tool matches. There are ${api.tools.length} tools; an empty query lists them.`;
    // Everything is listed as far as it fits, unless the caller wants less.
    return await this.#toText(
      api,
      [...all],
      isAll && limit === undefined ? Number.POSITIVE_INFINITY : most,
      detail,
      options,
    );
  }

  async #toText(
    api: CodeApi,
    tools: readonly CodeTool[],
    most: number,
    detail: SearchDetail,
    { language, maxLength }: SearchOptions,
  ): Promise<string> {
    const room = Math.floor(maxLength * (1 - REST_SHARE));
    const shown: string[] = [];
    let length = 0;
    let tooLarge = 0;
    const waiting = tools.slice(0, Number.isFinite(most) ? most : undefined).values();
    await runTimeSliced(() => {
      const { value: tool } = waiting.next();
      if (tool === undefined) return true;
      const full = show(api, tool, tooLarge > MAX_TOO_LARGE ? "summaries" : detail, language);
      // A declaration that is larger than the whole answer is replaced by its summary.
      if (full.length > room) tooLarge += 1;
      const text = full.length > room ? summaryOf(tool) : full;
      if (length + text.length > room) return true;
      shown.push(text);
      length += text.length + 1;
      return false;
    }, undefined);
    const rest = tools.slice(shown.length).map(({ codeName }) => codeName);
    const body = shown.join(detail === "types" ? "\n\n" : "\n");
    if (rest.length === 0) return body;
    const note = `${rest.length} more: ${rest.join(", ")}`;
    return `${body}\n\n${note.slice(0, Math.max(0, maxLength - body.length - 3))}${note.length > maxLength - body.length - 3 ? "…" : ""}`;
  }
}
