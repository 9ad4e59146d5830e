// Tests packages of a workspace that a store links to: they are rejected unless the host names their folder.
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { Bundler } from "../../src/bundler/bundler.ts";
import { createBundleCache } from "../../src/bundler/cache/bundle-cache.ts";
import { openCode } from "../support/guest.ts";
import { buildHere, evaluate, failureOf, makeFolder, writeFiles } from "./workbench.ts";

const SOURCE = 'import { name } from "@scope/app"; export default name';

/** Creates a workspace like npm and yarn: the root's node_modules link to the folders of packages. */
function makeWorkspace() {
  const root = makeFolder({
    "node_modules/dep/package.json": '{"name":"dep","version":"1.0.0"}',
    "node_modules/dep/index.js": 'module.exports = "dep"',
    "node_modules/@scope/.keep": "",
    "packages/app/package.json": '{"name":"@scope/app","version":"2.0.0","type":"module","main":"src/index.ts"}',
    "packages/app/src/index.ts": `
      import dep from "dep"; import own from "own"; import fs from "node:fs";
      export const name: string = ["app", dep, own, fs.readFileSync(new URL("../data.txt", import.meta.url), "utf8")].join(" ");
    `,
    "packages/app/data.txt": "data",
    "packages/app/node_modules/own/package.json": '{"name":"own","version":"1.0.0"}',
    "packages/app/node_modules/own/index.js": 'module.exports = "own"',
    "packages/private/package.json": '{"name":"private","version":"1.0.0"}',
    "packages/private/index.js": 'export const name = "SECRET"',
    "outside/secret.js": 'export const name = "SECRET"',
    "tools/.keep": "",
  });
  symlinkSync(join(root, "packages/app"), join(root, "node_modules/@scope/app"));
  symlinkSync(join(root, "packages/private"), join(root, "node_modules/private"));
  return root;
}

describe("a linked package", () => {
  test("is rejected, and the message names the option", async () => {
    const root = makeWorkspace();
    const error = await failureOf(buildHere({ source: SOURCE }, { root }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toContain("bundler.linkedPackages");
    expect(JSON.stringify([error.message, error.details])).not.toContain(root);
  });

  test("is bundled from a folder that the host names, with its dependencies and data", async () => {
    const root = makeWorkspace();
    const bundle = await buildHere({ source: SOURCE }, { root, linkedPackages: [join(root, "packages")] });
    expect(bundle.packages).toEqual(["@scope/app@2.0.0", "dep@1.0.0", "own@1.0.0"]);
    expect(bundle.inputs.map(({ path }) => path)).toContain("linked_packages/app/src/index.ts");
    expect(bundle.code + bundle.sourceMap).not.toContain(root.slice(1));
    const caller = 'import { name } from "@scope/app"; export default () => name';
    const { code } = await buildHere({ source: caller }, { root, linkedPackages: [join(root, "packages")] });
    await using tool = await openCode(code);
    await tool.load();
    expect((await tool.call()).value).toBe("app dep own data");
  });

  test.for([
    ["pnpm", "node_modules/.pnpm/dep@1.0.0/node_modules/dep", "../../node_modules/.pnpm"],
    ["npm", "node_modules/dep", "../../node_modules"],
  ] as const)(
    "has its dependency in the workspace of %s, and the message names the folder to add",
    async ([, dependency, folder]) => {
      const root = makeFolder({
        [`${dependency}/package.json`]: '{"name":"dep","version":"1.0.0"}',
        [`${dependency}/index.js`]: 'module.exports = "dep"',
        "packages/lib/package.json": '{"name":"@scope/lib","version":"2.0.0","type":"module","main":"index.ts"}',
        "packages/lib/index.ts": 'import dep from "dep"; export const name: string = ["lib", dep].join(" ")',
        "packages/lib/node_modules/.keep": "",
        "apps/web/node_modules/@scope/.keep": "",
        "apps/web/package.json": '{"name":"web"}',
      });
      symlinkSync(join(root, "packages/lib"), join(root, "apps/web/node_modules/@scope/lib"));
      symlinkSync(join(root, dependency), join(root, "packages/lib/node_modules/dep"));
      const source = { source: 'import { name } from "@scope/lib"; export default name' };
      const app = join(root, "apps/web");
      const none = await failureOf(buildHere(source, { root: app }));
      expect(none.message).toContain('add the folder "../../packages/lib", relative to the folder "web",');

      const error = await failureOf(buildHere(source, { root: app, linkedPackages: [join(root, "packages")] }));
      expect(error.message).toContain(
        `add the folder "${folder}", relative to the folder "web", to bundler.linkedPackages`,
      );
      expect(JSON.stringify([error.message, error.details])).not.toContain(root);

      const linkedPackages = [join(root, "packages"), join(app, folder)];
      const bundle = await buildHere(source, { root: app, linkedPackages });
      expect(bundle.packages).toEqual(["@scope/lib@2.0.0", "dep@1.0.0"]);
      expect((await evaluate(bundle)).value).toBe("lib dep");
    },
  );

  test("a linked package in a folder beside the workspace is named without an absolute path", async () => {
    const root = makeWorkspace();
    const other = makeFolder({ "package.json": '{"name":"other"}', "index.js": 'export const name = "other"' });
    symlinkSync(other, join(root, "node_modules/other"));
    const error = await failureOf(buildHere({ source: 'export { name as default } from "other"' }, { root }));
    expect(JSON.stringify([error.message, error.details])).not.toContain(other);
  });

  test("may be the folder itself", async () => {
    const root = makeWorkspace();
    writeFiles(root, { "packages/app/src/index.ts": 'export const name = "app"' });
    const bundle = await buildHere({ source: SOURCE }, { root, linkedPackages: [join(root, "packages/app")] });
    expect((await evaluate(bundle)).value).toBe("app");
    expect(bundle.packages).toEqual(["@scope/app@2.0.0"]);
  });

  test("is rejected from any other folder", async () => {
    const root = makeWorkspace();
    const options = { root, linkedPackages: [join(root, "packages/app")] };
    const error = await failureOf(buildHere({ source: 'export { name as default } from "private"' }, options));
    expect(error.message).toContain("bundler.linkedPackages");
    expect(JSON.stringify(error.details)).not.toContain("SECRET");
  });

  test.for([
    [
      "a link in it",
      (app: string, root: string) => symlinkSync(join(root, "outside/secret.js"), join(app, "src/leak.js")),
      "./leak.js",
    ],
    ["a relative path", () => {}, "../../../outside/secret.js"],
    ["a sibling package", () => {}, "../../private/index.js"],
  ] as const)("cannot leave its folder by %s", async ([, prepare, path]) => {
    const root = makeWorkspace();
    const app = join(root, "packages/app");
    prepare(app, root);
    writeFiles(root, { "packages/app/src/index.ts": `export { name } from ${JSON.stringify(path)}` });
    const error = await failureOf(buildHere({ source: SOURCE }, { root, linkedPackages: [app] }));
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(JSON.stringify([error.message, error.details])).not.toContain("SECRET");
  });

  test("cannot be imported by a path of the tool", async () => {
    const root = makeWorkspace();
    writeFiles(root, { "tools/tool.ts": 'export { name as default } from "../packages/private/index.js"' });
    const options = { root, linkedPackages: [join(root, "packages")] };
    const error = await failureOf(buildHere({ path: join(root, "tools") }, options));
    expect(error.message).not.toContain("SECRET");
  });

  test.for([
    ["that does not exist", (root: string) => join(root, "nowhere"), "does not exist"],
    ["that is a file", (root: string) => join(root, "outside/secret.js"), "does not exist"],
    ["that is the root of the file system", () => "/", "cannot name the root of the file system"],
  ] as const)("a folder %s fails the build", async ([, folder, message]) => {
    const root = makeWorkspace();
    const error = await failureOf(buildHere({ source: "export default 1" }, { root, linkedPackages: [folder(root)] }));
    expect(error.message).toContain(message);
  });

  test("is rebuilt when it or the list of folders changes", async () => {
    const root = makeWorkspace();
    writeFiles(root, { "packages/app/src/index.ts": 'export const name = "one"' });
    const cache = createBundleCache();
    await using open = new Bundler({ cache, root, linkedPackages: [join(root, "packages")] });
    await using closed = new Bundler({ cache, root });
    const first = await open.bundle({ source: SOURCE });
    expect((await open.bundle({ source: SOURCE })).cached).toBe(true);
    await expect(closed.bundle({ source: SOURCE })).rejects.toMatchObject({ code: "BUNDLE_FAILED" });
    writeFileSync(join(root, "packages/app/src/index.ts"), 'export const name = "another"');
    const second = await open.bundle({ source: SOURCE });
    expect([second.cached, second.bundle.sha256 === first.bundle.sha256]).toEqual([false, false]);
  });
});
