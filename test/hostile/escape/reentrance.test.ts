// Guest code that the prelude runs and that calls the prelude again, while counters and lists are being changed.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

test("a toJSON, a getter or a listener that calls back in sees whole allowances, and passes none", async () => {
  const end = await runGuest(
    `async (input, ctx) => {
    let depth = 0;
    const nested = { toJSON() { if (depth < 50) { depth += 1; ctx.kv(nested).catch(() => {}); } return depth; } };
    const rejected = [];
    await ctx.kv(nested).catch((error) => rejected.push(error.code));
    let reports = 0;
    const report = { get progress() { if (reports < 2_000) { reports += 1; ctx.progress(report); } return reports; } };
    try { ctx.progress(report); } catch {}
    const target = new EventTarget();
    let events = 0;
    target.addEventListener("x", function again() { events += 1; target.removeEventListener("x", again); target.addEventListener("x", again); if (events < 100) target.dispatchEvent(new Event("x")); });
    target.dispatchEvent(new Event("x"));
    return [await ctx.kv("after").catch((error) => error.code), events];
  }`,
    {
      header: { granted: ["kv"], maxCapabilityCalls: 10, maxPendingCapabilityCalls: 5 },
      capabilities: { kv: () => ({ ok: true, value: "answer" }) },
    },
  );
  expect(end).toMatchObject({ outcome: "output", value: ["QUOTA_EXCEEDED", 100] });
  expect(end.progress.length).toBeLessThanOrEqual(1_000);
});
