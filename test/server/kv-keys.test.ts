// Values over HTTP by keys that tools can choose and URLs cannot have in their path.
import { afterAll, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { useServer } from "./support/server.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());
const it = useServer(stores, "sqlite", ["acme"]);

const KEYS = [".", "..", "-", "...", "%2e", "%2E%2e", "a/../b", "/", "?", "#", "\\", "a b", "é", "\u0000", "\u202e"];

test("every key of a value is set, read and deleted over HTTP", async () => {
  const { api, server } = it;
  const tenant = createClient({ url: server.url, key: server.adminKey as string }).tenant("acme");
  const path = (key: string): string => {
    const inPath = key === "." || key === ".." ? `-?key=${key}` : encodeURIComponent(key);
    return `/v1/tenants/acme/kv/tool/values/${inPath}`;
  };
  expect((await api("POST", "/v1/tenants/acme/tools", { name: "tool", source: "export default () => 1" })).status).toBe(
    201,
  );
  for (const key of KEYS) expect(await tenant.setValue("tool", key, { key })).toMatchObject({ key, value: { key } });
  for (const key of KEYS) expect((await api("GET", path(key))).body).toMatchObject({ key, value: { key } });
  const { body: log } = await api<{ items: { action: string; target: string }[] }>("GET", "/v1/audit?limit=200");
  const targets = log.items.filter(({ action }) => action === "kv.set").map(({ target }) => target);
  expect(targets).toEqual(expect.arrayContaining(["tool:.", "tool:..", "tool:-"]));
  expect(targets).toHaveLength(KEYS.length);
  for (const [index, key] of KEYS.entries()) {
    await tenant.deleteValue("tool", key);
    expect((await api("GET", path(key))).status).toBe(404);
    const { body } = await api<{ items: readonly object[] }>("GET", "/v1/tenants/acme/kv/tool");
    expect(body.items).toHaveLength(KEYS.length - 1 - index);
  }
});

test("a key is in the path or in the query", async () => {
  for (const query of ["key=.", "key=a", "key=", "key=.&key=.."]) {
    const { status, body } = await it.api("GET", `/v1/tenants/acme/kv/tool/values/other?${query}`);
    expect([query, status, body]).toEqual([query, 422, { error: expect.objectContaining({ code: "INVALID" }) }]);
  }
});
