// Tests TextFacts: what a build process remembers of the texts of earlier builds.
import { createHash } from "node:crypto";
import { expect, test, vi } from "vitest";
import { TextFacts } from "../../src/bundler/compile/child/text-facts.ts";

const hashOf = (text: string): { sha256: string } => ({ sha256: createHash("sha256").update(text).digest("hex") });

test("computes a fact once for each question and text", () => {
  const facts = new TextFacts();
  const compute = vi.fn(() => true);
  expect(facts.recall("long", "abc", compute)).toBe(true);
  expect(facts.recall("long", hashOf("abc"), compute)).toBe(true);
  expect(compute).toHaveBeenCalledTimes(1);
  expect(facts.recall("long", "abd", () => false)).toBe(false);
  expect(facts.recall("short", "abc", () => false)).toBe(false);
});

test("remembers a limited number of texts", () => {
  const facts = new TextFacts();
  const compute = vi.fn(() => true);
  for (let text = 0; text <= 10_000; text += 1) facts.recall("long", { sha256: String(text) }, compute);
  facts.recall("long", { sha256: "0" }, compute);
  expect(compute).toHaveBeenCalledTimes(10_002);
});
