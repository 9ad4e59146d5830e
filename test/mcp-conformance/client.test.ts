// Runs the official MCP conformance suite for clients against a Glovebox with the suite's server upstream: every scenario that a revision
// requires, each in a tenant of its own.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, test } from "vitest";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { makeGlovebox } from "../support/host-zone.ts";
import { REVISIONS } from "./expectations.ts";
import { expectSuitePasses } from "./run-suite.ts";
import { runScenario, type Scenario } from "./suite-client.ts";

/** Number of scored scenarios of each set, at the installed version of the suite. */
const SCORED = { "2025-11-25": 18, "2026-07-28": 32 } as const;
const RELAY = fileURLToPath(new URL("relay.mjs", import.meta.url));

/** Scenarios that run at the same time. The suite starts all at once, and some of its checks allow seconds for an answer. */
const CONCURRENT = 4;
let free = CONCURRENT;
const waiting: (() => void)[] = [];

let glovebox: Glovebox;
const driver = createServer(async (request, response) => {
  if (free > 0) free -= 1;
  else await new Promise<void>((resolve) => waiting.push(resolve));
  try {
    const said = Buffer.concat(await request.toArray()).toString();
    response.end(await runScenario(glovebox, JSON.parse(said) as Scenario));
  } catch (error) {
    response.writeHead(500).end(String(error));
  } finally {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  }
});
beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi" });
  await new Promise<void>((resolve) => driver.listen(0, "127.0.0.1", resolve));
});
afterAll(async () => {
  driver.closeAllConnections();
  driver.close();
  await glovebox.close();
});

test.for(REVISIONS)("the conformance suite for clients: passes the requirements of %s", async (revision) => {
  const { port } = driver.address() as AddressInfo;
  const command = `${process.execPath} ${RELAY} ${port}`;
  const target = ["--command", command, "--timeout", "240000"];
  await expectSuitePasses("client", revision, target, SCORED[revision]);
});
