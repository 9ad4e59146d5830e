// Tests the Bundler: when it builds, when it uses the cache, and what callers receive when others abort.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, test } from "vitest";
import { loadSandboxArtifacts } from "../../src/bundler/artifacts/sandbox-artifacts.ts";
import { Bundler, type BundlerOptions } from "../../src/bundler/bundler.ts";
import { createBundleCache } from "../../src/bundler/cache/bundle-cache.ts";
import { BuildProcesses } from "../../src/bundler/compile/child/build-processes.ts";
import type { ToolSource } from "../../src/bundler/tool-bundle.ts";
import { descendants, evaluate, failureOf, makeFolder, packageFiles, REPOSITORY } from "./workbench.ts";

const LIMITS = { timeoutMs: 200_000 };
const HANGING = `export default ${"(a=".repeat(30_000)}1${")=>1".repeat(30_000)}`;

const before = new Set(descendants());
const children = (): readonly number[] => descendants().filter((pid) => !before.has(pid));
const bundlers: Bundler[] = [];

afterEach(async () => {
  for (const bundler of bundlers.splice(0)) await bundler[Symbol.asyncDispose]();
  await expect.poll(children).toEqual([]);
});

function makeBundler(options: Partial<BundlerOptions> = {}): Bundler {
  const bundler = new Bundler({
    cache: createBundleCache(),
    root: REPOSITORY,
    limits: LIMITS,
    ...options,
  });
  bundlers.push(bundler);
  return bundler;
}

/** A bundler whose processes begin to build when `open` is called. */
async function makeGatedBundler(): Promise<{ readonly bundler: Bundler; readonly open: () => void }> {
  const folder = makeFolder();
  const gate = join(folder, "open");
  const { buildChildPath } = await loadSandboxArtifacts();
  const script = join(folder, "gated.cjs");
  writeFileSync(
    script,
    `const timer = setInterval(() => {
      if (!require("node:fs").existsSync(${JSON.stringify(gate)})) return;
      clearInterval(timer);
      require(${JSON.stringify(buildChildPath)});
    }, 5);`,
  );
  const processes = new BuildProcesses({ maxIdle: 1, script });
  const bundler = new Bundler({ cache: createBundleCache(), root: REPOSITORY, limits: LIMITS }, processes);
  bundlers.push(bundler);
  return { bundler, open: () => writeFileSync(gate, "") };
}

async function outcome(bundler: Bundler, source: ToolSource): Promise<[boolean, unknown]> {
  const { bundle, cached } = await bundler.bundle(source);
  return [cached, (await evaluate(bundle)).value];
}

async function untilBuilding(count: number): Promise<void> {
  while (children().length < count) await sleep(5);
}

describe("a Bundler builds once", () => {
  test("bundles a package that joins the text of a file to its folder", async () => {
    // Emscripten joins its folder to a name that may be a data: URL.
    const url = `data:application/octet-stream;base64,${"A".repeat(9_000)}`;
    const code = `exports.find = () => require("fs").existsSync(__dirname + "/" + ${JSON.stringify(url)});`;
    const root = makeFolder(packageFiles("wasm", { "index.js": code }));
    const bundler = makeBundler({ root });
    const { bundle } = await bundler.bundle({ source: 'import { find } from "wasm"; export default typeof find' });
    expect((await evaluate(bundle)).value).toBe("function");
  });

  test("the same source, and then without a process", async () => {
    const bundler = makeBundler();
    const source = { source: 'import { z } from "zod"; export default z.string().parse("x")' };
    const first = await bundler.bundle(source);
    const second = await bundler.bundle({ ...source });
    expect([first.cached, second.cached]).toEqual([false, true]);
    expect(second.bundle).toBe(first.bundle);
    expect(children()).toEqual([]);
  });

  test("builds once for another process too, from the disk", async () => {
    const directory = join(makeFolder(), "cache");
    const source = { files: { "tool.ts": 'export { default } from "./x.ts"', "x.ts": "export default 1" } };
    expect(await outcome(makeBundler({ cache: createBundleCache({ directory }) }), source)).toEqual([false, 1]);
    expect(await outcome(makeBundler({ cache: createBundleCache({ directory }) }), source)).toEqual([true, 1]);
  });

  test("builds once and lets a caller wait for the write to the disk by itself", async () => {
    const directory = join(makeFolder(), "cache");
    const source = { source: "export default 1" };
    const writes: Promise<void>[] = [];
    const onStoring = (stored: Promise<void>): void => void writes.push(stored);
    await makeBundler({ cache: createBundleCache({ directory }) }).bundle(source, { onStoring });
    expect(writes).toHaveLength(1);
    await writes[0];
    expect(await outcome(makeBundler({ cache: createBundleCache({ directory }) }), source)).toEqual([true, 1]);
  });

  test("builds a cell separately from a tool with the same text and name", async () => {
    const bundler = makeBundler();
    const source = { files: { "cell-1.js": "export default 1" }, entry: "cell-1.js" };
    expect(await outcome(bundler, source)).toEqual([false, 1]);
    const cell = await bundler.bundle(source, { cell: "javascript" });
    expect([cell.cached, (await bundler.bundle(source, { cell: "javascript" })).cached]).toEqual([false, true]);
    expect(cell.bundle.code).not.toBe((await bundler.bundle(source)).bundle.code);
  });

  test("concurrent requests for the same source", async () => {
    const bundler = makeBundler({ maxConcurrentBuilds: 1 });
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => bundler.bundle({ source: "export default 1" })));
    expect(new Set(outcomes.map(({ bundle }) => bundle)).size).toBe(1);
    expect(outcomes.every(({ cached }) => !cached)).toBe(true);
  });

  test("builds again after a cache entry was damaged", async () => {
    const directory = join(makeFolder(), "cache");
    const source = { source: "export default 1" };
    await outcome(makeBundler({ cache: createBundleCache({ directory }) }), source);
    const [entry = ""] = readdirSync(directory);
    writeFileSync(join(directory, entry), "damaged");
    expect(await outcome(makeBundler({ cache: createBundleCache({ directory }) }), source)).toEqual([false, 1]);
    expect(await outcome(makeBundler({ cache: createBundleCache({ directory }) }), source)).toEqual([true, 1]);
  });
});

describe("a Bundler with callers that abort", () => {
  test("an aborted caller does not stop the others", async () => {
    const { bundler, open } = await makeGatedBundler();
    const source = { source: "export default 1" };
    const leaving = new AbortController();
    const left = failureOf(bundler.bundle(source, { signal: leaving.signal }));
    const staying = bundler.bundle(source);
    await untilBuilding(1);
    leaving.abort();
    expect((await left).code).toBe("CANCELLED");
    open();
    expect((await staying).bundle.exports).toEqual(["default"]);
  });

  test("the last abort stops the build, and the next call starts a new one", async () => {
    const bundler = makeBundler();
    const leaving = new AbortController();
    const all = [1, 2].map(() => failureOf(bundler.bundle({ source: HANGING }, { signal: leaving.signal })));
    await untilBuilding(2);
    leaving.abort();
    expect((await Promise.all(all)).map((error) => error.code)).toEqual(["CANCELLED", "CANCELLED"]);
    await expect.poll(children).toEqual([]);
    const again = new AbortController();
    const next = failureOf(bundler.bundle({ source: HANGING }, { signal: again.signal }));
    await untilBuilding(2);
    again.abort();
    expect((await next).code).toBe("CANCELLED");
  });

  test("an aborted caller in the queue does not take a slot", async () => {
    const bundler = makeBundler({ maxConcurrentBuilds: 1 });
    const controllers = [new AbortController(), new AbortController()] as const;
    const building = failureOf(bundler.bundle({ source: HANGING }, { signal: controllers[0].signal }));
    await untilBuilding(2);
    const waiting = failureOf(bundler.bundle({ source: "export default 1" }, { signal: controllers[1].signal }));
    const next = bundler.bundle({ source: "export default 2" });
    expect(children()).toHaveLength(2);
    controllers[1].abort();
    expect((await waiting).code).toBe("CANCELLED");
    controllers[0].abort();
    expect((await building).code).toBe("CANCELLED");
    expect((await next).cached).toBe(false);
  });

  test("disposing kills builds, rejects waiting callers, and can be repeated", async () => {
    const bundler = makeBundler({ maxConcurrentBuilds: 1 });
    const waiting = [
      failureOf(bundler.bundle({ source: HANGING })),
      failureOf(bundler.bundle({ source: "export default 1" })),
    ];
    await untilBuilding(2);
    await bundler[Symbol.asyncDispose]();
    expect(children()).toEqual([]);
    expect((await Promise.all(waiting)).map((error) => error.code)).toEqual(["CANCELLED", "CANCELLED"]);
    await bundler[Symbol.asyncDispose]();
    expect((await failureOf(bundler.bundle({ source: "export default 1" }))).code).toBe("CANCELLED");
  });

  test("limits the number of concurrent builds", async () => {
    const bundler = makeBundler({ maxConcurrentBuilds: 2 });
    const builds = Array.from({ length: 6 }, (_, n) => bundler.bundle({ source: `export default ${n}` }));
    let most = 0;
    let isDone = false;
    const all = Promise.all(builds).finally(() => {
      isDone = true;
    });
    while (!isDone) {
      most = Math.max(most, children().length);
      await sleep(5);
    }
    expect((await all).length).toBe(6);
    // Each build has two processes: a child and its esbuild.
    expect(most).toBeLessThanOrEqual(4);
  });

  test("rejects unknown options", () => {
    expect(() => makeBundler({ maxConcurrentBuilds: 0 })).toThrow();
    expect(() => makeBundler({ limits: { timeoutMs: -1 } })).toThrow();
  });
});
