// glovebox dev from the user's side: a real process that watches real files, which the test changes.
import { writeFileSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { runInProcess } from "../support/cli-in-process.ts";
import { CliProcess } from "../support/cli-process.ts";
import { treeOf } from "../support/process-tree.ts";
import { expectDead } from "../support/processes.ts";

/** Writes a file without a pause in which the command could see it empty. */
const write = (path: string, text: string): void => writeFileSync(path, text);

async function makeFolder(files: { readonly [name: string]: string }): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-dev-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) write(join(folder, name), text);
  return folder;
}

test("glovebox dev runs again on each change of tool, import and input, and shows what fails", async () => {
  const folder = await makeFolder({
    "tool.ts":
      'import { by } from "./by.ts";\nexport default ({ n }: { n: number }) => { console.log("at work"); return n * by; };',
    "by.ts": "export const by = 2;",
    "input.json": '{"n":21}',
  });
  await using dev = new CliProcess(["dev", "tool.ts", "--input-file", "input.json", "--log-source-locations"], folder);

  await dev.says("stdout", /^42\n/);
  await dev.says(
    "stderr",
    /info {2}tool\.ts:2:\d+ at work\n[\s\S]*bundle \d.* ms, start .* ms, execute .* ms\nWaiting for changes\n/,
  );

  write(join(folder, "by.ts"), "export const by = 3;");
  await dev.says("stdout", /^63\n/);
  await dev.says("stderr", /Waiting for changes\n/);

  write(join(folder, "input.json"), '{"n":100}');
  await dev.says("stdout", /^300\n/);
  await dev.says("stderr", /Waiting for changes\n/);

  // A syntax error in between is shown, and lived with.
  write(join(folder, "by.ts"), "export const by = ;");
  await dev.says(
    "stderr",
    /BUNDLE_FAILED: by\.ts:1:19[\s\S]*> 1 \| export const by = ;\n[ |]*\^[\s\S]*Waiting for changes\n/,
  );
  // Saves like an editor: writes a new file next to the old one and renames it.
  write(join(folder, "by.ts~"), "export const by = 5;");
  await rename(join(folder, "by.ts~"), join(folder, "by.ts"));
  await dev.says("stdout", /^500\n/);
  await dev.says("stderr", /Waiting for changes\n/);

  write(join(folder, "input.json"), '{"n":');
  await dev.says("stderr", /input\.json is not JSON[\s\S]*Waiting for changes\n/);
  write(join(folder, "input.json"), '{"n":1}');
  await dev.says("stdout", /^5\n/);

  write(join(folder, "tool.ts"), 'export default () => {\n  throw new Error("not today");\n};');
  await dev.says(
    "stderr",
    /TOOL_FAILED: not today[\s\S]*> 2 \| {3}throw new Error[\s\S]*at default \(tool\.ts:2:9\)[\s\S]*Waiting for changes\n/,
  );

  const processes = treeOf(dev.pid);
  dev.signal("SIGINT");
  expect(await dev.exit).toBe(0);
  await expectDead(processes);
  expect(dev.stdout).toBe("");
});

test("glovebox dev begins with a tool that cannot be built, and ends while one runs", async () => {
  const folder = await makeFolder({ "tool.ts": 'import { x } from "./late.ts";\nexport default () => x;' });
  await using dev = new CliProcess(["dev", ".", "--timeout-ms", "300000"], folder);
  await dev.says("stderr", /BUNDLE_FAILED: [\s\S]*late\.ts[\s\S]*Waiting for changes\n/);
  write(join(folder, "late.ts"), 'export const x = "there now";');
  await dev.says("stdout", /^"there now"\n/);

  write(join(folder, "late.ts"), 'console.log("loaded");\nexport const x = "next";');
  await dev.says("stdout", /^"next"\n/);
  await dev.says("stderr", /Waiting for changes\n/);
  write(join(folder, "tool.ts"), 'export default () => { console.log("spinning"); for (;;); };');
  await dev.says("stderr", /spinning\n/);
  // A running call is stopped if its file has changed.
  write(join(folder, "tool.ts"), 'export default () => { console.log("spinning again"); for (;;); };');
  await dev.says("stderr", /spinning again\n/);

  const processes = treeOf(dev.pid);
  dev.signal("SIGTERM");
  expect(await dev.exit).toBe(0);
  await expectDead(processes);
});

test("glovebox dev runs once for a change that stops a running call", async () => {
  const folder = await makeFolder({ "tool.ts": 'export default () => { console.log("spinning"); for (;;); };' });
  await using dev = new CliProcess(["dev", "tool.ts", "--timeout-ms", "300000"], folder);
  await dev.says("stderr", /spinning\n/);
  // Waits for longer than several polls of the files.
  const waits = 'console.log("started");\n  await new Promise((done) => setTimeout(done, 2_000));';
  write(join(folder, "tool.ts"), `export default async () => {\n  ${waits}\n  return "done";\n};`);
  await dev.says("stdout", /^"done"\n/);
  const [, output = ""] = await dev.says("stderr", /^([\s\S]*)Waiting for changes\n/);
  expect(output.match(/started/g)).toHaveLength(1);
});

test("glovebox dev reports a tool that was deleted while it watches, and runs it when it is there again", async () => {
  const folder = await makeFolder({ "input.json": "{}" });
  const tool = join(folder, "tool");
  const writeTool = async (source: string): Promise<void> => {
    await mkdir(tool, { recursive: true });
    write(join(tool, "tool.ts"), source);
  };
  await writeTool("export default () => 1;");
  await using dev = new CliProcess(["dev", "tool", "--input-file", "input.json", "--inspect=0"], folder);
  await dev.says("stdout", /^1\n/);
  await dev.says("stderr", /Waiting for changes\n/);
  await rm(tool, { recursive: true });
  await dev.says("stderr", /BUNDLE_FAILED: There is no file or folder "tool"\n[\s\S]*Waiting for changes\n/);
  await writeTool("export default () => 2;");
  await dev.says("stdout", /^2\n/);
  await dev.says("stderr", /Waiting for changes\n/);
  await rm(join(folder, "input.json"));
  await dev.says("stderr", /--input-file input\.json: there is no such file\n[\s\S]*Waiting for changes\n/);
  await mkdir(join(folder, "input.json"));
  await dev.says("stderr", /--input-file input\.json: it is a folder\n[\s\S]*Waiting for changes\n/);
  await rm(tool, { recursive: true });
  write(tool, "no folder any more");
  await dev.says("stderr", /BUNDLE_FAILED: [\s\S]*Waiting for changes\n/);
  await rm(folder, { recursive: true });
  await dev.says("stderr", /BUNDLE_FAILED: [\s\S]*Waiting for changes\n/);
  expect(dev.stderr).not.toMatch(/^ {4}at |node:internal/m);
  dev.signal("SIGINT");
  expect(await dev.exit).toBe(0);
});

test.for([
  [["dev"], /Expected PATH of a tool, got nothing/],
  [
    ["dev", "tool.ts", "--input", "{}", "--input-file", "x.json"],
    /Expected one of --input, --input-file and -, got several/,
  ],
  [["dev", "tool.ts", "--timeout-ms", "soon"], /--timeout-ms: expected a whole number/],
] as const)("glovebox %j is rejected with code 2", async ([args, message]) => {
  const { code, stderr } = await runInProcess(args);
  expect([code, stderr]).toEqual([2, expect.stringMatching(message)]);
});
