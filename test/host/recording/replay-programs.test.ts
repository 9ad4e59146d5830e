// Random programs: each replay has the output of its recording, byte for byte, and calls no capability. GLOVEBOX_REPLAY_PROGRAMS sets how many
// programs run (default: 150).
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { CallRecording } from "../../../src/host/recording/recording.ts";
import { makeGlovebox } from "../../support/host-zone.ts";
import { OTHER_TOOL, PROGRAM_TOOL, type Program, programs } from "../../support/programs.ts";

const RUNS = Number(process.env.GLOVEBOX_REPLAY_PROGRAMS ?? 150);

let glovebox: Glovebox;
let handled = 0;
beforeAll(async () => {
  const slow = defineCapability({
    name: "slow",
    description: "Answers after a while, with something else each time",
    inputSchema: z.strictObject({ ms: z.number(), fail: z.boolean().optional() }),
    outputSchema: z.unknown(),
    handler: async ({ ms, fail }) => {
      handled += 1;
      await sleep(ms * Math.random());
      if (fail) throw new Error("no");
      return Math.random();
    },
  });
  glovebox = await makeGlovebox({ capabilities: [slow] });
  await glovebox.addTool({ name: "program", source: PROGRAM_TOOL }, { grant: ["kv", "slow", "tools"] });
  await glovebox.addTool({ name: "other", source: OTHER_TOOL });
});
afterAll(() => glovebox.close());

async function record(program: Program): Promise<CallRecording> {
  let recording: CallRecording | undefined;
  const call = { id: "recorded", toolName: "program", arguments: { program } };
  const result = await glovebox.execute(call, { record: { onRecording: (made) => (recording = made) } });
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
  return recording as CallRecording;
}

describe("replay", () => {
  test(`gives the recorded output for ${RUNS} random programs`, { timeout: 60_000 + RUNS * 400 }, async () => {
    const property = fc.asyncProperty(programs, async (program) => {
      const recording = await record(program);
      const before = handled;
      // As it would come from a file.
      const { verdict, outcome, divergence } = await glovebox.replay(JSON.parse(JSON.stringify(recording)));
      expect({ outcome, divergence }).toEqual({ outcome: recording.outcome, divergence: undefined });
      expect([verdict, handled]).toEqual(["identical", before]);
    });
    await fc.assert(property, { numRuns: RUNS, endOnFailure: RUNS > 1_000 });
  });
});
