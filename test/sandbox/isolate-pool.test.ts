// Tests of the isolate pool: used isolates leave a better code cache to later ones.
import { describe, expect, onTestFinished, test } from "vitest";
import type { LoadableBundle } from "../../src/sandbox/worker/isolate/engine.ts";
import { IGNORE_MESSAGES } from "../../src/sandbox/worker/isolate/guest-call.ts";
import type { ToolIsolate } from "../../src/sandbox/worker/isolate/tool-isolate.ts";
import { IsolatePool } from "../../src/sandbox/worker/isolate-pool.ts";
import { bundleCode, HEADER, sharedEngine } from "../support/guest.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

const SHA = "0".repeat(64);
/** A hundred functions that run only when the tool is called. */
const LAZY = Array.from({ length: 100 }, (_, n) => `const f${n} = (x) => { let sum = x; sum += ${n}; return sum; };`);
const SUM = `{ default: () => ${LAZY.map((_, n) => `f${n}(1)`).join(" + ")} }`;

async function poolOf(worker: { isCalm: boolean }) {
  const pool = new IsolatePool(await sharedEngine(), { isCalm: () => worker.isCalm, onStuck() {} });
  pool.addBundle(SHA, bundleCode(SUM, LAZY.join("\n")), new Uint8Array(0));
  const bundle = (): LoadableBundle => pool.bundle(SHA) as LoadableBundle;
  /** Runs one call in a new isolate. */
  const serve = async (): Promise<{ readonly isolate: ToolIsolate; readonly output: string }> => {
    const isolate = pool.create({ memoryMiB: 32, features: [], coarseTime: false });
    onTestFinished(() => isolate.dispose());
    isolate.boot();
    expect((await isolate.load(bundle(), IGNORE_MESSAGES)).outcome).toBe("ready");
    const call = { header: JSON.stringify(HEADER), input: "{}", callId: "c", tenantId: "acme" };
    const { text } = await isolate.call(call, IGNORE_MESSAGES);
    await isolate.settle(PATIENT_LIMITS.timeoutMs);
    return { isolate, output: text };
  };
  return { pool, bundle, serve };
}

describe("IsolatePool.retire()", () => {
  test("rebuilds the code cache after the second call and disposes the isolate", async () => {
    const { pool, bundle, serve } = await poolOf({ isCalm: true });
    const sizes: number[] = [];
    for (let call = 0; call < 3; call += 1) {
      const { isolate, output } = await serve();
      expect(output).toBe("5050");
      pool.retire(isolate, bundle());
      expect(isolate.isDisposed).toBe(true);
      sizes.push(bundle().codeCache?.byteLength ?? 0);
    }
    expect(sizes[0]).toBe(0);
    expect(sizes[1]).toBeGreaterThan(10_000);
    expect(sizes[2]).toBe(sizes[1]);
  });

  test("does not rebuild the cache while a call would wait or from a disposed isolate", async () => {
    const worker = { isCalm: false };
    const { pool, bundle, serve } = await poolOf(worker);
    for (let call = 0; call < 2; call += 1) pool.retire((await serve()).isolate, bundle());
    worker.isCalm = true;
    for (let call = 0; call < 2; call += 1) {
      const { isolate } = await serve();
      await isolate.dispose();
      pool.retire(isolate, bundle());
    }
    expect(bundle().codeCache).toBeUndefined();
  });
});
