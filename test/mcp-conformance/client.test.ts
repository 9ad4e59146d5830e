// Runs the official MCP conformance suite for clients against a Glovebox with the suite's server upstream: every scenario that a revision
// requires, each with its own Glovebox.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, test } from "vitest";
import { REVISIONS } from "./expectations.ts";
import { expectSuitePasses } from "./run-suite.ts";
import { runScenario, type Scenario } from "./suite-client.ts";

/** Number of scored scenarios of each set, at the installed version of the suite. */
const SCORED = { "2025-11-25": 18, "2026-07-28": 32 } as const;
const RELAY = fileURLToPath(new URL("relay.ts", import.meta.url));

const driver = createServer(async (request, response) => {
  try {
    const said = Buffer.concat(await request.toArray()).toString();
    response.end(await runScenario(JSON.parse(said) as Scenario));
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
beforeAll(async () => {
  await new Promise<void>((resolve) => driver.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  driver.closeAllConnections();
  driver.close();
});

test.for(REVISIONS)(
  "the conformance suite for clients: passes the requirements of %s",
  { timeout: 180_000 },
  async (revision) => {
    const { port } = driver.address() as AddressInfo;
    const command = `${process.execPath} ${RELAY} ${port}`;
    // All scenarios run concurrently.
    const target = ["--command", command, "--timeout", "120000"];
    await expectSuitePasses("client", revision, target, SCORED[revision]);
  },
);
