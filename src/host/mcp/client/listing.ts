// One listing of an upstream server's tools, page by page: so many pages, so many tools, and no page twice.
import { setImmediate as turn } from "node:timers/promises";
import type { TransportExchange } from "./guarded-transport.ts";
import { isJsonObject, type JsonObject, sizeOf } from "./reading/json-size.ts";

/** The machinery's own walk goes as far. */
export const MAX_PAGES = 64;
const MAX_CURSOR_UNITS = 8_192;
/** A day: what is said to be good for longer is asked for again all the same. */
const MAX_TTL_MS = 86_400_000;
/** Of a schema that the machinery looks into. */
const MAX_SCHEMA_VALUES = 10_000;
const MAX_SCHEMA_DEPTH = 64;
/** By which an argument becomes a header over HTTP (spec 2026-07-28, transports, "Custom headers from tool parameters"). */
const HEADER_KEYWORD = "x-mcp-header";
/** Of all the tools of a listing, in characters and values: 64 pages of 4 MiB would be a gigabyte of heap. */
const MAX_SIZE = 16 * 1024 * 1024;
/** Limit for one tool, counted in the same way: more than its description and its schemas may have. */
export const MAX_TOOL_SIZE = 512 * 1024;
/** Tools past that limit that are listed. */
const MAX_TOLD = 100;
/** Longest time in ms that tools are read before the event loop goes on. */
const SLICE_MS = 4;
/** What is read of a tool: the rest (icons, `_meta`) is not kept. */
const KEPT = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"] as const;

const toKept = (tool: JsonObject): JsonObject =>
  Object.fromEntries(KEPT.flatMap((key) => (tool[key] === undefined ? [] : [[key, tool[key]]])));

/** Whether the keyword stands anywhere in a schema; undefined where it is too large to be looked into. */
function mentionsHeaders(schema: unknown): boolean | undefined {
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value: schema, depth: 0 }];
  let found = false;
  for (let seen = 0; ; seen += 1) {
    const next = open.pop();
    if (next === undefined) return found;
    const { value, depth } = next;
    if (typeof value !== "object" || value === null) continue;
    if (seen + open.length > MAX_SCHEMA_VALUES || depth > MAX_SCHEMA_DEPTH) return undefined;
    found ||= Object.hasOwn(value, HEADER_KEYWORD);
    for (const inner of Object.values(value)) open.push({ value: inner, depth: depth + 1 });
  }
}

/** What the machinery is shown of a tool: as much as it needs for headers made of arguments. */
function toShown(tool: JsonObject): JsonObject {
  const { name, inputSchema } = tool;
  const schema = mentionsHeaders(inputSchema) === true ? { ...(inputSchema as JsonObject), type: "object" } : undefined;
  return { name, inputSchema: schema ?? { type: "object" } };
}

/** What has come of a listing. */
export class Listing implements TransportExchange {
  readonly #maxTools: number;
  readonly #cursors = new Set<string>();
  /** Tools as the server told of them: objects with a name, and nothing else is known of them. */
  readonly tools: JsonObject[] = [];
  /** Names of those that the machinery would call: not of one whose headers cannot be made. */
  shown: ReadonlySet<string> = new Set();
  /** Why it is not all that there is; undefined where it is. */
  problem: string | undefined;
  /** How long it may be kept, as the server says. */
  ttlMs: number | undefined;
  #pages = 0;
  #room: number = MAX_SIZE;

  constructor(maxTools: number) {
    this.#maxTools = maxTools;
  }

  lost(): void {
    // The machinery's own answer to that ends the walk.
  }

  readResult(method: string, result: JsonObject): JsonObject | Promise<JsonObject> {
    return method === "tools/list" ? this.#readPage(result) : result;
  }

  /** Over several turns of the event loop: a page may have half a million values. */
  async #readPage(result: JsonObject): Promise<JsonObject> {
    this.#pages += 1;
    const { ttlMs, resultType, cacheScope } = result;
    if (this.#pages === 1 && typeof ttlMs === "number" && ttlMs >= 0) this.ttlMs = Math.min(ttlMs, MAX_TTL_MS);
    const nextCursor = this.#nextCursor(result.nextCursor);
    const tools = await this.#take(result.tools);
    return {
      tools,
      ttlMs: 0,
      cacheScope: cacheScope === "public" ? "public" : "private",
      ...(resultType === undefined ? {} : { resultType }),
      ...(nextCursor === undefined || this.problem !== undefined ? {} : { nextCursor }),
    };
  }

  async #take(listed: unknown): Promise<readonly JsonObject[]> {
    if (!Array.isArray(listed)) {
      this.problem ??= `expected a list of tools on page ${this.#pages}, got none`;
      return [];
    }
    const room = this.#maxTools - this.tools.length;
    if (listed.length > room) this.problem ??= `expected at most ${this.#maxTools} tools, got more`;
    const shown: JsonObject[] = [];
    let began = performance.now();
    for (const tool of listed.slice(0, room)) {
      if (!isJsonObject(tool) || typeof tool.name !== "string") this.unnamed += 1;
      else if (!this.#keep(toKept(tool), shown)) break;
      if (performance.now() - began < SLICE_MS) continue;
      await turn();
      began = performance.now();
    }
    return shown;
  }

  /** False when there is no room for more. */
  #keep(tool: JsonObject, shown: JsonObject[]): boolean {
    const size = sizeOf(tool, MAX_TOOL_SIZE);
    const isTooLarge = size > MAX_TOOL_SIZE;
    // A few that are too large, each the size of a message, and the listing is over.
    this.#room -= isTooLarge ? MAX_SIZE / 8 : size;
    if (this.#room < 0) {
      this.problem ??= `expected at most ${MAX_SIZE} characters of tools, got more`;
      return false;
    }
    if (isTooLarge) {
      if (this.tooLarge.length < MAX_TOLD) this.tooLarge.push(String(tool.name).slice(0, 256));
      return true;
    }
    this.tools.push(tool);
    shown.push(toShown(tool));
    return true;
  }

  /** Of what was listed, what has no name. */
  unnamed = 0;
  /** Names of the first tools that are past the limit for one. */
  readonly tooLarge: string[] = [];

  #nextCursor(cursor: unknown): string | undefined {
    if (cursor === undefined || cursor === null) return undefined;
    if (typeof cursor !== "string" || cursor.length > MAX_CURSOR_UNITS) {
      this.problem ??= `expected a cursor of at most ${MAX_CURSOR_UNITS} characters on page ${this.#pages}`;
    } else if (this.#cursors.has(cursor)) this.problem ??= `the cursor of page ${this.#pages} has come before`;
    else if (this.#pages >= MAX_PAGES) this.problem ??= `expected at most ${MAX_PAGES} pages, got more`;
    else {
      this.#cursors.add(cursor);
      return cursor;
    }
    return undefined;
  }
}
