// Tests calls that hostile upstream MCP servers answer with attacks, over each transport. Each call has one clear outcome, the event loop and
// memory of the host stay bounded, the server's next call works, and other servers are not affected.
import { afterAll, beforeAll, describe, test } from "vitest";
import { sampleAttacks } from "../../support/attack-sample.ts";
import { AttackedGlovebox, TRANSPORTS } from "../../support/attacks/attacked-glovebox.ts";
import { ATTACKS, HTTP_ATTACKS } from "../../support/attacks/mcp-attacks.ts";

let glovebox: AttackedGlovebox;
beforeAll(async () => {
  glovebox = await AttackedGlovebox.start();
});
afterAll(async () => await glovebox[Symbol.asyncDispose]());

/** A sampled run tests each attack over one of its transports. */
const CASES = TRANSPORTS.flatMap((transport, offset) =>
  sampleAttacks(Object.entries(ATTACKS), offset, TRANSPORTS.length)
    .filter(([, { isOneMessage }]) => transport !== "json" || isOneMessage === true)
    .map(([name, { outcomes }]) => [transport, name, outcomes] as const),
);

describe("a call that is answered with an attack is bounded, and the next call works:", () => {
  test.for(CASES)("%s, %s", async ([transport, name, outcomes]) => {
    await glovebox.expectBounded(transport, name, outcomes);
  });

  test.for(Object.entries(HTTP_ATTACKS))("HTTP, %s", async ([name, { outcomes }]) => {
    await glovebox.expectBounded("events", name, outcomes);
  });
});
