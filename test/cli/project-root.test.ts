// Tests where commands look for the packages of a tool.
import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { enterFolder, runInProcess } from "../support/cli-in-process.ts";

/** A monorepo: a package in the outer node_modules, and a tool deep in a workspace. */
async function enterProject(): Promise<string> {
  const { folder, leave } = await enterFolder({
    "package.json": '{ "private": true, "workspaces": ["apps/*"] }',
    "alone.mjs": 'export default () => "needs no package";',
  });
  onTestFinished(leave);
  await mkdir(join(folder, "node_modules", "hoisted"), { recursive: true });
  await writeFile(join(folder, "node_modules", "hoisted", "package.json"), '{ "name": "hoisted", "main": "index.js" }');
  await writeFile(join(folder, "node_modules", "hoisted", "index.js"), 'module.exports = "from the project";');
  const tools = join(folder, "apps", "web", "src", "tools");
  await mkdir(tools, { recursive: true });
  await writeFile(join(folder, "apps", "web", "package.json"), '{ "name": "web" }');
  await writeFile(join(tools, "tool.ts"), 'import text from "hoisted"; export default () => text;');
  return folder;
}

test.for([
  ["the tool's own folder", "apps/web/src/tools", "tool.ts"],
  ["a folder next to it", "apps/web", "src/tools/tool.ts"],
  ["the project's folder", ".", "apps/web/src/tools/tool.ts"],
  ["a folder without packages", "..", undefined],
])("a command finds them from %s", async ([, folder = "", path]) => {
  const project = await enterProject();
  process.chdir(join(project, folder));
  const tool = path ?? join(project, "apps/web/src/tools/tool.ts");
  expect(await runInProcess(["run", tool])).toMatchObject({ code: 0, stdout: '"from the project"\n' });
});

test("a package of the workspace is imported from a folder that --linked-package names", async () => {
  const project = await enterProject();
  const shared = join(project, "packages", "shared");
  await mkdir(shared, { recursive: true });
  await writeFile(join(shared, "package.json"), '{ "name": "shared", "type": "module", "main": "index.ts" }');
  await writeFile(join(shared, "index.ts"), 'export const text: string = "from the workspace";');
  await symlink(shared, join(project, "node_modules", "shared"));
  await writeFile(join(project, "linked.ts"), 'import { text } from "shared"; export default () => text;');
  const rejected = await runInProcess(["run", "linked.ts"]);
  expect(rejected).toMatchObject({ code: 2, stderr: expect.stringContaining("--linked-package FOLDER") });
  const option = ["--linked-package", "packages"];
  const stdout = '"from the workspace"\n';
  expect(await runInProcess(["run", "linked.ts", ...option])).toMatchObject({ code: 0, stdout });
  for (const command of ["types", "inspect"]) {
    expect(await runInProcess([command, "linked.ts"])).toMatchObject({ code: 2 });
    expect(await runInProcess([command, "linked.ts", ...option])).toMatchObject({ code: 0, stderr: "" });
  }
  expect(await runInProcess(["run", "linked.ts", "--linked-package", "package.json"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("--linked-package: expected a folder, got package.json"),
  });
});

test("a tool of no project needs none", async () => {
  const { leave } = await enterFolder({ "alone.mjs": 'export default () => "done";' });
  onTestFinished(leave);
  expect(await runInProcess(["run", "alone.mjs"])).toMatchObject({ code: 0, stdout: '"done"\n' });
});

test("serves tools of two projects, each with the packages next to it", async () => {
  const project = await enterProject();
  const other = await enterFolder({ "other.mjs": 'export default () => "other";' });
  onTestFinished(other.leave);
  const types = await runInProcess(["types", join(project, "alone.mjs"), "other.mjs"]);
  expect(types).toMatchObject({ code: 0, stderr: "" });
  expect(types.stdout).toContain("alone(");
  expect(types.stdout).toContain("other(");
});
