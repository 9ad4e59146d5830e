// What the list of calls keeps of each call.
import { expect, test } from "vitest";
import type { Call } from "../../src/client/index.ts";

test("a row keeps the first words of an output or an error, and nothing else that a tool can make large", async () => {
  // The module reads the page's address when it is loaded.
  Object.assign(globalThis, {
    location: { hash: "", origin: "http://127.0.0.1", pathname: "/console", search: "" },
    self: globalThis,
    parent: globalThis,
  });
  // Not by a literal: the types of the browser would count for all tests.
  const path = new URL("../../src/console/state/call-list.ts", import.meta.url).href;
  const { toRow } = (await import(path)) as { toRow(call: Call): { summary: string; isFailed: boolean } };
  const call = {
    ...{ id: "call_1", tenantId: "acme", tool: "price", version: 1, state: "succeeded", createdAt: 1, endedAt: 2 },
    ...{ error: null, omitted: [], input: { text: "i".repeat(10_000) }, output: { text: "o".repeat(10_000) } },
  } as unknown as Call;
  const error = { code: "TOOL_FAILED", message: `\u202e${"m".repeat(10_000)}`, details: { text: "d".repeat(10_000) } };
  const rows = [call, { ...call, state: "failed", error, output: null } as unknown as Call].map(toRow);
  expect(rows.map((row) => JSON.stringify(row).length < 500)).toEqual([true, true]);
  expect(rows.map(({ summary }) => summary.slice(0, 24))).toEqual(
    ['{"text":"oooooooooooooooo', "TOOL_FAILED: \\u202emmmmm"].map((text) => text.slice(0, 24)),
  );
  expect(rows.map(({ isFailed }) => isFailed)).toEqual([false, true]);
});
