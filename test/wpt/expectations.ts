// Loads expectations.json, the subtests that Node passes and the sandbox is known to fail, with reasons: a list of
// { reason, files: { file: [subtest…] | "all" } }.
import { readFileSync, writeFileSync } from "node:fs";
import * as z from "zod";
import type { Failure } from "./compare.ts";

const PATH = new URL("./expectations.json", import.meta.url);
const ExpectationSchema = z.strictObject({
  reason: z.string().min(1),
  files: z.record(z.string(), z.union([z.literal("all"), z.array(z.string()).min(1)])),
});
export type Expectation = z.infer<typeof ExpectationSchema>;

export function readExpectations(): readonly Expectation[] {
  return z.array(ExpectationSchema).parse(JSON.parse(readFileSync(PATH, "utf8")));
}

/** Returns the reason of a known failure, or undefined. */
export function reasonOf({ file, subtest }: Failure, expectations: readonly Expectation[]): string | undefined {
  return expectations.find(({ files }) => files[file] === "all" || files[file]?.includes(subtest))?.reason;
}

/** Adds unknown failures under a placeholder reason, which a developer must replace. */
export function addExpectations(failures: readonly Failure[]): void {
  const known = readExpectations();
  const unknown = failures.filter((failure) => reasonOf(failure, known) === undefined);
  if (unknown.length === 0) return;
  const byFile = Map.groupBy(unknown, ({ file }) => file);
  const files = Object.fromEntries([...byFile].map(([file, of]) => [file, of.map(({ subtest }) => subtest)]));
  writeFileSync(PATH, `${JSON.stringify([...known, { reason: "Not looked into yet", files }], undefined, 2)}\n`);
}
