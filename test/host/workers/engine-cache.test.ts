// The prelude's code cache: which process makes it, which processes receive it, and what is rejected.
import { describe, expect, onTestFinished, test } from "vitest";
import { loadSandboxArtifacts } from "../../../src/bundler/artifacts/sandbox-artifacts.ts";
import { EngineCache } from "../../../src/host/workers/spawn/engine-cache.ts";
import { WorkerPool } from "../../../src/host/workers/worker-pool.ts";
import { unpack } from "../../../src/sandbox/protocol/length-prefixed.ts";
import { PLATFORM_MODULE_NAMES } from "../../../src/sandbox/protocol/platform-modules.ts";
import { launcherOf } from "../../support/launchers.ts";

describe("EngineCache", () => {
  test("keeps a copy of the first cache that it is offered", () => {
    const made: Uint8Array[] = [];
    const cache = new EngineCache(4 * "some text".length, undefined, (bytes) => made.push(bytes));
    const frame = new Uint8Array(1_000);
    cache.offer(frame.subarray(10, 12).fill(1));
    cache.offer(new Uint8Array([2, 2]));
    expect([...cache.bytes]).toEqual([1, 1]);
    expect(made).toEqual([cache.bytes]);
    expect(cache.bytes.buffer.byteLength).toBe(2);
  });

  test("rejects a cache above the size limit", () => {
    const cache = new EngineCache(4 * "some text".length);
    expect(() => cache.offer(new Uint8Array(37))).toThrow("too large");
    expect(cache.bytes).toHaveLength(0);
  });

  test("is made by the first process if none is known, and given to later ones", async () => {
    const { workerPath, ...texts } = await loadSandboxArtifacts();
    const made: Uint8Array[] = [];
    const start = async (known: Uint8Array | undefined): Promise<void> => {
      const preludeCache = new EngineCache(4 * texts.preludeSource.length, known, (bytes) => made.push(bytes));
      const sources = {
        ...texts,
        preludeCache,
        moduleCache: new EngineCache(0),
        launcher: await launcherOf(workerPath),
      };
      const places = { max: 1, warmProcesses: 0, maxPerOwner: 1, callsPerWorker: 1, idleMs: 60_000, memoryMiB: 1_024 };
      const pool = new WorkerPool(sources, { ...places, maxQueued: 1 });
      onTestFinished(() => pool[Symbol.asyncDispose]());
      await pool.start();
    };
    await start(undefined);
    expect(made).toHaveLength(1);
    expect(made[0]?.byteLength).toBeGreaterThan(10_000);
    await start(made[0]);
    expect(made).toHaveLength(1);
  });

  test("code caches of the platform modules are made by an unused warm process once the host has run for a while", async () => {
    const { workerPath, ...texts } = await loadSandboxArtifacts();
    const made: Uint8Array[] = [];
    const moduleCache = new EngineCache(4 * texts.chunks.units, undefined, (bytes) => made.push(bytes));
    const preludeCache = new EngineCache(4 * texts.preludeSource.length);
    const launcher = await launcherOf(workerPath);
    const places = { max: 2, warmProcesses: 1, maxPerOwner: 1, callsPerWorker: 1, idleMs: 60_000, memoryMiB: 1_024 };
    const pool = new WorkerPool({ ...texts, preludeCache, moduleCache, launcher }, { ...places, maxQueued: 1 });
    onTestFinished(() => pool[Symbol.asyncDispose]());
    await pool.start();
    await expect.poll(() => made.length).toBe(1);
    expect(unpack(moduleCache.bytes)).toHaveLength(PLATFORM_MODULE_NAMES.length);
  });
});
