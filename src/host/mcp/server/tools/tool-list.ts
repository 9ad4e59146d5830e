// Handles `tools/list`: converts a tenant's tool definitions to MCP, sorted by name and split into pages.
import { type ListToolsResult, ProtocolError, ProtocolErrorCode, type Tool } from "@modelcontextprotocol/server";
import type { ToolDefinition } from "../../../../sandbox/contract/definition.ts";
import { TOOL_NAME_PATTERN } from "../../../../sandbox/contract/tool-name.ts";
import type { TenantScope } from "../../../routing/tenant-scope.ts";
import type { McpHost } from "./call-tool.ts";
import { toInputSchema } from "./tool-arguments.ts";

/** Largest number of tools in a page. */
const PAGE_SIZE = 250;
/** Longest accepted cursor, in UTF-16 code units. The cursor of every valid tool name is shorter. */
const MAX_CURSOR_LENGTH = 1_024;

export function toMcpTool(definition: ToolDefinition): Tool {
  const { name, description, inputSchema, outputSchema, annotations } = definition;
  const title = annotations?.title;
  return {
    name,
    ...(title === undefined ? {} : { title }),
    description,
    inputSchema: toInputSchema(inputSchema),
    ...(outputSchema === undefined ? {} : { outputSchema: outputSchema as NonNullable<Tool["outputSchema"]> }),
    ...(annotations === undefined ? {} : { annotations: { ...annotations } }),
  };
}

const toCursor = (name: string): string => Buffer.from(name).toString("base64url");

function fromCursor(cursor: string): string {
  const name = cursor.length > MAX_CURSOR_LENGTH ? "" : Buffer.from(cursor, "base64url").toString();
  if (!TOOL_NAME_PATTERN.test(name) || toCursor(name) !== cursor) {
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      "Invalid cursor: expected the nextCursor of an earlier response",
    );
  }
  return name;
}

const byName = ({ name: a }: ToolDefinition, { name: b }: ToolDefinition): number => (a < b ? -1 : a > b ? 1 : 0);

/**
 * Returns the page of tools after the cursor. A cursor holds a tool name, not an index: when tools are added or removed between two
 * requests, the client still receives each of the others exactly once.
 * @throws {ProtocolError} -32602 for an invalid cursor
 */
export function toToolPage(definitions: readonly ToolDefinition[], cursor: string | undefined): ListToolsResult {
  const after = cursor === undefined ? undefined : fromCursor(cursor);
  return toPage(definitions.filter(({ name }) => after === undefined || name > after).sort(byName));
}

/** Returns the page of the host's tools after the cursor. @throws {ProtocolError} as {@link toToolPage} does */
export async function listToolPage(
  host: Pick<McpHost, "listTools" | "listToolPage">,
  cursor: string | undefined,
  scope: TenantScope,
): Promise<ListToolsResult> {
  if (host.listToolPage === undefined) return toToolPage(await host.listTools(scope), cursor);
  const after = cursor === undefined ? undefined : fromCursor(cursor);
  const found = await host.listToolPage({ after, limit: PAGE_SIZE + 1 }, scope);
  if (!("definitions" in found)) return toPage(found);
  const { definitions, next } = found;
  // The tool that only shows that more follow is part of the next page.
  if (definitions.length > PAGE_SIZE) return toPage(definitions);
  return { tools: definitions.map(toMcpTool), ...(next === undefined ? {} : { nextCursor: toCursor(next) }) };
}

function toPage(rest: readonly ToolDefinition[]): ListToolsResult {
  const page = rest.slice(0, PAGE_SIZE);
  const last = page.at(-1);
  const hasMore = rest.length > page.length && last !== undefined;
  return { tools: page.map(toMcpTool), ...(hasMore ? { nextCursor: toCursor(last.name) } : {}) };
}
