// The second call settles a promise of the first. The code of the first call then runs, but no longer with its identity.
import { expect } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import { testPlay } from "./support.ts";

const echo = defineCapability({ name: "echo", inputSchema: {}, outputSchema: {}, handler: (input) => input });

testPlay("work of the first call that the second call resumes", {
  isolateLifetime: "tool",
  capabilities: [echo],
  source: `let go, first; const notes = [];
export default async (_, ctx) => { if (first === undefined) { first = ctx; new Promise((done) => { go = done; }).then(async () => { first.progress({ progress: 99 }); notes.push(await first.echo('late').then(() => 'answered', (error) => error.code)); }); return 'left'; } go(); await new Promise((done) => setTimeout(done, 20)); return [notes, ctx.callId, first.signal.aborted]; };`,
  play: async ({ call, callAgain }) => {
    const reports: unknown[] = [];
    const onProgress = (report: unknown): void => void reports.push(report);
    return [await call({}, { onProgress }), await callAgain("left", { onProgress }), reports.length];
  },
  judge: (outputs) => expect(outputs).toEqual(["left", [["CAPABILITY_DENIED"], "evil", true], 0]),
});
