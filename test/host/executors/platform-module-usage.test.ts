// Platform modules used by a bundle are known to the next host with the same cache.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createBundleCache } from "../../../src/bundler/cache/bundle-cache.ts";
import { PlatformModuleUsage } from "../../../src/host/executors/platform-module-usage.ts";
import { createGlovebox } from "../../../src/host/index.ts";

const AT_TOP = "new Headers();";
const SOURCE = `${AT_TOP} export default ({ url }) => url === undefined ? "" : new URL(url).pathname;`;
const WHERE = { tenantId: "acme" };
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "glovebox-chunks-"));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

test("a tool's top level and calls record the platform modules they use for the next host", async () => {
  await using glovebox = await createGlovebox({
    cache: { directory },
    tenancy: "multi",
    limits: { timeoutMs: 60_000 },
  });
  const { bundle } = await glovebox.inspectTool({ source: SOURCE }, { scope: "global" });
  const known = (): Promise<readonly string[]> =>
    createBundleCache({ directory, memoryBytes: 0 }).getPlatformModules(bundle.sha256);
  await expect.poll(known).toEqual(expect.arrayContaining(["fetch"]));
  expect(await known()).not.toContain("url");
  await glovebox.addTool({ source: SOURCE, name: "path" }, WHERE);
  const call = (input: object) => glovebox.execute({ id: "c", toolName: "path", arguments: input }, WHERE);
  expect(await call({})).toMatchObject({ output: "" });
  expect(await call({ url: "http://a/b" })).toMatchObject({ output: "/b" });
  await expect.poll(known).toEqual(expect.arrayContaining(["fetch", "url", "url-parser"]));
});

test("PlatformModuleUsage writes new names only", async () => {
  const cache = createBundleCache();
  const touched = new PlatformModuleUsage(cache, "a".repeat(64), ["url"]);
  touched.add(["url"]);
  expect(await cache.getPlatformModules("a".repeat(64))).toEqual([]);
  touched.add(["url", "streams"]);
  expect(touched.names).toEqual(["url", "streams"]);
  expect(await cache.getPlatformModules("a".repeat(64))).toEqual(["url", "streams"]);
});
