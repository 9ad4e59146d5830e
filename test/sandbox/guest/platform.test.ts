// Tests platform modules: each is evaluated once at first use, without effects that a tool could notice.
import { describe, expect, test } from "vitest";
import { loadSandboxArtifacts } from "../../../src/bundler/artifacts/sandbox-artifacts.ts";
import { PLATFORM_MODULE_NAMES, type PlatformModuleName } from "../../../src/sandbox/protocol/platform-modules.ts";
import { createEngine } from "../../../src/sandbox/worker/isolate/engine.ts";
import { IGNORE_MESSAGES } from "../../../src/sandbox/worker/isolate/guest-call.ts";
import { createModuleCaches, ToolIsolate } from "../../../src/sandbox/worker/isolate/tool-isolate.ts";
import { bundleCode, HEADER, inGuest, runGuest, toBundle } from "../../support/guest.ts";
import { loadCrypto } from "../../support/load-crypto.ts";

describe("a platform module", () => {
  test("is evaluated in the middle of a tool's code without running its microtasks", async () => {
    const order = await inGuest(() => {
      const seen: string[] = [];
      void Promise.resolve().then(() => seen.push("microtask"));
      new URL("https://example.com");
      seen.push("after the touch");
      return Promise.resolve().then(() => seen);
    });
    expect(order).toEqual(["after the touch", "microtask"]);
  });

  test("is shared by all of its globals, and keeps a tool's changes to them", async () => {
    const found = await inGuest(() => {
      const { URL: First } = globalThis;
      const isSame = First === URL && new URL("https://example.com/?a=1").searchParams instanceof URLSearchParams;
      Object.assign(globalThis, { URL: "mine" });
      return { isSame, now: globalThis.URL };
    });
    expect(found).toEqual({ isSame: true, now: "mine" });
  });

  test("leaves no frames in a stack", async () => {
    const { value } = await runGuest(() => {
      try {
        return new URL("no url");
      } catch (error) {
        return (error as Error).stack;
      }
    });
    expect(value).not.toContain("chunk");
  });
});

describe("a platform module that earlier isolates of a bundle have used", () => {
  const TOUCHES = bundleCode("{ default: () => new URL('https://example.com/a').pathname }");
  const CALL = { header: JSON.stringify(HEADER), input: "{}", callId: "c1", tenantId: "acme" };

  async function openEngine(readings: PlatformModuleName[], withCaches = false) {
    const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
    const sources = {
      preludeSource,
      loadCrypto,
      preludeCache: new Uint8Array(0),
      readPlatformModule: (name: PlatformModuleName) => {
        readings.push(name);
        return readPlatformModule(name);
      },
    };
    if (!withCaches) return createEngine(sources);
    return createEngine({ ...sources, moduleCaches: createModuleCaches(createEngine(sources)) });
  }

  test.for([false, true])(
    "is available in the next isolate before its tool uses it; with code caches: %s",
    async (withCaches) => {
      const engine = await openEngine([], withCaches);
      const bundle = toBundle(TOUCHES);
      expect([...bundle.modules]).toEqual([]);
      for (const header of [undefined, undefined, CALL.header]) {
        const isolate = new ToolIsolate(engine, { memoryMiB: 64, features: [], coarseTime: false });
        isolate.boot();
        expect((await isolate.load(bundle, IGNORE_MESSAGES, header)).outcome).toBe("ready");
        expect(await isolate.call(CALL, IGNORE_MESSAGES)).toEqual({ outcome: "output", text: '"/a"' });
        await isolate.dispose();
        expect([...bundle.modules]).toEqual(["url", "url-parser", "encoding"]);
      }
    },
  );

  test("is not read for a tool that uses none", async () => {
    const readings: PlatformModuleName[] = [];
    const isolate = new ToolIsolate(await openEngine(readings), { memoryMiB: 64, features: [], coarseTime: false });
    isolate.boot();
    const bundle = toBundle(bundleCode("{ default: () => 1 }"));
    await isolate.load(bundle, IGNORE_MESSAGES);
    await isolate.call(CALL, IGNORE_MESSAGES);
    await isolate.dispose();
    expect(readings).toEqual([]);
  });

  test("has a code cache that includes functions that do not run at evaluation", async () => {
    const caches = createModuleCaches(await openEngine([]));
    expect(caches).toHaveLength(PLATFORM_MODULE_NAMES.length);
    for (const cache of caches) expect(cache.byteLength).toBeGreaterThan(1_000);
  });
});
