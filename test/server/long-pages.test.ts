// Lists whose items are long: a page ends early, and the next ones have the rest, each item once.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { PAGE_BYTES, readBoundedPage } from "../../src/server/records/bounded-page.ts";
import { insertCalls } from "../../src/server/records/calls/calls.ts";
import { endedRow } from "./support/call-row.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

/** Largest page with an item more, and what its form adds. */
const MOST = PAGE_BYTES + 1024 * 1024;
/** Size of a long definition: close to the most that a tool can have. */
const LONG = "x".repeat(240 * 1024);
const COUNT = 40;

interface Row {
  readonly id: number;
  readonly bytes: number;
}

test("a page has the first rows that fit, and at least one", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat({ max: 1.5 * PAGE_BYTES }), { maxLength: 60 }),
      fc.integer({ min: 1, max: 40 }),
      async (sizes, limit) => {
        const all = sizes.map((bytes, id) => ({ id, bytes }));
        const seen: number[] = [];
        for (let after = -1, hasMore = true; hasMore; after = seen.at(-1) ?? -1) {
          const page = await readBoundedPage<Row>(
            limit,
            async (last, count) => all.slice((last?.id ?? after) + 1).slice(0, count),
            ({ bytes }) => bytes,
          );
          expect(page.rows.length).toBeLessThanOrEqual(limit);
          const bytes = page.rows.reduce((sum, row) => sum + row.bytes, 0);
          expect(page.rows.length === 1 || bytes <= PAGE_BYTES).toBe(true);
          seen.push(...page.rows.map(({ id }) => id));
          hasMore = page.hasMore;
          // The page did not end without a reason.
          const next = all[seen.length];
          if (hasMore) expect(page.rows.length === limit || bytes + (next?.bytes ?? 0) > PAGE_BYTES).toBe(true);
          else expect(next).toBeUndefined();
        }
        expect(seen).toEqual(all.map(({ id }) => id));
      },
    ),
  );
});

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme"]);
  const { api } = under;

  /** Reads all pages of a list. */
  const readAll = async <Page extends { readonly next: string | null }>(path: string): Promise<readonly Page[]> => {
    const pages: Page[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const { status, body }: { status: number; body: Page } = await api<Page>("GET", `${path}${query}`);
      expect(status, JSON.stringify(body).slice(0, 500)).toBe(200);
      expect(Buffer.byteLength(JSON.stringify(body))).toBeLessThan(MOST);
      pages.push(body);
      cursor = body.next;
    }
    expect(pages.length).toBeGreaterThan(1);
    return pages;
  };

  beforeAll(async () => {
    const tool = { name: "tool_00", source: "export default () => 1;", approve: true };
    expect((await api("POST", "/v1/tenants/acme/tools", tool)).status).toBe(201);
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const { db } = database;
    const version = await db.selectFrom("tool_versions").selectAll().executeTakeFirstOrThrow();
    const release = await db.selectFrom("releases").selectAll().executeTakeFirstOrThrow();
    for (let n = 1; n < COUNT; n += 1) {
      const name = `tool_${String(n).padStart(2, "0")}`;
      const definition = JSON.stringify({ ...JSON.parse(version.definition), name, description: LONG });
      await db
        .insertInto("tool_versions")
        .values({ ...version, tool_name: name, definition })
        .execute();
      await db
        .insertInto("tool_versions")
        .values({ ...version, version: n + 1, definition })
        .execute();
      await db
        .insertInto("releases")
        .values({ ...release, tool_name: name })
        .execute();
    }
  });

  test("the versions of a tool", async () => {
    const pages = await readAll<{ items: { version: number }[]; next: string | null }>(
      "/v1/tenants/acme/tools/tool_00/versions?limit=200",
    );
    expect(pages.flatMap(({ items }) => items.map(({ version }) => version))).toEqual(
      Array.from({ length: COUNT }, (_, n) => COUNT - n),
    );
  });

  test("the tools in OpenAI's format", async () => {
    const pages = await readAll<{ tools: { name: string }[]; next: string | null }>(
      "/v1/tenants/acme/openai/tools?limit=128",
    );
    expect(pages.flatMap(({ tools }) => tools.map(({ name }) => name))).toEqual(
      Array.from({ length: COUNT }, (_, n) => `tool_${String(n).padStart(2, "0")}`),
    );
  });

  test("the tools over MCP", async () => {
    const client = new Client({ name: "test", version: "1.0.0" });
    const requestInit = { headers: { authorization: `Bearer ${under.server.adminKey}` } };
    const url = new URL(`${under.server.url}/v1/tenants/acme/mcp`);
    await client.connect(new StreamableHTTPClientTransport(url, { requestInit }) as never);
    const names: string[] = [];
    for (let cursor: string | undefined, pages = 1; ; pages += 1) {
      const page = await client.request({ method: "tools/list", params: cursor === undefined ? {} : { cursor } });
      expect(Buffer.byteLength(JSON.stringify(page))).toBeLessThan(MOST);
      names.push(...page.tools.map(({ name }) => name));
      cursor = page.nextCursor;
      if (cursor !== undefined) continue;
      expect(pages).toBeGreaterThan(1);
      break;
    }
    expect(new Set(names).size).toBe(names.length);
    expect(names.length).toBe(COUNT);
    await client.close();
  });

  test("versions that wait for approval: the others follow when these are decided", async () => {
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    await database.db.updateTable("tool_versions").set({ state: "waiting_for_approval" }).execute();
    const { body } = await api<{ items: { tool: string; version: number }[] }>("GET", "/v1/tenants/acme/approvals");
    expect(body.items.length).toBeGreaterThan(1);
    expect(body.items.length).toBeLessThan(COUNT);
    // The first one is short.
    for (const { tool, version } of body.items.slice(0, 2))
      expect((await api("POST", `/v1/tenants/acme/tools/${tool}/versions/${version}/deny`)).status).toBe(200);
    const { body: after } = await api<{ items: { tool: string; version: number }[] }>(
      "GET",
      "/v1/tenants/acme/approvals",
    );
    expect(after.items.slice(0, -1)).toEqual(body.items.slice(2));
    await database.db.updateTable("tool_versions").set({ state: "ready" }).execute();
  });

  test("the calls of a tenant, with the calls that they made", async () => {
    const { options } = under.store;
    await using database = await openDatabase({ url: options.database, dataDir: options.dataDir, onError() {} });
    const begun = Date.now() - COUNT;
    const calls = JSON.stringify([{ callId: LONG }]);
    const rows = Array.from({ length: COUNT }, (_, n) => endedRow(begun + n, { calls }));
    await insertCalls(database.db, rows);
    for (const filter of ["", "&state=succeeded"]) {
      const pages = await readAll<{ items: { id: string }[]; next: string | null }>(
        `/v1/tenants/acme/calls?limit=200${filter}`,
      );
      expect(pages.flatMap(({ items }) => items.map(({ id }) => id))).toEqual(rows.map(({ id }) => id).toReversed());
    }
  });

  test("tenants with long policies, and the audit log of their changes", async () => {
    const allow = Array.from({ length: 1_000 }, (_, n) => `${"x".repeat(60)}.${"y".repeat(60)}.host${n}.example`);
    const ids = Array.from({ length: 36 }, (_, n) => `tenant-${String(n).padStart(2, "0")}`);
    for (const id of ids)
      expect((await api("POST", "/v1/tenants", { id, policy: { egress: { allow } } })).status).toBe(201);
    const tenants = await readAll<{ items: { id: string }[]; next: string | null }>("/v1/tenants?limit=200");
    expect(tenants.flatMap(({ items }) => items.map(({ id }) => id))).toEqual(["acme", ...ids]);
    const audit = await readAll<{ items: { target: string }[]; next: string | null }>("/v1/audit?limit=200");
    const targets = audit.flatMap(({ items }) => items.map(({ target }) => target));
    expect(targets.slice(0, ids.length)).toEqual(ids.toReversed());
  });
});
