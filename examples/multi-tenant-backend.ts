// An HTTP backend on which several customers (tenants) upload tools and call them. Each sees its own tools and values only.
// Shows authentication, a policy for each tenant, quotas, the key-value store, errors as HTTP, and a graceful shutdown.
//
// Run: node multi-tenant-backend.ts    (PORT, KV_PATH: port and file of stored values; SIGTERM ends it)
//   curl -X PUT localhost:8080/tools/shout -H "authorization: Bearer acme-key" --data 'export default ({ text }) => text.toUpperCase()'
//   curl localhost:8080/tools/shout/calls -H "authorization: Bearer acme-key" --data '{ "text": "hello" }'
import { createHash, randomUUID } from "node:crypto";
import { serve } from "@hono/node-server";
import {
  createGlovebox,
  type FailedCall,
  type TenantOptions,
  ToolError,
  toHttpStatus,
  toRetryAfterSeconds,
} from "glovebox";
import { type Context, Hono } from "hono";
import { bodyLimit } from "hono/body-limit";
import type { ContentfulStatusCode } from "hono/utils/http-status";

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");

// Stand for two tables of a database. Keys are stored as digests, so that the table gives none away.
const tenantByKey = new Map([
  [digest("acme-key"), "acme"],
  [digest("globex-key"), "globex"],
]);
const policies: { readonly [tenantId: string]: TenantOptions } = {
  acme: { weight: 4, quotas: { cpuMs: { day: 3_600_000 } } },
  globex: { limits: { memoryMiB: 32 }, rateLimit: { calls: 2, per: "minute" } },
};

const glovebox = await createGlovebox({
  tenancy: "multi",
  tenants: async (tenantId) => policies[tenantId] ?? {},
  limits: { timeoutMs: 30_000, cpuMs: 1_000, memoryMiB: 64, maxConcurrentCalls: 8, maxQueuedCalls: 32 },
  kv: { path: process.env.KV_PATH ?? "kv.sqlite" },
  onError: (error) => console.error(error),
});

const app = new Hono<{ Variables: { tenantId: string } }>();

/** The answer to a failure, whether a call returned it or addTool threw it. `message` names no paths and secrets of this host. */
function fail(c: Context, error: FailedCall & { readonly message: string }): Response {
  const retryAfter = toRetryAfterSeconds(error);
  if (retryAfter !== undefined) c.header("retry-after", String(retryAfter));
  const { code, message } = error;
  return c.json({ error: { code, message } }, toHttpStatus(error) as ContentfulStatusCode);
}

let isShuttingDown = false;
app.use(async (c, next) => {
  await next();
  // Otherwise an idle connection keeps the process alive for seconds.
  if (isShuttingDown) c.header("connection", "close");
});

app.onError((error, c) => {
  if (error instanceof ToolError) return fail(c, error);
  console.error(error);
  return c.json({ error: { code: "INTERNAL", message: "Internal server error" } }, 500);
});

// The key determines the tenant. A tenant id that a client states itself is never used.
app.use(async (c, next) => {
  const [, key] = /^Bearer (.+)$/.exec(c.req.header("authorization") ?? "") ?? [];
  const tenantId = key === undefined ? undefined : tenantByKey.get(digest(key));
  if (tenantId === undefined) return c.json({ error: { code: "UNAUTHORIZED", message: "Unknown API key" } }, 401);
  c.set("tenantId", tenantId);
  return await next();
});
app.use(
  bodyLimit({
    maxSize: 100_000,
    // The rest of the body is not read, so the connection cannot be used again.
    onError: (c) =>
      c.json({ error: { code: "BODY_TOO_LARGE", message: "The body exceeds 100 kB" } }, 413, { connection: "close" }),
  }),
);

app.get("/tools", async (c) => {
  const tools = await glovebox.listTools({ tenantId: c.get("tenantId") });
  return c.json(tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })));
});

app.put("/tools/:name", async (c) => {
  const name = c.req.param("name");
  const tool = { source: await c.req.text(), overrides: { name } };
  // Calls that run finish with the old version; later ones have the new one.
  const { description } = await glovebox.addTool(tool, { tenantId: c.get("tenantId"), grant: ["kv"], replace: true });
  return c.json({ name, description }, 201);
});

app.delete("/tools/:name", (c) => {
  const isRemoved = glovebox.removeTool(c.req.param("name"), { tenantId: c.get("tenantId") });
  return c.body(null, isRemoved ? 204 : 404);
});

app.post("/tools/:name/calls", async (c) => {
  const call = { id: randomUUID(), toolName: c.req.param("name"), argumentsText: await c.req.text() };
  // A client that goes away ends its call.
  const result = await glovebox.execute(call, { tenantId: c.get("tenantId"), signal: c.req.raw.signal });
  return result.success ? c.json({ output: result.output, usage: result.usage }) : fail(c, result.error);
});

app.get("/calls", (c) => c.json(glovebox.listCalls({ tenantId: c.get("tenantId") })));

const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: Number(process.env.PORT ?? 8080) }, ({ port }) =>
  console.log(`Listening on http://127.0.0.1:${port}`),
);

// No new connections, up to 10 s for the calls that run, and then the process ends by itself: nothing keeps it alive any more.
process.once("SIGTERM", async () => {
  console.log("Shutting down");
  isShuttingDown = true;
  server.close();
  await glovebox.close({ drainMs: 10_000 });
  console.log("Closed");
});
