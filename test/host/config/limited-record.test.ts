import { expect, test } from "vitest";
import * as z from "zod";
import { limitedRecord } from "../../../src/host/config/limited-record.ts";
import { KeyedElicitRequestSchema, SampleRequestSchema } from "../../../src/host/contract/client-requests.ts";
import { parseBody } from "../../../src/server/http/validate.ts";
import { DeploymentSchema } from "../../../src/server/tools/deployment-request.ts";
import { parseUploadedSourceMap } from "../../../src/server/tools/uploaded-source-map.ts";

const named = <Value>(count: number, value: Value): { readonly [name: string]: Value } =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`name${index}`, value]));
const listed = <Value>(count: number, value: Value): readonly Value[] => Array.from({ length: count }, () => value);

/** Counts the issues, and those of the alternatives of a union. */
function countIssues(schema: z.ZodType, value: unknown): number {
  const count = (issues: readonly z.core.$ZodIssue[]): number =>
    issues.reduce((sum, issue) => sum + 1 + (issue.code === "invalid_union" ? count(issue.errors.flat()) : 0), 0);
  return count(schema.safeParse(value).error?.issues ?? []);
}

test("counts the values of an object before it checks them", () => {
  const schema = limitedRecord(z.string(), z.string(), { max: 3, what: "files" });
  expect(schema.parse({ a: "1", b: "2", c: "3" })).toEqual({ a: "1", b: "2", c: "3" });
  expect(schema.safeParse({ a: 1, b: 2 }).error?.issues).toHaveLength(2);
  const { error } = schema.safeParse(named(200_000, 1));
  expect(error?.issues.map(({ message }) => message)).toEqual(["Expected at most 3 files"]);
});

test.for([
  ["files of a deployment", DeploymentSchema, { files: named(200_000, 1) }],
  [
    "fields of a form",
    KeyedElicitRequestSchema,
    { message: "?", requestedSchema: { type: "object", properties: named(200_000, 1) } },
  ],
  [
    "required fields of a form",
    KeyedElicitRequestSchema,
    { message: "?", requestedSchema: { type: "object", properties: {}, required: listed(200_000, 1) } },
  ],
  [
    "parts of a message",
    SampleRequestSchema,
    { messages: [{ role: "user", content: listed(200_000, 1) }], maxTokens: 1 },
  ],
] as const)("describes few of very many invalid %s", ([, schema, value]) => {
  const issues = countIssues(schema, value);
  expect(issues).toBeGreaterThan(0);
  expect(issues).toBeLessThan(20);
});

test("describes an uploaded source map with very many invalid names in a short message", () => {
  const map = { version: 3, sources: [], sourcesContent: [], mappings: "" };
  const fail = (more: object): unknown => {
    try {
      return parseUploadedSourceMap(JSON.stringify({ ...map, ...more }));
    } catch (thrown) {
      return (thrown as Error).message;
    }
  };
  expect(fail({ names: listed(1_000_000, 1) })).toBe("sourceMap: /names Expected at most 50000 items");
  expect(fail({ names: [1] })).toBe("sourceMap: /names/0 Expected a string, got a number");
  expect(String(fail(named(100_000, 1))).length).toBeLessThan(500);
});

test("a body with more invalid values than JavaScript can pass to a function is invalid, and no failure of the server", () => {
  const schema = z.record(z.string(), z.record(z.string(), z.string()));
  expect(() => parseBody(schema, { a: named(200_000, 1) })).toThrow(
    expect.objectContaining({ code: "INVALID", message: "The body has too many invalid values to list them" }),
  );
});
