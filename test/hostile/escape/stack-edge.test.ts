// At the end of the stack any line of the prelude can throw. It must not leave its internal state half updated.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

test("the prelude's functions, called where the stack ends, leave nothing half done", async () => {
  const end = await runGuest(
    `async (input, ctx) => {
    const runs = [() => ctx.kv({ a: 1 }), () => ctx.log("x", { a: 1 }), () => console.log({ a: [1] }), () => ctx.progress({ progress: 1 }), () => clearTimeout(setTimeout(() => {}, 1)), () => queueMicrotask(() => {}), () => structuredClone({ a: 1 }), () => new AbortController().abort(), () => new URL("https://a.b/?c=d").href, () => ctx.signal.aborted];
    let edges = 0;
    for (const run of runs) {
      const deeper = (n) => { try { deeper(n + 1); } catch { } try { const got = run(); got?.catch?.(() => {}); } catch (error) { edges += 1; } };
      const once = (n) => { try { once(n + 1); } catch { try { run()?.catch?.(() => {}); } catch { edges += 1; } } };
      for (let n = 0; n < 3; n += 1) try { once(0); } catch { edges += 1; }
    }
    await new Promise((done) => setTimeout(done, 20));
    const answers = [await ctx.kv("again"), new URL("https://a.b/?c=d").searchParams.get("c"), structuredClone({ a: 1 }).a];
    return [edges > 0, ...answers];
  }`,
    {
      header: { granted: ["kv"], maxCapabilityCalls: 1_000_000, maxPendingCapabilityCalls: 10_000 },
      capabilities: { kv: () => ({ ok: true, value: "answer" }) },
    },
  );
  expect(end).toMatchObject({ outcome: "output", value: [true, "answer", "d", 1] });
});
