// Tests of CPU time: the division of the process's time among isolates, and the CPU time that results report.
import { pbkdf2Sync } from "node:crypto";
import { availableParallelism } from "node:os";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { CpuShare, type CpuShareAccount } from "../../src/sandbox/worker/cpu-share.ts";
import { makeGlovebox, outputOf } from "../support/host-zone.ts";

class Meter implements CpuShareAccount {
  cpuMs = 0;
  readonly #busyMs: number;
  constructor(busyMs: number) {
    this.#busyMs = busyMs;
  }
  takeBusyMs(): number {
    return this.#busyMs;
  }
  charge(cpuMs: number): void {
    this.cpuMs += cpuMs;
  }
}

function burn(ms: number): void {
  const { user, system } = process.cpuUsage();
  for (;;) {
    const now = process.cpuUsage();
    if (now.user + now.system - user - system > ms * 1_000) return;
  }
}

describe("CpuShare.share()", () => {
  test("divides the CPU time of the process in proportion to the time in each isolate", () => {
    const share = new CpuShare();
    const before = process.cpuUsage();
    share.begin();
    burn(40);
    const [long, short] = [new Meter(300), new Meter(100)] as const;
    share.share([long, short]);
    const { user, system } = process.cpuUsage(before);
    expect(long.cpuMs / short.cpuMs).toBeCloseTo(3);
    expect(long.cpuMs + short.cpuMs).toBeGreaterThan(39);
    expect(long.cpuMs + short.cpuMs).toBeLessThanOrEqual((user + system) / 1_000);
  });

  test("charges no call more than its wall-clock time", () => {
    const share = new CpuShare();
    share.begin();
    burn(20);
    const meter = new Meter(5);
    share.share([meter]);
    expect(meter.cpuMs).toBe(5);
    expect(share.factor).toBe(1);
  });

  test("charges nothing to a call that has not run", () => {
    const share = new CpuShare();
    share.begin();
    const meter = new Meter(0);
    share.share([meter]);
    expect(meter.cpuMs).toBe(0);
  });
});

describe("usage.cpuMs", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox({ limits: { maxConcurrentCalls: 10_000 } });
  });
  afterAll(() => glovebox.close());

  test("is CPU time and not wall-clock time when many calls share the cores", async () => {
    await glovebox.addTool({ name: "loop", source: "export default () => { for (;;); }" });
    const call = () => glovebox.execute({ id: "c", toolName: "loop" }, { tenantId: "acme", timeoutMs: 1_000 });
    const cores = availableParallelism();
    // Starting isolates and processes counts too, and takes a slow machine long. Wall-clock time would be three times the bound each time.
    await vi.waitFor(async () => {
      const before = performance.now();
      const results = await Promise.all(Array.from({ length: 4 * cores }, call));
      const elapsedMs = performance.now() - before;
      const cpuMs = results.reduce((sum, { usage }) => sum + usage.cpuMs, 0);
      expect(cpuMs).toBeLessThan(elapsedMs * cores * 1.3);
    });
  });

  test("usage.cpuMs is low for a tool that waits", async () => {
    const source = "export default () => new Promise((done) => setTimeout(done, 4_000, 1))";
    await glovebox.addTool({ name: "wait", source, overrides: { limits: { cpuMs: 2_000 } } });
    const result = await glovebox.execute({ id: "c", toolName: "wait" });
    expect(outputOf(result)).toBe(1);
  });

  test("includes the time of cryptography jobs on other threads", async () => {
    const derive = (iterations: number): string => `export default async () => {
      const key = await crypto.subtle.importKey("raw", new Uint8Array(8), "PBKDF2", false, ["deriveBits"]);
      const pbkdf2 = { name: "PBKDF2", hash: "SHA-512", salt: new Uint8Array(8), iterations: ${iterations} };
      await crypto.subtle.deriveBits(pbkdf2, key, 512);
    }`;
    await glovebox.addTool({ name: "short", source: derive(1_000) });
    await glovebox.addTool({ name: "long", source: derive(500_000) });
    // A virtual machine counts a pause as CPU time of what runs. Without the jobs, the difference would be next to nothing each time.
    await vi.waitFor(async () => {
      const [short, long] = [
        await glovebox.execute({ id: "c", toolName: "short" }),
        await glovebox.execute({ id: "c", toolName: "long" }),
      ];
      expect(short.success && long.success).toBe(true);
      // The same work on this machine at this time, of which a worker process on a busy machine reports most.
      const before = process.cpuUsage();
      pbkdf2Sync(new Uint8Array(8), new Uint8Array(8), 499_000, 64, "sha512");
      const { user, system } = process.cpuUsage(before);
      const ownMs = (user + system) / 1_000;
      expect(long.usage.cpuMs - short.usage.cpuMs).toBeGreaterThan(ownMs / 3);
    });
  });

  test("ends a call whose cryptography jobs exceed cpuMs", async () => {
    const source = `export default async () => {
      const key = await crypto.subtle.importKey("raw", new Uint8Array(8), "PBKDF2", false, ["deriveBits"]);
      const pbkdf2 = { name: "PBKDF2", hash: "SHA-512", salt: new Uint8Array(8), iterations: 100_000 };
      for (;;) await crypto.subtle.deriveBits(pbkdf2, key, 512);
    }`;
    await glovebox.addTool({ name: "derive", source, overrides: { limits: { cpuMs: 200 } } });
    const result = await glovebox.execute({ id: "c", toolName: "derive" });
    expect(result.success ? "ok" : result.error.code).toBe("CPU_LIMIT");
  });
});
