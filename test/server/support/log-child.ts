// A server whose log a test reads: it answers a few requests, and stops.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type ServerOptions } from "../../../src/server/index.ts";

const logLevel = process.argv[2] as ServerOptions["logLevel"];
const dataDir = mkdtempSync(join(tmpdir(), "glovebox-log-"));
const server = await createServer({ port: 0, dataDir, logLevel });
const send = async (method: string, path: string, key: string | undefined, body?: object): Promise<void> => {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { ...(key && { authorization: `Bearer ${key}` }), "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  await response.text();
};
await send("POST", "/v1/tenants", server.adminKey, { id: "acme", name: "hidden-name" });
await send("GET", "/v1/tenants/acme/calls?text=hidden-text", server.adminKey);
await send("GET", "/v1/tenants/none/calls", server.adminKey);
await send("GET", "/hidden-path", server.adminKey);
await send("GET", "/healthz", undefined);
for (let index = 0; index < 30; index += 1) await send("GET", "/v1/me", "hidden-key");
await server.close();
rmSync(dataDir, { recursive: true, force: true });
