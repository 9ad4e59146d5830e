// Calls that the run of a tool makes with ctx.tools, and that a person must approve: the run waits, and makes the call that the person saw.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import type { RunRecord } from "../../../src/host/runs/run-store.ts";
import { createRuns, type Runs } from "../../../src/host/runs/runs.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
  await glovebox.addTool({ name: "pay", source: "export default ({ amount = 0 }) => 'paid ' + amount;" });
  await glovebox.addTool({ name: "look", source: "export default () => 'looked';" });
  const caller = (body: string, tools = "true"): string => `
    export const capabilities = { tools: ${tools}, waitFor: true, onRollback: true };
    const attempt = async (call) => { try { return await call; } catch (error) { return error.code + ": " + error.message; } };
    export default async (input, ctx) => { ${body} };`;
  const add = (name: string, source: string) => glovebox.addTool({ name, source }, { grant: ["tools", "waitFor"] });
  await add(
    "orders",
    caller("return [await ctx.tools.call('look', {}), await attempt(ctx.tools.call('pay', input))];"),
  );
  await add(
    "two",
    caller("return await Promise.all([5, 6].map((amount) => attempt(ctx.tools.call('pay', { amount }))));"),
  );
  await add("none", caller("return await attempt(ctx.tools.call('missing', {}));"));
  await add("narrow", caller("return await attempt(ctx.tools.call('pay', {}));", "['look']"));
});
afterAll(() => glovebox.close());

const open = (needs: (toolName: string) => boolean = (toolName) => toolName === "pay", expiresInMs?: number): Runs =>
  createRuns(glovebox, {
    store: new MemoryRunStore(),
    pollMs: 0,
    prepare: async () => ({
      approvalOf: async (toolName) =>
        needs(toolName) ? { ...(expiresInMs === undefined ? {} : { expiresInMs }) } : undefined,
    }),
  });
const outputOf = ({ result }: RunRecord): unknown => (result?.success === true ? result.output : result?.error);

describe("a call of a tool that needs an approval", () => {
  test("suspends the run, which makes the call when a person has approved it", async () => {
    await using runs = open();
    const run = await runs.start({ toolName: "orders", arguments: { amount: 7 } });
    expect(run.state).toBe("suspended");
    const message = 'The tool "orders" wants to call the tool "pay" with {"amount":7}. Approve this call?';
    expect(run.waits).toEqual([
      expect.objectContaining({ kind: "approval", toolName: "pay", input: { amount: 7 }, message }),
    ]);
    const ended = await runs.signal(run.id, { approval: run.waits[0]?.id ?? 0, approved: true });
    expect([ended.state, outputOf(ended)]).toEqual(["succeeded", ["looked", "paid 7"]]);
  });

  test("is not made when a person has denied it, and the tool can handle that", async () => {
    await using runs = open();
    const run = await runs.start({ toolName: "orders", arguments: { amount: 7 } });
    const ended = await runs.signal(run.id, { approval: run.waits[0]?.id ?? 0, approved: false, reason: "too much" });
    const denied = "APPROVAL_REQUIRED: The call was denied and not run: too much";
    expect(outputOf(ended)).toEqual(["looked", denied]);
  });

  test("waits next to others: each has a decision of its own", async () => {
    await using runs = open();
    const run = await runs.start({ toolName: "two", arguments: {} });
    expect(run.waits.map(({ input }) => input)).toEqual([{ amount: 5 }, { amount: 6 }]);
    const [first, second] = run.waits;
    await runs.signal(run.id, { approval: second?.id ?? 0, approved: true });
    const ended = await runs.signal(run.id, { approval: first?.id ?? 0, approved: false });
    expect(outputOf(ended)).toEqual(["APPROVAL_REQUIRED: The call was denied and not run", "paid 6"]);
  });

  test("runs only the tool that the person saw", async () => {
    await using runs = open();
    const run = await runs.start({ toolName: "orders", arguments: { amount: 7 } });
    const changed = "export default ({ amount = 0 }) => 'stolen ' + amount;";
    await glovebox.updateTool({ name: "pay", source: changed });
    const ended = await runs.signal(run.id, { approval: run.waits[0]?.id ?? 0, approved: true });
    await glovebox.updateTool({ name: "pay", source: "export default ({ amount = 0 }) => 'paid ' + amount;" });
    expect(outputOf(ended)).toEqual([
      "looked",
      "TOOL_UNAVAILABLE: The tool has changed since the call was approved, so it was not run",
    ]);
  });

  test("is denied when its time is over", async () => {
    await using runs = open(undefined, 1);
    const run = await runs.start({ toolName: "orders", arguments: {} });
    await expect
      .poll(async () => {
        await runs.poll();
        return await runs.get(run.id).then((found) => found && outputOf(found));
      })
      .toEqual(["looked", "APPROVAL_REQUIRED: The call was not approved in time and not run"]);
  });

  test("does not ask for a tool that is not there, or that the caller has not requested", async () => {
    await using runs = open(() => true);
    expect(outputOf(await runs.start({ toolName: "none", arguments: {} }))).toMatch(/^TOOL_UNAVAILABLE: missing: /);
    expect(outputOf(await runs.start({ toolName: "narrow", arguments: {} }))).toMatch(
      /^CAPABILITY_DENIED: narrow may not call "pay"/,
    );
  });
});
