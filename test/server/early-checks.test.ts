// What the API rejects when it is created, although only a later use would fail: targets that cannot be called or reached.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "./support/api.ts";
import { useServer } from "./support/server.ts";
import { STORES, TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe.for(STORES)("with %s", (kind) => {
  const under = useServer(stores, kind, ["acme", "halted"]);
  const { api } = under;
  const source = "export default () => 1;";

  test.for([
    ["schedules", { name: "s", cron: "@daily" }],
    ["triggers", { name: "t" }],
  ] as const)("%s need a tool that exists, released or not", async ([kindOf, more]) => {
    const create = (tool: string) => api("POST", `/v1/tenants/acme/${kindOf}`, { ...more, tool });
    expect(await create("missing")).toMatchObject({
      status: 422,
      body: { error: { code: "INVALID", message: 'tool: There is no tool "missing". Deploy it first' } },
    });
    const tool = `of_${kindOf}`;
    expect((await api("POST", "/v1/tenants/acme/tools", { name: tool, source, alias: null })).status).toBe(201);
    expect((await create(tool)).status).toBe(201);
  });

  test("a suspended tenant deploys nothing, but the operator can for it", async () => {
    const scopes = ["tools:deploy", "tools:read", "releases:write"];
    const { body } = await api<{ key: string }>("POST", "/v1/tenants/halted/keys", { name: "own", scopes });
    const own = apiOf(under.server, body.key);
    const deploy = (send: typeof api, name: string) => send("POST", "/v1/tenants/halted/tools", { name, source });
    expect((await deploy(own, "before")).status).toBe(201);
    expect((await api("PATCH", "/v1/tenants/halted", { state: "suspended" })).status).toBe(200);
    expect(await deploy(own, "after")).toMatchObject({
      status: 403,
      body: { error: { code: "FORBIDDEN", message: expect.stringContaining("The tenant is suspended") } },
    });
    expect((await own("GET", "/v1/tenants/halted/tools")).status).toBe(200);
    expect((await deploy(api, "repaired")).status).toBe(201);
    expect((await api("PATCH", "/v1/tenants/halted", { state: "active" })).status).toBe(200);
    expect((await deploy(own, "after")).status).toBe(201);
  });
});

describe("the URL of a webhook", () => {
  let server: Server;
  let api: ReturnType<typeof apiOf>;
  const create = (url: string) => api("POST", "/v1/tenants/acme/webhooks", { url, events: ["call.failed"] });
  beforeAll(async () => {
    const { options } = await stores.create("sqlite");
    server = await createServer({ ...options, port: 0, logLevel: "silent", webhookAddresses: ["10.1.0.0/16"] });
    api = apiOf(server);
    expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
  });
  afterAll(() => server.close({ drainMs: 0 }));

  test.for([
    "http://127.0.0.1/hook",
    "http://2130706433/hook",
    "https://[::1]:8443/hook",
    "http://[::ffff:10.0.0.1]/hook",
    "http://169.254.169.254/latest",
    "http://192.168.1.5/hook",
    "http://10.2.0.1/hook",
    "http://localhost:3000/hook",
    "http://api.localhost/hook",
  ])("is rejected when no delivery could reach it: %s", async (url) => {
    expect(await create(url)).toMatchObject({
      status: 422,
      body: { error: { code: "INVALID", message: expect.stringMatching(/^url: .* is not a public address/) } },
    });
  });

  test.for(["ftp://example.com/", "file:///etc/passwd", "https://user:secret@example.com/"])(
    "is rejected for its form: %s",
    async (url) => expect((await create(url)).status).toBe(422),
  );

  test.for(["https://example.com/hook", "http://93.184.216.34/hook", "http://10.1.2.3/hook", "http://hooks.invalid/"])(
    "is accepted when it is public, allowed by the operator, or a name: %s",
    async (url) => expect((await create(url)).status).toBe(201),
  );

  test("is checked when it changes", async () => {
    const { body } = await create("https://example.com/changed");
    const change = (url: string) => api("PATCH", `/v1/tenants/acme/webhooks/${body.id}`, { url });
    expect((await change("http://127.0.0.1/hook")).status).toBe(422);
    expect((await change("http://10.1.9.9/hook")).status).toBe(200);
  });
});
