// Runs the official MCP conformance suite against the endpoint of a tenant of `glovebox serve`, with the suite's tools deployed over the API.
// A tenant's endpoint serves tools only, so the scenarios of resources and prompts are expected to fail.
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer, type Server as HttpServer, request as httpRequest } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createServer, type Server } from "../../src/server/index.ts";
import { apiOf } from "../server/support/api.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";
import { EXPECTED_FAILURES, REVISIONS } from "./expectations.ts";
import { passesAlone, runSuite } from "./run-suite.ts";
import { SUITE_TOOLS } from "./tools.ts";

/** Prefixes of the scenarios that need resources or prompts. */
const NOT_SERVED = ["resources-", "prompts-", "completion", "caching", "input-required-result-non-tool-request"];
/** Least number of scenarios that pass, so that a scenario that no longer runs is noticed. */
const PASSED = { "2025-11-25": 21, "2026-07-28": 29 } as const;

const folder = mkdtempSync(join(tmpdir(), "glovebox-tenant-mcp-"));
let server: Server;
let proxy: HttpServer;
let url: string;

beforeAll(async () => {
  server = await createServer({ port: 0, dataDir: folder, logLevel: "silent", limits: PATIENT_LIMITS });
  const api = apiOf(server);
  await api("POST", "/v1/tenants", { id: "acme" });
  for (const { name, source, asks = [] } of SUITE_TOOLS) {
    if (asks.includes("changeList")) continue;
    const capabilities = Object.fromEntries(asks.map((capability) => [capability, true]));
    const text = `${source}\nexport const capabilities = ${JSON.stringify(capabilities)};`;
    const { status, body } = await api("POST", "/v1/tenants/acme/tools", { name, source: text, approve: true });
    expect([name, status, status === 201 ? undefined : body]).toEqual([name, 201, undefined]);
  }
  // The suite sends no key, so a proxy adds it. Everything else is passed on as it is.
  proxy = createHttpServer((incoming, outgoing) => {
    const headers = { ...incoming.headers, authorization: `Bearer ${server.adminKey}` };
    const passed = httpRequest(
      `${server.url}/v1/tenants/acme/mcp`,
      { method: incoming.method, headers },
      (response) => {
        outgoing.writeHead(response.statusCode ?? 500, response.headers);
        response.pipe(outgoing);
      },
    );
    passed.on("error", () => outgoing.destroy());
    outgoing.on("close", () => passed.destroy());
    incoming.pipe(passed);
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/mcp`;
});
afterAll(async () => {
  proxy.closeAllConnections();
  proxy.close();
  await server.close({ drainMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

test.for(REVISIONS)("passes the scenarios of %s that concern tools", async (revision) => {
  const target = ["--url", url];
  const { passed, failed, output } = await runSuite("server", ...target, "--requirements", revision);
  const expected = [
    ...NOT_SERVED,
    ...EXPECTED_FAILURES.filter(({ leg }) => leg === "server").map(({ scenarios }) => scenarios),
  ];
  const unexpected = failed.filter((name) => !expected.some((prefix) => name.startsWith(prefix)));
  const late: string[] = [];
  for (const name of unexpected) if (await passesAlone("server", revision, target, name)) late.push(name);
  expect(
    unexpected.filter((name) => !late.includes(name)),
    output.slice(-20_000),
  ).toEqual([]);
  expect(passed.length + late.length).toBeGreaterThanOrEqual(PASSED[revision]);
});
