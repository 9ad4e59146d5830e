// Compares the results of the web-platform tests in the guest and in Node.
import { runInNode } from "./node-runner.ts";
import { runInSandbox } from "./sandbox-runner.ts";
import type { FileResult } from "./script.ts";
import { startWptServer } from "./server.ts";
import { type TestFile, testFilesOf } from "./tests.ts";
import { createToolRunner } from "./tool-runner.ts";

export interface Failure {
  readonly file: string;
  /** Empty for a file that did not finish. */
  readonly subtest: string;
  readonly message: string;
}

export interface SuiteResult {
  readonly suite: string;
  readonly files: number;
  /** Subtests that Node passes. */
  readonly expected: number;
  /** Those of them that the sandbox passes. */
  readonly passed: number;
  readonly failures: readonly Failure[];
}

const LANES = 2;

function failuresOf(file: TestFile, inNode: FileResult, inSandbox: FileResult): Failure[] {
  const passed = new Map<string, string | true>();
  for (const { name, passed: did, message } of inSandbox.subtests) passed.set(name, did ? true : message);
  const failures: Failure[] = [];
  for (const { name, passed: did } of inNode.subtests) {
    const here = passed.get(name);
    if (!did || here === true) continue;
    failures.push({ file: file.name, subtest: name, message: here ?? inSandbox.error ?? "was not run" });
  }
  return failures;
}

/** @param keep selects files by name; default: all files */
export async function compareSuite(suite: string, keep: (name: string) => boolean = () => true): Promise<SuiteResult> {
  const files = testFilesOf(suite).filter(({ name }) => keep(name));
  const served = files.some((file) => file.served);
  await using server = served ? await startWptServer() : undefined;
  await using tools = server === undefined ? undefined : await createToolRunner(server);
  const runInGuest = (file: TestFile): Promise<FileResult> =>
    tools === undefined ? runInSandbox(file) : tools.run(file);
  const failures: Failure[][] = [];
  let expected = 0;
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < files.length; index = next++) {
      const file = files[index] as TestFile;
      const inNode = await runInNode(file, server);
      expected += inNode.subtests.filter(({ passed }) => passed).length;
      failures[index] = failuresOf(file, inNode, await runInGuest(file));
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  const all = failures.flat();
  return { suite, files: files.length, expected, passed: expected - all.length, failures: all };
}
