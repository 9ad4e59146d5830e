// Tests the digests of tools, and canonical JSON, from which these digests and the signatures of agent states are computed.
import fc from "fast-check";
import { expect, test } from "vitest";
import { toCanonicalJson } from "../../../src/host/json/canonical-json.ts";
import { digestOfContent } from "../../../src/host/pipeline/tool-digest.ts";

const tool = { bundle: { sha256: "a" }, granted: new Map([["fetch", 1]]), features: ["wasm"] };

test.for([
  ["another bundle", { ...tool, bundle: { sha256: "b" } }],
  ["another grant", { ...tool, granted: new Map([["kv", 1]]) }],
  ["an additional grant", { ...tool, granted: new Map([...tool.granted, ["kv", 1]]) }],
  ["another engine feature", { ...tool, features: [] }],
  ["the same hash as the source of a Python tool", { ...tool, python: { toolKey: "a" } }],
] as const)("a sandboxed tool has another digest with %s", ([, other]) => {
  expect(digestOfContent(other)).not.toBe(digestOfContent(tool));
});

test("the digest of a Python tool depends on its source, not on the shared runtime", () => {
  const python = { ...tool, python: { toolKey: "x" } };
  expect(digestOfContent({ ...python, bundle: { sha256: "b" } })).toBe(digestOfContent(python));
  expect(digestOfContent({ ...python, python: { toolKey: "y" } })).not.toBe(digestOfContent(python));
});

test("canonical JSON is equal for equal values with any order of keys, and different for different values", () => {
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
