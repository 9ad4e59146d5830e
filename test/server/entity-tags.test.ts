// Entity tags: with `If-Match`, a client changes only the state of a resource that it has read, on both databases.
import { afterAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Tagged {
  readonly id: string;
  readonly etag: string;
}
interface Failed {
  readonly error: { readonly code: string; readonly message: string };
}

/** Resources, each with what creates it, two changes of it, and the path of the list that shows it. */
const RESOURCES = {
  webhook: {
    list: "webhooks",
    created: { url: "https://example.com/a", events: ["call.failed"] },
    changes: [{ url: "https://example.com/b" }, { state: "disabled" }],
  },
  schedule: {
    list: "schedules",
    created: { name: "nightly", tool: "noop", cron: "0 3 * * *", input: { b: 1, a: [2] } },
    changes: [{ input: { a: [2], b: 2 } }, { state: "paused" }],
  },
  trigger: {
    list: "triggers",
    created: { name: "hook", tool: "noop" },
    changes: [{ state: "paused" }, { alias: "next" }],
  },
  key: {
    list: "keys",
    created: { name: "ci", scopes: ["tools:read"], rateLimit: { calls: 5, per: "minute" } },
    changes: [{ maxAsyncCalls: 3 }, { rateLimit: null }],
  },
} as const;

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme"]);
  const { api } = under;
  const acme = "/v1/tenants/acme";
  const tenant = () => createClient({ url: under.server.url, key: under.server.adminKey as string }).tenant("acme");
  const ifMatch = (etag: string) => ({ "if-match": etag });

  test.for(Object.entries(RESOURCES))("a %s changes only if it is as the client has read it", async ([, resource]) => {
    await api("POST", `${acme}/tools`, { name: "noop", source: "export default () => 1" });
    const { list, created, changes } = resource;
    const made = await api<Tagged>("POST", `${acme}/${list}`, created);
    expect([made.status, made.headers.get("etag")]).toEqual([201, made.body.etag]);
    const path = `${acme}/${list}/${made.body.id}`;
    const listed = async () =>
      (await api<{ items: Tagged[] }>("GET", `${acme}/${list}`)).body.items.find(({ id }) => id === made.body.id);
    expect((await listed())?.etag).toBe(made.body.etag);
    const first = await api<Tagged>("PATCH", path, changes[0], ifMatch(made.body.etag));
    expect([first.status, first.headers.get("etag")]).toEqual([200, first.body.etag]);
    expect(first.body.etag).not.toBe(made.body.etag);
    expect((await listed())?.etag).toBe(first.body.etag);
    // Another client has read the resource before that.
    const late = await api<Failed>("PATCH", path, changes[1], ifMatch(made.body.etag));
    expect([late.status, late.body.error.code]).toEqual([412, "PRECONDITION_FAILED"]);
    expect(late.headers.get("etag")).toBe(first.body.etag);
    expect((await listed())?.etag).toBe(first.body.etag);
    for (const etag of [`"other", ${first.body.etag}`, "*"])
      expect((await api("PATCH", path, changes[1], ifMatch(etag))).status).toBe(200);
  });

  test("of two policies that replace the same one, the second has no effect", async () => {
    const read = await api<Tagged & { readonly policy: object }>("GET", acme);
    expect(read.headers.get("etag")).toBe(read.body.etag);
    const policies = [{ maxTools: 7 }, { maxTools: 8 }];
    const answers = await Promise.all(
      policies.map((policy) => api<Failed & { policy: object }>("PATCH", acme, { policy }, ifMatch(read.body.etag))),
    );
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 412]);
    const kept = answers.find(({ status }) => status === 200)?.body.policy;
    const now = await api<Tagged & { readonly policy: object }>("GET", acme);
    expect(now.body.policy).toEqual(kept);
    // A deployment changes nothing that a policy would replace.
    await api("POST", `${acme}/tools`, { name: "other", source: "export default () => 1" });
    expect((await api("PATCH", acme, { name: "Acme" }, ifMatch(now.body.etag))).status).toBe(200);
  });

  test("a release changes only from what the client has read, also by a rollback", async () => {
    for (const value of [1, 2])
      await api("POST", `${acme}/tools`, { name: "shared", source: `export default () => ${value}`, alias: null });
    const path = `${acme}/tools/shared/releases/live`;
    const set = (version: number, headers = {}) =>
      api<Tagged & Failed>("PUT", path, { versions: [{ version, weight: 100 }] }, headers);
    const missing = await set(1, ifMatch("*"));
    expect([missing.status, missing.body.error.code]).toEqual([412, "PRECONDITION_FAILED"]);
    const first = await set(1);
    const second = await set(2, ifMatch(first.body.etag));
    expect(second.status).toBe(200);
    expect((await set(1, ifMatch(first.body.etag))).status).toBe(412);
    expect((await api("POST", `${path}/rollback`, undefined, ifMatch(first.body.etag))).status).toBe(412);
    const { items } = (await api<{ items: Tagged[] }>("GET", `${acme}/tools/shared/releases`)).body;
    expect(items.map(({ etag }) => etag)).toEqual([second.body.etag]);
    expect((await api("POST", `${path}/rollback`, undefined, ifMatch(second.body.etag))).status).toBe(200);
  });

  test("the client sends the condition, and has a code for a state that has changed", async () => {
    const { etag } = await tenant().get();
    const changed = await tenant().update({ name: "One" }, { ifMatch: etag });
    const failure = { status: 412, code: "PRECONDITION_FAILED" };
    await expect(tenant().update({ name: "Two" }, { ifMatch: etag })).rejects.toMatchObject(failure);
    expect((await tenant().get()).etag).toBe(changed.etag);
    const versions = [{ version: 1, weight: 1 }];
    await expect(tenant().setRelease("noop", "absent", versions, { ifMatch: etag })).rejects.toMatchObject(failure);
    await expect(tenant().update({}, { ifmatch: etag } as never)).rejects.toThrow("options.ifmatch: Unknown option");
    await expect(tenant().update({}, { ifMatch: null } as never)).rejects.toThrow(
      "Expected a string that is not empty",
    );
  });

  test("a condition that the server cannot check is rejected, and is not ignored", async () => {
    const { etag } = (await api<Tagged>("GET", acme)).body;
    for (const header of ["text", '"open', `${etag} ${etag}`, `W/${etag}`, ""]) {
      const { status } = await api("PATCH", acme, { name: "Wrong" }, ifMatch(header));
      expect([header, status]).toEqual([header, header.startsWith("W/") ? 412 : 422]);
    }
    const { status, body } = await api<Failed>("DELETE", `${acme}/tools/noop`, undefined, ifMatch(etag));
    expect([status, body.error.code]).toEqual([422, "INVALID"]);
    expect((await api("GET", `${acme}/tools/noop/versions/1`)).status).toBe(200);
  });
});

test("a request with a condition is not repeated after a lost response, since the first one can have had its effect", async () => {
  let requests = 0;
  const client = createClient({
    url: "http://127.0.0.1:1",
    key: "gbx_test",
    fetch: () => {
      requests += 1;
      return Promise.reject(new TypeError("The connection was lost"));
    },
  });
  const changed = client.tenant("acme").updateWebhook("webhook_1", { state: "disabled" }, { ifMatch: '"a"' });
  await expect(changed).rejects.toMatchObject({ code: "NETWORK" });
  expect(requests).toBe(1);
});
