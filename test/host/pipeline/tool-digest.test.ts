// Digests of tools: what changes one, and canonical JSON, which they and the seals of agent states are made of.
import fc from "fast-check";
import { expect, test } from "vitest";
import { toCanonicalJson } from "../../../src/host/json/canonical-json.ts";
import { digestOfContent } from "../../../src/host/pipeline/tool-digest.ts";

const tool = { bundle: { sha256: "a" }, granted: new Map([["fetch", 1]]), features: ["wasm"] };

test.for([
  ["another bundle", { ...tool, bundle: { sha256: "b" } }],
  ["another grant", { ...tool, granted: new Map([["kv", 1]]) }],
  ["one grant more", { ...tool, granted: new Map([...tool.granted, ["kv", 1]]) }],
  ["another engine feature", { ...tool, features: [] }],
  ["the same hash as the source of a Python tool", { ...tool, python: { toolKey: "a" } }],
] as const)("a sandboxed tool has another digest with %s", ([, other]) => {
  expect(digestOfContent(other)).not.toBe(digestOfContent(tool));
});

test("the digest of a Python tool depends on its source and not on the runtime that all share", () => {
  const python = { ...tool, python: { toolKey: "x" } };
  expect(digestOfContent({ ...python, bundle: { sha256: "b" } })).toBe(digestOfContent(python));
  expect(digestOfContent({ ...python, python: { toolKey: "y" } })).not.toBe(digestOfContent(python));
});

test("canonical JSON is the same for the same value, whatever the order of its keys, and another for another value", () => {
  const reverse = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(reverse);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value)
        .toReversed()
        .map(([key, each]) => [key, reverse(each)]),
    );
  };
  fc.assert(
    fc.property(fc.jsonValue(), fc.jsonValue(), (value, other) => {
      const text = toCanonicalJson(value);
      expect(toCanonicalJson(reverse(value))).toBe(text);
      // Text has no -0.
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      const isEqual = toCanonicalJson(JSON.parse(JSON.stringify(other))) === text;
      expect(isEqual).toBe(toCanonicalJson(other) === text);
    }),
  );
  expect(toCanonicalJson({ b: undefined, a: [undefined, 1] })).toBe('{"a":[null,1]}');
});
