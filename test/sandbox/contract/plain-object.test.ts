// Tests of the check for plain objects: object literals of any realm pass, and objects that only look empty do not.
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import * as z from "zod";
import { describeKind, isPlainObject, strictObject } from "../../../src/sandbox/contract/plain-object.ts";

class Config {
  limit = 1;
}
const revoked = Proxy.revocable({}, {});
revoked.revoke();

test.for([
  ["an object literal", {}],
  ["an object without a prototype", Object.create(null)],
  ["an object of another realm", runInNewContext("({})")],
] as const)("%s is plain", ([, value]) => {
  expect(isPlainObject(value)).toBe(true);
});

const OTHERS: readonly (readonly [kind: string, value: unknown])[] = [
  ["undefined", undefined],
  ["null", null],
  ["a string", "x"],
  ["a function", () => {}],
  ["an array", []],
  ["a Promise", Promise.resolve({})],
  ["a Map", new Map()],
  ["a Set", new Set()],
  ["a Promise", runInNewContext("Promise.resolve()")],
  ["an instance of Config", new Config()],
  ["an object that is not plain", Object.create({ limit: 1 })],
  ["an object that is not plain", Object.create(Object.create(null))],
  ["an object that is not plain", revoked.proxy],
];

test.for(OTHERS)("%s is not plain and is described", ([kind, value]) => {
  expect(isPlainObject(value)).toBe(false);
  expect(describeKind(value)).toBe(kind);
});

const Schema = strictObject({ limit: z.number().default(5), inner: strictObject({ on: z.boolean() }).optional() });

test("a strict object has its defaults and rejects unknown keys", () => {
  expect(Schema.parse({})).toEqual({ limit: 5 });
  expect(Schema.parse({ limit: undefined, inner: undefined })).toMatchObject({ limit: 5 });
  expect(Schema.parse({ inner: { on: true } })).toEqual({ limit: 5, inner: { on: true } });
  expect(Schema.safeParse({ limits: 1 }).error?.issues).toMatchObject([{ code: "unrecognized_keys" }]);
});

test.for(OTHERS.slice(1))("a strict object rejects %s at every depth", ([kind, value]) => {
  const message = `Expected a plain object, got ${kind}`;
  expect(Schema.safeParse(value).error?.issues).toMatchObject([{ path: [], message }]);
  expect(Schema.safeParse({ inner: value }).error?.issues).toMatchObject([{ path: ["inner"], message }]);
});
