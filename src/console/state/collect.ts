// Lists of the API as arrays.
import type { ToolSummary } from "glovebox/client";
import { client } from "./session.ts";

/** Items that the server returns at most for one request. */
const PER_REQUEST = 200;

/** Items of a list that a page shows if it names no other number. */
export const MAX_ITEMS = 200;

/** Returns the first items of a list. */
export async function collect<Item>(items: AsyncIterable<Item>, most = MAX_ITEMS): Promise<readonly Item[]> {
  const found: Item[] = [];
  for await (const item of items) {
    found.push(item);
    if (found.length >= most) break;
  }
  return found;
}

/** Returns the first tools of a tenant, with as few requests as possible: there may be thousands. */
export const collectTools = (tenantId: string, most: number): Promise<readonly ToolSummary[]> =>
  collect(client.list<ToolSummary>(`/v1/tenants/${encodeURIComponent(tenantId)}/tools`, { limit: PER_REQUEST }), most);
