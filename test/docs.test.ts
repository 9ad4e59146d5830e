// Runs every TypeScript example of README.md, docs/ and the public doc comments, and checks that the files which documents name exist.
import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ERROR_CODES, type ErrorCode, ToolError } from "../src/sandbox/contract/errors.ts";
import { toErrorResponse } from "../src/server/http/error-response.ts";
import { REQUEST_ERRORS, RequestError, type RequestErrorCode } from "../src/server/http/request-error.ts";
import { ErrorSchema } from "../src/server/http/schemas/common.ts";
import { cliEnvironment } from "./support/cli-process.ts";
import { type CodeBlock, DOCUMENTS, ENTRIES, listCodeBlocks, ROOT, read } from "./support/documentation.ts";
import { keepInterpreter, useKnownInterpreter } from "./support/interpreter-cache.ts";
import { type OpenAIServer, startOpenAIServer } from "./support/openai-server.ts";

interface Example extends CodeBlock {
  /** Lines that the example claims to print. */
  readonly prints: readonly string[];
}

const EXAMPLES: readonly Example[] = listCodeBlocks("ts").map((block) => ({
  ...block,
  prints: [...block.code.matchAll(/console\.log\(.*\); \/\/ (.+)$/gm)].map(([, output = ""]) => output),
}));

/** What OpenAI says to the one example that asks it. */
const MODEL = [
  [{ type: "call", id: "call_1", name: "sum", arguments: { numbers: [19, 23] } }],
  [{ type: "text", text: "19 + 23 is 42." }],
] as const;

/** More than all of them take together on a busy machine. Then the program is ended, and the examples that it has not run fail. */
const PATIENCE_MS = 800_000;
const MARK = "----- example ";

/** A program that runs the examples one after the other, and says on both streams which one comes. */
function toProgram(files: readonly string[]): string {
  return `for (const [index, file] of ${JSON.stringify(files)}.entries()) {
    console.log(${JSON.stringify(MARK)} + index);
    console.error(${JSON.stringify(MARK)} + index);
    await import(file).catch((error) => console.error(error));
  }`;
}

/** Returns the output of each example, which follows its mark. */
const toParts = (printed: string): readonly string[] => printed.split(new RegExp(`^${MARK}\\d+\n`, "m")).slice(1);

interface End {
  readonly code: number | null;
  readonly stdout: readonly string[];
  readonly stderr: readonly string[];
}

let folder = "";
const cacheOfInterpreter = (): string => join(folder, ".cache", "glovebox");
let openai: OpenAIServer;
let end: End;

/** Gives the calls of an example a minute, because a busy machine can need more than the few seconds that it states, or the default of 5 s. */
const patiently = (source: string): string =>
  source.includes("limits")
    ? source
        .replaceAll(/(?<=limits: \{ timeoutMs: )[\d_]+/g, "60_000")
        .replaceAll(/limits: \{(?![^}]*timeoutMs)/g, "limits: { timeoutMs: 60_000,")
    : source
        .replaceAll("createGlovebox()", "createGlovebox({ limits: { timeoutMs: 60_000 } })")
        .replaceAll("createGlovebox({ ", "createGlovebox({ limits: { timeoutMs: 60_000 }, ")
        .replaceAll("createGlovebox({\n", "createGlovebox({ limits: { timeoutMs: 60_000 },\n")
        .replaceAll("createServer({ ", "createServer({ limits: { timeoutMs: 60_000 }, ");

/** Starts no process of a tool before it is needed. An example has few calls, and a process takes 0.3 s of CPU time. */
const frugally = (source: string): string =>
  source.includes("workers: {")
    ? source
    : source.replaceAll(/createGlovebox\(\{(?=\s)/g, "createGlovebox({ workers: { warmProcesses: 0 },");

async function runAll(): Promise<End> {
  const files: string[] = [];
  for (const [index, { code }] of EXAMPLES.entries()) {
    let source = frugally(patiently(code));
    for (const [specifier, path] of ENTRIES) {
      const url = JSON.stringify(pathToFileURL(join(ROOT, path)).href);
      source = source.replaceAll(`from "${specifier}"`, `from ${url}`);
    }
    const file = join(folder, `example-${index}.mts`);
    await writeFile(file, source);
    files.push(pathToFileURL(file).href);
  }
  const program = join(folder, "all.mts");
  await writeFile(program, toProgram(files));
  const env = { ...cliEnvironment(folder), OPENAI_BASE_URL: openai.baseURL, OPENAI_API_KEY: "none" };
  const child = spawn(process.execPath, [program], { cwd: ROOT, env, timeout: PATIENCE_MS });
  const exit = new Promise<number | null>((resolve) => child.on("exit", resolve));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  return { code, stdout: toParts(stdout), stderr: toParts(stderr) };
}

beforeAll(async () => {
  openai = await startOpenAIServer(...MODEL);
  // Inside the repository, so that the packages which the examples import are found.
  folder = await mkdtemp(join(ROOT, "test", ".docs-"));
  useKnownInterpreter(cacheOfInterpreter());
  end = await runAll();
}, PATIENCE_MS + 60_000);
afterAll(async () => {
  await openai[Symbol.asyncDispose]();
  keepInterpreter(cacheOfInterpreter());
  await rm(folder, { recursive: true, force: true });
});

describe("an example in the documents", () => {
  test("there are some", () => expect(EXAMPLES.length).toBeGreaterThanOrEqual(5));

  test("leaves nothing behind that keeps its process alive", () => expect(end.code).toBe(0));

  test.for(EXAMPLES.map(({ name, prints }, index) => [name, index, prints] as const))(
    "%s runs",
    ([, index, prints]) => {
      expect(end.stderr[index]).toBe("");
      expect(end.stdout[index]?.split("\n")).toEqual(expect.arrayContaining([...prints]));
    },
  );
});

describe("the reference", () => {
  test.for(Object.keys(ERROR_CODES) as ErrorCode[])("has a page for %s, whose path its errors carry", (code) => {
    const page = read(new ToolError(code, "").toData("tool").docs);
    const headings = [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual([code, "Causes", "What to do", "Example"]);
    expect(page).toMatch(/```ts\n/);
  });
});

describe("the reference of the server", () => {
  test.for(Object.keys(REQUEST_ERRORS) as RequestErrorCode[])(
    "has a page for %s, whose path responses carry",
    (code) => {
      const { status, body } = toErrorResponse(new RequestError(code, ""), "request_1");
      const page = read(body.error.docs);
      const headings = [...page.matchAll(/^#+ (.+)$/gm)].map(([, heading]) => heading);
      expect(headings).toEqual([code, "Causes", "What to do", "Example"]);
      expect(page).toContain(`status ${status}.`);
      const [, example = ""] = /```json\n([\s\S]*?)```/.exec(page) ?? [];
      expect(ErrorSchema.parse(JSON.parse(example)).error).toMatchObject({ code, docs: body.error.docs });
    },
  );
});

test("docs/reference/errors/index.md has a row with the status of each code", () => {
  const index = read("docs/reference/errors/index.md");
  const statuses = [
    ...Object.entries(ERROR_CODES).map(([code, { http }]) => [code, http]),
    ...Object.entries(REQUEST_ERRORS),
  ];
  expect(statuses.filter(([code, http]) => !index.includes(`| [\`${code}\`](${code}.md) | ${http} |`))).toEqual([]);
});

describe("a link in the documents", () => {
  test.for([
    ...DOCUMENTS,
    "ARCHITECTURE.md",
    "THREATS.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "tools/README.md",
    "examples/README.md",
    "benchmarks/README.md",
  ])("%s links only to files that exist", (path) => {
    const links = [...read(path).matchAll(/\]\((?!https?:|#)([^)#]+)[^)]*\)/g)].map(([, target = ""]) => target);
    const missing = links.filter((target) => globSync(join(dirname(path), target), { cwd: ROOT }).length === 0);
    expect(missing).toEqual([]);
  });

  test("docs/index.md, the only list of pages on npm, has one to each tutorial and guide", () => {
    const index = read("docs/index.md");
    const pages = globSync("{tutorials,guides}/*.md", { cwd: join(ROOT, "docs") });
    expect(pages.length).toBeGreaterThan(20);
    expect(pages.filter((page) => !index.includes(`](${page})`))).toEqual([]);
  });

  test("THREATS.md names only tests that exist", () => {
    const named = [...read("THREATS.md").matchAll(/`(test\/[\w/.-]+|tools\/[\w/.-]+\.test\.ts)`/g)].map(
      ([, path = ""]) => path,
    );
    const missing = named.filter((path) => globSync(path, { cwd: ROOT }).length === 0);
    expect(named.length).toBeGreaterThan(20);
    expect(missing).toEqual([]);
  });

  test("each row of docs/contract.md names a test that exists", () => {
    const rows = read("docs/contract.md")
      .split("\n")
      .filter((line) => line.startsWith("| ") && !line.startsWith("| behaviour |"));
    const wrong = rows.filter((row) => {
      const [, path = "", words = ""] = /\| `(test\/[\w/.-]+)`: (.+) \|$/.exec(row) ?? [];
      return globSync(path, { cwd: ROOT }).length === 0 || words === "" || !read(path).includes(words);
    });
    expect(wrong).toEqual([]);
    expect(rows.length).toBeGreaterThan(20);
  });
});
