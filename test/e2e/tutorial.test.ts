// The tutorial about the server, as its readers follow it: each of its shell blocks runs in an empty folder, in order.
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cliEnvironment, MAIN, NodeProcess } from "../support/cli-process.ts";
import { PATIENT_LIMITS } from "../support/patient-limits.ts";

const TUTORIAL = readFileSync(fileURLToPath(new URL("../../docs/tutorials/host-tools.md", import.meta.url)), "utf8");
/** The address in the tutorial. A test uses a free port. */
const SHOWN_URL = "http://127.0.0.1:7070";

const escapePattern = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");
const blocksOf = (language: string): readonly string[] =>
  [...TUTORIAL.matchAll(new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, "gm"))].map(([, text = ""]) => text);

interface End {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

let folder: string;
let server: NodeProcess | undefined;
let url = "";
const env = (): NodeJS.ProcessEnv => ({ ...cliEnvironment(folder), PATH: process.env.PATH });

/** Runs a block in the folder; it ends at its first command that fails. */
const run = async (block: string): Promise<End> =>
  await new Promise((resolve) => {
    const text = block.replaceAll(SHOWN_URL, url);
    const child = execFile(
      "bash",
      ["--norc", "-eo", "pipefail", "-c", text],
      { cwd: folder, env: env() },
      (error, stdout, stderr) => resolve({ code: error === null ? 0 : Number(error.code ?? -1), stdout, stderr }),
    );
    child.stdin?.end();
  });

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "glovebox-tutorial-"));
});
afterAll(async () => {
  await server?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test("the server starts and prints what the tutorial shows", async () => {
  const [session = ""] = blocksOf("console");
  const lines = session.trimEnd().split("\n");
  const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  expect(commands).toEqual(["npm init -y && npm install glovebox", "npx glovebox serve"]);
  // What an installation does, with this checkout in place of the published package.
  expect((await run("npm init -y")).code).toBe(0);
  const bin = join(folder, "node_modules", ".bin");
  mkdirSync(bin, { recursive: true });
  writeFileSync(join(bin, "glovebox"), `#!/bin/sh\nexec ${process.execPath} ${MAIN} "$@"\n`, { mode: 0o755 });

  // The limits of its calls are not what the tutorial is about.
  writeFileSync(join(folder, "patient.mjs"), `export default { limits: ${JSON.stringify(PATIENT_LIMITS)} };`);
  server = new NodeProcess([MAIN, "serve", "--port", "0", "--config", "patient.mjs"], { cwd: folder, env: env() });
  const output = lines.slice(lines.indexOf("$ npx glovebox serve") + 1);
  expect(output).toHaveLength(4);
  for (const line of output) {
    const pattern = escapePattern(line).replace("gbx_…", "(gbx_\\S+)").replace("7070", "(\\d+)");
    const [, found = ""] = await server.says("stdout", new RegExp(`^${pattern}$`, "m"));
    // "Save the admin key in a file, key.txt"
    if (found.startsWith("gbx_")) writeFileSync(join(folder, "key.txt"), `${found}\n`, { mode: 0o600 });
    else url = `http://127.0.0.1:${found}`;
  }
  expect(TUTORIAL).toContain("Save the admin key in a file, `key.txt`");
});

/** What each block does, in the order of the tutorial: a block that is added needs a line here. */
const EXPECTED: readonly ((end: End) => Promise<void> | void)[] = [
  ({ stdout }) => expect(stdout).toContain('"id":"acme"'),
  async ({ stdout }) => {
    expect(stdout).toContain("Hello, Ada");
    expect(stdout).toContain("greeting");
  },
  async () => {
    const again = await run(`npx glovebox call my-tool --tenant acme --input '{"name":"Ada"}'`);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining("Hello, Ada") });
    const { stdout } = await run("npx glovebox tools --tenant acme");
    expect(JSON.parse(stdout)).toEqual([{ name: "my-tool", versions: 2, latestVersion: 2 }]);
  },
  ({ stdout, stderr }) => {
    expect(stderr).toMatch(/tool\.ts:\d+:\d+: /);
    expect(stdout).toContain("Hello, Grace");
  },
  async ({ stdout }) => {
    expect(JSON.parse(stdout)).toHaveProperty("receipt");
    expect((await run("npx glovebox tools --tenant acme")).stderr).toContain("NOT_FOUND");
  },
];

test("each shell block does what the tutorial says", async () => {
  const blocks = blocksOf("sh");
  expect(blocks).toHaveLength(EXPECTED.length);
  for (const [index, block] of blocks.entries()) {
    const end = await run(block);
    expect(end, block).toMatchObject({ code: 0 });
    await EXPECTED[index]?.(end);
  }
});
