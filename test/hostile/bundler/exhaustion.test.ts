// Source that hangs or crashes esbuild, or exhausts memory. Expected: BUNDLE_FAILED by its limit, and no process is left.
import { afterEach, describe, expect, test } from "vitest";
import { build, descendants, failureOf } from "../../bundler/workbench.ts";

const TIMEOUT_MS = 1_000;
/** Of builds that something else than their time limit ends. */
const PATIENT_MS = 200_000;

function repeat(count: number, wrap: (inner: string) => string, start: string): string {
  let text = start;
  for (let i = 0; i < count; i += 1) text = wrap(text);
  return text;
}

function doubledString(count: number): string {
  const members = Array.from({ length: count }, (_, i) => `x${i + 1} = x${i} + x${i}`);
  return `enum E { x0 = "aaaaaaaaaaaaaaaa", ${members.join(", ")} } export default E.x${count}`;
}

const before = new Set(descendants());
const left = (): readonly number[] => descendants().filter((pid) => !before.has(pid));

afterEach(() => {
  expect(left()).toEqual([]);
});

describe("the bundler ends, with nothing left running,", () => {
  test.for([
    ["ternaries that may be arrow functions", () => repeat(20, (inner) => `a ? (b) : c => (${inner})`, "x")],
    ["200,000 negations", () => `${"!".repeat(200_000)}1`],
    ["a million parentheses", () => `${"(".repeat(500_000)}1${")".repeat(500_000)}`],
    ["type arguments that may be comparisons", () => `${"a<".repeat(300_000)}b`],
    ["arrow functions in their own defaults", () => `${"(a=".repeat(30_000)}1${")=>1".repeat(30_000)}`],
    ["a sum of 300,000 strings", () => Array(300_000).fill("'a'").join("+")],
    ["templates in templates", () => `${`\`$${"{"}`.repeat(300_000)}1${"}`".repeat(300_000)}`],
  ] as const)("%s", async ([, source]) => {
    const error = await failureOf(
      build({ source: `export default ${source()}` }, { limits: { timeoutMs: TIMEOUT_MS } }),
    );
    expect(error.code).toBe("BUNDLE_FAILED");
    expect(error.message).toMatch(/the limit (?:timeoutMs|memoryMiB) is|failed on this source/);
  });

  test("an enum that doubles a string: killed for its memory", async () => {
    const error = await failureOf(
      build({ source: doubledString(30) }, { limits: { memoryMiB: 256, timeoutMs: PATIENT_MS } }),
    );
    expect(error.message).toContain("the limit memoryMiB is 256 MiB");
  });

  test("an output that is too large to receive", async () => {
    const error = await failureOf(
      build({ source: doubledString(21) }, { limits: { memoryMiB: 2_048, timeoutMs: PATIENT_MS } }),
    );
    expect(error.message).toMatch(/the limit bundleBytes|too large/);
  });

  test("the bundler serves the next build", async () => {
    expect((await build({ source: "export default 42" }, { limits: { timeoutMs: PATIENT_MS } })).exports).toEqual([
      "default",
    ]);
  });
});
