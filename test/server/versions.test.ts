// Old versions and aliases of a tool are deleted once nothing needs them, on both databases.
import { afterAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

interface Problem {
  readonly error: { readonly code: string; readonly message: string };
}
interface Stored {
  readonly id: string;
  readonly state: string;
  readonly output: unknown;
  readonly error: { readonly code: string } | null;
}

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme", "beta"]);
  const { api } = under;
  const tools = "/v1/tenants/acme/tools";
  const deploy = async (name: string, source: string, more: object = {}): Promise<void> => {
    expect((await api("POST", tools, { name, source, approve: true, ...more })).status).toBe(201);
  };
  const release = (name: string, alias: string, version: number) =>
    api("PUT", `${tools}/${name}/releases/${alias}`, { versions: [{ version, weight: 1 }] });
  const remove = (path: string) => api<Problem>("DELETE", `${tools}/${path}`);
  const call = async (name: string, body: object = {}): Promise<Stored> =>
    (await api<Stored>("POST", `${tools}/${name}/calls`, body)).body;
  const count = async (): Promise<number> => {
    const { dataDir, database: url } = under.store.options;
    await using database = await openDatabase({ dataDir, url, onError: (error) => expect.fail(String(error)) });
    const { files, blobs } = await database.db
      .selectNoFrom(({ selectFrom, fn }) => [
        selectFrom("version_files").select(fn.countAll().as("count")).as("files"),
        selectFrom("blobs").select(fn.countAll().as("count")).as("blobs"),
      ])
      .executeTakeFirstOrThrow();
    return Number(files) + Number(blobs);
  };

  test("deletes a version with its code, and never uses its number again", async () => {
    for (const n of [1, 2, 3]) await deploy("old", `export default () => ${n};`);
    const before = await count();
    expect((await remove("old/versions/1")).status).toBe(200);
    // The source and the bundle.
    expect(await count()).toBe(before - 4);
    for (const path of ["", "/source", "/bundle"])
      expect((await api("GET", `${tools}/old/versions/1${path}`)).status).toBe(404);
    expect((await remove("old/versions/1")).status).toBe(404);
    expect((await call("old", { version: 1 })).error).toMatchObject({ code: "TOOL_UNAVAILABLE" });
    expect((await call("old")).output).toBe(3);
    const latest = await remove("old/versions/3");
    expect([latest.status, latest.body.error.message]).toEqual([
      409,
      "Version 3 is the latest. Deploy another one first, or delete the tool",
    ]);
    await deploy("old", "export default () => 1;");
    const { body } = await api<{ items: readonly { version: number }[] }>("GET", `${tools}/old/versions`);
    expect(body.items.map(({ version }) => version)).toEqual([4, 3, 2]);
    const audit = await api<{ items: readonly { action: string; target: string }[] }>("GET", "/v1/tenants/acme/audit");
    expect(audit.body.items).toContainEqual(expect.objectContaining({ action: "version.deleted", target: "old@1" }));
  });

  test("keeps a version that an alias runs, and says which one", async () => {
    for (const n of [1, 2]) await deploy("used", `export default () => ${n};`);
    expect((await release("used", "beta", 1)).status).toBe(200);
    const { status, body } = await remove("used/versions/1");
    expect([status, body.error.message]).toEqual([
      409,
      'The alias "beta" runs version 1. Release another version first',
    ]);
    expect((await remove("used/releases/beta")).status).toBe(200);
    expect((await remove("used/releases/beta")).status).toBe(404);
    expect((await call("used", { alias: "beta" })).error).toMatchObject({ code: "TOOL_UNAVAILABLE" });
    expect((await remove("used/versions/1")).status).toBe(200);
    expect((await call("used")).output).toBe(2);
  });

  test("does not roll back to a version that was deleted", async () => {
    for (const n of [1, 2]) await deploy("back", `export default () => ${n};`);
    expect((await remove("back/versions/1")).status).toBe(200);
    const { status, body } = await api<Problem>("POST", `${tools}/back/releases/live/rollback`);
    expect([status, body.error.message]).toEqual([409, "The alias ran version 1 before, which has been deleted"]);
    expect((await call("back")).output).toBe(2);
  });

  test("does not roll back a tool that does not exist", async () => {
    const rolledBack = await api<Problem>("POST", `${tools}/missing/releases/live/rollback`);
    expect([rolledBack.status, rolledBack.body.error.message]).toEqual([404, 'There is no tool "missing"']);
  });

  test("a tool without a live release takes only calls that name a version", async () => {
    await deploy("off", "export default () => 1;");
    expect((await remove("off/releases/live")).status).toBe(200);
    expect((await call("off")).error).toMatchObject({ code: "TOOL_UNAVAILABLE" });
    expect((await call("off", { version: 1 })).output).toBe(1);
    expect((await release("off", "live", 1)).status).toBe(200);
    expect((await call("off")).output).toBe(1);
  });

  test("keeps a version that a durable run, an approval or a queued call needs", async () => {
    await api("PATCH", "/v1/tenants/acme", { policy: { capabilities: ["waitFor"] } });
    const waiting = `export const capabilities = { waitFor: true }; export const durable = true;
      export default (_, ctx) => ctx.waitFor({ event: "go" });`;
    await deploy("run", waiting);
    const run = (await api<Stored>("POST", "/v1/tenants/acme/runs", { tool: "run" })).body;
    expect(run.state).toBe("suspended");
    await deploy("run", "export default () => 2;");
    expect((await remove("run/versions/1")).body.error.message).toMatch(/^1 runs of version 1 have not ended/);
    expect((await api("POST", `/v1/tenants/acme/runs/${run.id}/cancel`)).status).toBe(202);

    const destructive = 'export const annotations = { destructiveHint: true }; export default () => "done";';
    await api("PATCH", "/v1/tenants/acme", { policy: { capabilities: ["waitFor"], approvals: { destructive: true } } });
    await deploy("ask", destructive);
    const limited = (await api<{ key: string }>("POST", "/v1/tenants/acme/keys", { name: "k", scopes: ["calls:run"] }))
      .body;
    const { body: parked } = await api<Stored>(
      ...([
        "POST",
        `${tools}/ask/calls`,
        {},
        { authorization: `Bearer ${limited.key}`, prefer: "respond-async" },
      ] as const),
    );
    expect(parked.state).toBe("waiting_for_approval");
    await deploy("ask", "export default () => 2;");
    expect((await remove("ask/versions/1")).body.error.message).toMatch(/^1 calls of version 1 have not ended/);
  });

  test("counts the versions that are stored against the tenant's limit", async () => {
    await api("PATCH", "/v1/tenants/beta", { policy: { maxVersions: 2 } });
    const beta = createClient({ url: under.server.url, key: under.server.adminKey as string }).tenant("beta");
    for (const n of [1, 2]) await beta.deploy({ name: "few", source: `export default () => ${n};` });
    const third = () => beta.deploy({ name: "few", source: "export default () => 3;" });
    await expect(third()).rejects.toMatchObject({ status: 429, message: expect.stringContaining("maxVersions is 2") });
    await beta.deleteVersion("few", 1);
    expect((await third()).version.version).toBe(3);
    await beta.deleteRelease("few", "live");
    expect((await beta.call("few").catch((error: unknown) => error)) as object).toMatchObject({ state: "failed" });
  });

  test("needs the scopes of deploying and releasing", async () => {
    await deploy("mine", "export default () => 1;");
    await deploy("mine", "export default () => 2;");
    const { key } = (
      await api<{ key: string }>("POST", "/v1/tenants/acme/keys", {
        name: "reader",
        scopes: ["tools:read", "calls:run"],
      })
    ).body;
    const headers = { authorization: `Bearer ${key}` };
    for (const path of ["versions/1", "releases/live"])
      expect((await api("DELETE", `${tools}/mine/${path}`, undefined, headers)).status).toBe(403);
    const other = await api<{ key: string }>("POST", "/v1/tenants/beta/keys", {
      name: "other",
      scopes: ["tools:deploy", "releases:write"],
    });
    for (const path of ["versions/1", "releases/live"]) {
      const { status } = await api("DELETE", `${tools}/mine/${path}`, undefined, {
        authorization: `Bearer ${other.body.key}`,
      });
      expect(status).toBe(404);
    }
    expect((await call("mine")).output).toBe(2);
  });
});
