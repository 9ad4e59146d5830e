// tools/list: a tenant's tools in MCP's words, in the order of their names, a page at a time.
import { type ListToolsResult, ProtocolError, ProtocolErrorCode, type Tool } from "@modelcontextprotocol/server";
import type { ToolDefinition } from "../../../sandbox/contract/definition.ts";
import { toInputSchema } from "./tool-arguments.ts";

/** Of a page, in tools. */
const PAGE = 250;
/** Longer than that of any name. */
const MAX_CURSOR_UNITS = 1_024;

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
  const name = cursor.length > MAX_CURSOR_UNITS ? "" : Buffer.from(cursor, "base64url").toString();
  if (name === "" || toCursor(name) !== cursor) {
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      "Expected a cursor of an earlier page, got something else",
    );
  }
  return name;
}

const byName = ({ name: a }: ToolDefinition, { name: b }: ToolDefinition): number => (a < b ? -1 : a > b ? 1 : 0);

/**
 * The page after the name that a cursor holds: tools that come and go meanwhile move no other to another page, or off all of them.
 * @throws {ProtocolError} -32602 for a cursor that is none
 */
export function toToolPage(definitions: readonly ToolDefinition[], cursor: string | undefined): ListToolsResult {
  const after = cursor === undefined ? undefined : fromCursor(cursor);
  const rest = definitions.filter(({ name }) => after === undefined || name > after).sort(byName);
  const page = rest.slice(0, PAGE);
  const last = page.at(-1);
  const hasMore = rest.length > page.length && last !== undefined;
  return { tools: page.map(toMcpTool), ...(hasMore ? { nextCursor: toCursor(last.name) } : {}) };
}
