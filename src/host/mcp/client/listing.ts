// Collects the tools of an upstream server, page by page, with limits on pages, tools and size. The SDK's client requests the pages.
import { setImmediate as turn } from "node:timers/promises";
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import type { TransportExchange } from "./guarded-transport.ts";
import { type JsonObject, sizeOf } from "./reading/json-size.ts";
import { UNREADABLE_KEY } from "./reading/unreadable-tools.ts";
import { toVisible } from "./text/visible-text.ts";

/** Largest number of pages. The SDK's client has the same limit. */
export const MAX_PAGES = 64;
const MAX_CURSOR_LENGTH = 8_192;
/** Longest lifetime of a listing, whatever the server says: a day. */
const MAX_TTL_MS = 86_400_000;
/** Largest schema that the SDK's client receives. */
const MAX_SCHEMA_VALUES = 10_000;
const MAX_SCHEMA_DEPTH = 64;
/** Schema keyword that sends an argument as an HTTP header (specification 2026-07-28, "Custom headers from tool parameters"). */
const HEADER_KEYWORD = "x-mcp-header";
/** Largest size of all tools, in characters and values: 64 pages of 4 MiB would take a gigabyte of heap. */
const MAX_SIZE = 16 * 1024 * 1024;
/** Largest size of one tool, in characters and values. It exceeds the limits of description and schemas together. */
export const MAX_TOOL_SIZE = 512 * 1024;
/** Largest number of too large tools whose names are recorded. */
const MAX_RECORDED = 100;
/** Longest time in ms that reading tools may run before it yields to the event loop. */
const SLICE_MS = 4;
/** Members of a tool that are kept. Others, such as icons and `_meta`, are dropped. */
const KEPT = ["name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"] as const;

const toKept = (tool: JsonObject): JsonObject =>
  Object.fromEntries(KEPT.flatMap((key) => (tool[key] === undefined ? [] : [[key, tool[key]]])));

/** Returns whether a schema contains the header keyword; undefined if the schema is too large to search. */
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

/** Returns the part of a tool that the SDK's client needs: its name, and its schema if arguments are sent as headers. */
function toClientTool(tool: JsonObject): JsonObject {
  const { name, inputSchema } = tool;
  const schema = mentionsHeaders(inputSchema) === true ? { ...(inputSchema as JsonObject), type: "object" } : undefined;
  return { name, inputSchema: schema ?? { type: "object" } };
}

/** A listing in progress, and its result. */
export class Listing implements TransportExchange {
  readonly #maxTools: number;
  readonly #cursors = new Set<string>();
  /** Tools as the server sent them. Only the name of each has been checked. */
  readonly tools: JsonObject[] = [];
  /** Names of the tools that the SDK's client can call. Those with invalid header parameters are missing. */
  callable: ReadonlySet<string> = new Set();
  /** The reason why the listing is incomplete; undefined if it is complete. */
  problem: string | undefined;
  /** Lifetime of the listing in ms, if the server states one. */
  ttlMs: number | undefined;
  /** Number of tools without a name. */
  unnamed = 0;
  /** Names of the first tools that exceed the size limit. */
  readonly tooLarge: string[] = [];
  /** The first tools that could not be parsed, and why. */
  readonly unreadable: { readonly name: string; readonly problem: string }[] = [];
  #pages = 0;
  #remainingSize: number = MAX_SIZE;

  constructor(maxTools: number) {
    this.#maxTools = maxTools;
  }

  lost(): void {
    // The SDK's client fails the listing itself.
  }

  readResult(method: string, result: JsonObject): JsonObject | Promise<JsonObject> {
    return method === "tools/list" ? this.#readPage(result) : result;
  }

  /** Reads a page over several turns of the event loop, because it can contain half a million values. */
  async #readPage(result: JsonObject): Promise<JsonObject> {
    this.#pages += 1;
    const { ttlMs, resultType, cacheScope } = result;
    if (this.#pages === 1 && typeof ttlMs === "number" && ttlMs >= 0) this.ttlMs = Math.min(ttlMs, MAX_TTL_MS);
    const nextCursor = this.#nextCursor(result.nextCursor);
    const tools = await this.#addTools(result.tools);
    return {
      tools,
      ttlMs: 0,
      cacheScope: cacheScope === "public" ? "public" : "private",
      ...(resultType === undefined ? {} : { resultType }),
      ...(nextCursor === undefined || this.problem !== undefined ? {} : { nextCursor }),
    };
  }

  async #addTools(listed: unknown): Promise<readonly JsonObject[]> {
    if (!Array.isArray(listed)) {
      this.problem ??= `Expected a list of tools on page ${this.#pages}`;
      return [];
    }
    const room = this.#maxTools - this.tools.length;
    if (listed.length > room) this.problem ??= `Expected at most ${this.#maxTools} tools, got more (maxTools)`;
    const clientTools: JsonObject[] = [];
    let began = performance.now();
    for (const tool of listed.slice(0, room)) {
      if (!isJsonObject(tool) || typeof tool.name !== "string") this.unnamed += 1;
      else if (typeof tool[UNREADABLE_KEY] === "string") this.#addUnreadable(tool.name, tool[UNREADABLE_KEY]);
      else if (!this.#addTool(toKept(tool), clientTools)) break;
      if (performance.now() - began < SLICE_MS) continue;
      await turn();
      began = performance.now();
    }
    return clientTools;
  }

  #addUnreadable(name: string, problem: string): void {
    if (this.unreadable.length < MAX_RECORDED)
      this.unreadable.push({ name: name.slice(0, 256), problem: toVisible(problem.slice(0, 256)) });
  }

  /** Adds a tool. Returns false if the listing has reached its size limit. */
  #addTool(tool: JsonObject, clientTools: JsonObject[]): boolean {
    const size = sizeOf(tool, MAX_TOOL_SIZE);
    const isTooLarge = size > MAX_TOOL_SIZE;
    // Each too large tool counts as an eighth of the limit, because it can be as large as a message.
    this.#remainingSize -= isTooLarge ? MAX_SIZE / 8 : size;
    if (this.#remainingSize < 0) {
      this.problem ??= `Expected at most ${MAX_SIZE} characters of tools, got more`;
      return false;
    }
    if (isTooLarge) {
      if (this.tooLarge.length < MAX_RECORDED) this.tooLarge.push(String(tool.name).slice(0, 256));
      return true;
    }
    this.tools.push(tool);
    clientTools.push(toClientTool(tool));
    return true;
  }

  #nextCursor(cursor: unknown): string | undefined {
    if (cursor === undefined || cursor === null) return undefined;
    if (typeof cursor !== "string" || cursor.length > MAX_CURSOR_LENGTH) {
      this.problem ??= `Expected a cursor of at most ${MAX_CURSOR_LENGTH} characters on page ${this.#pages}`;
    } else if (this.#cursors.has(cursor)) this.problem ??= `The cursor of page ${this.#pages} repeats an earlier one`;
    else if (this.#pages >= MAX_PAGES) this.problem ??= `Expected at most ${MAX_PAGES} pages, got more`;
    else {
      this.#cursors.add(cursor);
      return cursor;
    }
    return undefined;
  }
}
