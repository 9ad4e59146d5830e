// glovebox test and glovebox/testing as a tool's author uses them: a separate project, with its own vitest or without.
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { openTool, stubCapability, undescribed } from "../../src/host/testing/index.ts";
import { runInProcess } from "../support/cli-in-process.ts";
import { CliProcess } from "../support/cli-process.ts";

const root = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

let folder = "";
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-author-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
});

/** The installed packages, and the location of the package's exports in this checkout. */
async function installVitest(): Promise<void> {
  await mkdir(join(folder, "node_modules"));
  await symlink(root("node_modules/vitest"), join(folder, "node_modules", "vitest"));
  const alias = JSON.stringify({ "glovebox/testing": root("src/host/testing/index.ts") });
  await writeFile(join(folder, "vitest.config.mjs"), `export default { resolve: { alias: ${alias} } };`);
}

async function glovebox(...args: string[]): Promise<{ code: number | null; said: string }> {
  await using cli = new CliProcess(args, folder);
  const code = await cli.exit;
  return { code, said: cli.stdout + cli.stderr };
}

describe("glovebox test", () => {
  test("runs the tests of a tool that init has written, and tells of one that fails", async () => {
    await installVitest();
    expect((await glovebox("init", "word-count")).said).toContain("glovebox test word-count");
    // The tutorial shows what a reader gets.
    const tutorial = await readFile(new URL("../../docs/tutorials/first-tool.md", import.meta.url), "utf8");
    expect(tutorial).toContain(await readFile(join(folder, "word-count", "tool.ts"), "utf8"));
    const shown = [
      await glovebox("run", "word-count", "--input-file", "word-count/example.json"),
      await glovebox("run", "word-count", "--input", '{"text":"a b","top":0}'),
    ];
    for (const line of shown.flatMap(({ said }) => said.trim().split("\n"))) expect(tutorial).toContain(line);
    const passed = await glovebox("test", "word-count");
    expect(passed.said).toMatch(/2 passed/);
    expect(passed.code).toBe(0);
    await writeFile(join(folder, "word-count", "tool.ts"), 'export default () => { throw new Error("broken"); };');
    const failed = await glovebox("test", "word-count/tool.ts");
    expect(failed.said).toMatch(/TOOL_FAILED: broken/);
    expect(failed.code).toBe(1);
  });

  test.for([
    [
      "where vitest is not installed",
      ["test"],
      { "tool.test.ts": "" },
      /vitest, which is not installed here\. Run npm install --save-dev vitest/,
    ],
    [
      "where there are no tests",
      ["test"],
      { "tool.ts": "" },
      /\. has no tests\. Expected a file such as tool\.test\.ts/,
    ],
    ["where there is nothing", ["test", "gone"], {}, /There is no file or folder "gone"/],
    ["of two paths", ["test", "a", "b"], {}, /Expected one PATH, also got "b"/],
  ] as const)("is rejected %s", async ([, args, files, message]) => {
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
    const here = process.cwd();
    process.chdir(folder);
    onTestFinished(() => process.chdir(here));
    const { code, stderr } = await runInProcess(args);
    expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
  });
});

describe("openTool()", () => {
  test("grants stubs of capabilities, and records their calls", async () => {
    await writeFile(
      join(folder, "price.ts"),
      `export const capabilities = { lookUp: true };
      export default async ({ sku }, ctx) => {
        if (sku === "none") throw new Error("no such " + sku);
        return { price: (await ctx.lookUp({ sku })).price, tenant: ctx.tenantId };
      };`,
    );
    const lookUp = stubCapability("lookUp", (input) => ({ price: (input as { sku: string }).sku.length }));
    await using tool = await openTool(join(folder, "price.ts"), { capabilities: [lookUp] });
    expect(tool.definition).toMatchObject({ name: "price" });
    expect(await tool.output({ sku: "A1" })).toEqual({ price: 2, tenant: "default" });
    expect(await tool.output({ sku: "B22" }, { executionId: "e1" })).toEqual({ price: 3, tenant: "default" });
    expect(lookUp.inputs).toEqual([{ sku: "A1" }, { sku: "B22" }]);
    expect(await tool.failure({ sku: "none" })).toMatch(/^TOOL_FAILED: no such none [\s\S]*price\.ts:3:\d+/);
    await expect(tool.output({ sku: "none" })).rejects.toThrow("TOOL_FAILED: no such none");
    await expect(tool.failure({ sku: "A1" })).rejects.toThrow('Expected a failure, got {"price":2');
    expect(await tool.call({ sku: "A1" })).toMatchObject({ success: true, callId: "call-6" });
  });

  test("takes a URL, and what a host states", async () => {
    await writeFile(join(folder, "waits.ts"), "export default () => new Promise(() => {});");
    const url = new URL(`file://${folder}/waits.ts`);
    await using tool = await openTool(url, {
      host: { limits: { timeoutMs: 4_000 } },
      overrides: { description: "waits" },
    });
    expect(tool.definition.description).toBe("waits");
    expect(await tool.failure()).toMatch(/^TOOL_TIMEOUT: .* 4000 ms/);
  });

  test("leaves nothing behind when the tool cannot be built", async () => {
    await writeFile(join(folder, "broken.ts"), "export default () => {");
    await expect(openTool(join(folder, "broken.ts"))).rejects.toThrow(/broken\.ts:1/);
  });
});

test("undescribed() names the properties that a model would have to guess", () => {
  const schema = {
    properties: { a: { description: "said" }, b: { items: { properties: { c: {} } } } },
    anyOf: [{ properties: { d: {} } }],
  };
  expect(undescribed(schema)).toEqual([".d", ".b", ".b[].c"]);
});
