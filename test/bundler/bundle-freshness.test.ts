// Tests which changes make a cached bundle stale: files that changed, appeared, or were replaced by identical ones.
import { cpSync, renameSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Bundler, type BundlerOptions } from "../../src/bundler/bundler.ts";
import { createBundleCache } from "../../src/bundler/cache/bundle-cache.ts";
import type { ToolSource } from "../../src/bundler/tool-bundle.ts";
import { evaluate, failureOf, makeFolder, packageFiles, REPOSITORY, writeFiles } from "./workbench.ts";

function makeBundler(options: Partial<BundlerOptions> = {}): Bundler {
  return new Bundler({ cache: createBundleCache(), root: REPOSITORY, limits: { timeoutMs: 200_000 }, ...options });
}

async function outcome(bundler: Bundler, source: ToolSource): Promise<[boolean, unknown]> {
  const { bundle, cached } = await bundler.bundle(source);
  return [cached, (await evaluate(bundle)).value];
}

describe("a Bundler rebuilds when", () => {
  const changes: readonly (readonly [string, (root: string) => void, boolean, unknown])[] = [
    ["nothing changed: no rebuild", () => undefined, true, ["entry", "lib", "pkg"]],
    [
      "an own file changed",
      (root) => writeFiles(root, { "tool/lib/x.ts": 'export default "new"' }),
      false,
      ["entry", "new", "pkg"],
    ],
    [
      "an own file changed, size and times kept",
      (root) => {
        const path = join(root, "tool/lib/x.ts");
        const { atime, mtime } = statSync(path);
        writeFileSync(path, 'export default "LIB"');
        utimesSync(path, atime, mtime);
      },
      false,
      ["entry", "LIB", "pkg"],
    ],
    [
      "an own file was written with the same text: no rebuild",
      (root) => writeFiles(root, { "tool/lib/x.ts": 'export default "lib"' }),
      true,
      ["entry", "lib", "pkg"],
    ],
    [
      "an own file appears that an import would prefer",
      (root) => writeFiles(root, { "tool/lib.ts": 'export default "nearer"' }),
      false,
      ["entry", "nearer", "pkg"],
    ],
    [
      "a better entry appears",
      (root) => writeFiles(root, { "tool/tool.ts": 'export default ["tool.ts"]' }),
      false,
      ["tool.ts"],
    ],
    [
      "a package's file changed",
      (root) => writeFiles(root, packageFiles("pkg", { "index.js": 'export default "new"' })),
      false,
      ["entry", "lib", "new"],
    ],
    [
      "a package's file changed, size and times kept as npm does",
      (root) => {
        const path = join(root, "node_modules/pkg/index.js");
        const { atime, mtime } = statSync(path);
        writeFileSync(path, 'export default "PKG"');
        utimesSync(path, atime, mtime);
      },
      false,
      ["entry", "lib", "PKG"],
    ],
    [
      "a package's package.json changed",
      (root) => writeFiles(root, packageFiles("pkg", { "other.js": 'export default "other"' }, { main: "other.js" })),
      false,
      ["entry", "lib", "other"],
    ],
    [
      "a package was reinstalled with the same text: no rebuild",
      (root) => {
        cpSync(join(root, "node_modules"), join(root, "copy"), { recursive: true });
        rmSync(join(root, "node_modules"), { recursive: true });
        renameSync(join(root, "copy"), join(root, "node_modules"));
      },
      true,
      ["entry", "lib", "pkg"],
    ],
    [
      "a nearer store appears",
      (root) => writeFiles(join(root, "tool"), packageFiles("pkg", { "index.js": 'export default "nearer"' })),
      false,
      ["entry", "lib", "nearer"],
    ],
    [
      "a package's dependency is shadowed",
      (root) => {
        writeFiles(root, packageFiles("dep", { "index.js": 'export default "far"' }));
        writeFiles(join(root, "node_modules/pkg"), packageFiles("dep", { "index.js": 'export default "pkg"' }));
      },
      false,
      ["entry", "lib", "pkg"],
    ],
  ];

  test.concurrent.for(changes)("%s", async ([, change, cached, value]) => {
    const root = makeFolder({
      "tool/index.ts": 'import x from "./lib"; import p from "pkg"; export default ["entry", x, p]',
      "tool/lib/index.ts": 'export { default } from "./x.ts"',
      "tool/lib/x.ts": 'export default "lib"',
      ...packageFiles("pkg", { "index.js": 'export default "pkg"' }),
    });
    // npm sets the same old time for each file of a package.
    utimesSync(join(root, "node_modules/pkg/index.js"), 499_162_500, 499_162_500);
    const bundler = makeBundler({ root });
    expect(await outcome(bundler, { path: join(root, "tool") })).toEqual([false, ["entry", "lib", "pkg"]]);
    change(root);
    expect(await outcome(bundler, { path: join(root, "tool") })).toEqual([cached, value]);
  });

  test.for<[string, Partial<BundlerOptions>]>([
    ["the allow list", { allowPackages: ["zod"] }],
    ["a limit", { limits: { sourceBytes: 1_000 } }],
    ["the store", { packagesDir: join(REPOSITORY, "node_modules") }],
  ])("%s is another", async ([, options]) => {
    const cache = createBundleCache();
    const root = makeFolder(packageFiles("zod", { "index.js": "export const z = 0" }));
    const source = { source: 'export { z as default } from "zod"' };
    expect((await makeBundler({ cache, root }).bundle(source)).cached).toBe(false);
    expect((await makeBundler({ cache, root, ...options }).bundle(source)).cached).toBe(false);
  });

  test("the previous build failed", async () => {
    const root = makeFolder({ "tool.ts": 'export { default } from "./x.ts"' });
    const bundler = makeBundler({ root });
    expect((await failureOf(bundler.bundle({ path: root }))).code).toBe("BUNDLE_FAILED");
    writeFiles(root, { "x.ts": "export default 1" });
    expect(await outcome(bundler, { path: root })).toEqual([false, 1]);
  });

  test("a file became a link that leads out of the tool", async () => {
    const root = makeFolder({
      "tool/tool.ts": 'export { default } from "./x.ts"',
      "tool/x.ts": "export default 1",
      "x.ts": "export default 1",
    });
    const bundler = makeBundler({ root });
    await bundler.bundle({ path: join(root, "tool") });
    rmSync(join(root, "tool/x.ts"));
    symlinkSync(join(root, "x.ts"), join(root, "tool/x.ts"));
    expect((await failureOf(bundler.bundle({ path: join(root, "tool") }))).message).toContain("a link leads out");
  });
});
