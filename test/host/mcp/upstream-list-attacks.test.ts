// Tests lists of tools that are attacks, over each transport: the event loop and the memory of the host stay bounded, and the number of tools
// stays within the limit.
import { afterAll, beforeAll, test } from "vitest";
import { sampleAttacks } from "../../support/attack-sample.ts";
import { AttackedGlovebox, TRANSPORTS } from "../../support/attacks/attacked-glovebox.ts";
import { LIST_ATTACKS } from "../../support/attacks/mcp-attacks.ts";

let glovebox: AttackedGlovebox;
beforeAll(async () => {
  glovebox = await AttackedGlovebox.start();
});
afterAll(async () => await glovebox[Symbol.asyncDispose]());

/** A sampled run tests each list over one transport. */
const CASES = TRANSPORTS.flatMap((transport, offset) =>
  sampleAttacks(Object.entries(LIST_ATTACKS), offset, TRANSPORTS.length).map(
    ([name, { mostTools }]) => [transport, name, mostTools] as const,
  ),
);

test.for(CASES)("limits a hostile list of tools: %s, %s", async ([transport, name, mostTools]) => {
  await glovebox.expectListBounded(transport, name, mostTools);
});
