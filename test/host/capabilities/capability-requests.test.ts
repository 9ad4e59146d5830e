// What a tool requests of the built-in capabilities. A request that is malformed must not give the tool more than a valid one would.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parseRequestedHosts } from "../../../src/host/capabilities/fetch/egress-policy.ts";
import { parseDefinition } from "../../../src/host/executors/extract-definition.ts";
import { createGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { readRequestedList } from "../../../src/sandbox/contract/capability-requests.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import { codeOf, failureOf, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";

const LISTED = ["fetch", "secrets", "tools"];
const PLAIN = ["log", "kv", "elicit", "sample", "roots", "waitFor", "atomics", "stringToCode"];
const HOSTS = 'Expected true, {} or a list of hosts, such as ["api.example.com"]';

/** Requests that are malformed, each with the path of the message and its text. */
const MALFORMED: readonly [capabilities: { readonly [name: string]: JsonValue }, path: string, message: string][] = [
  [{ fetch: "https://a.example" }, "fetch", `${HOSTS}, got "https://a.example"`],
  [{ fetch: { hosts: ["a.example"] } }, "fetch", `${HOSTS}, got an object`],
  [{ fetch: ["a.example", 1] }, "fetch", `${HOSTS}, got a list with other values`],
  [{ fetch: null }, "fetch", `${HOSTS}, got null`],
  [{ secrets: "A" }, "secrets", 'Expected true, {} or a list of names, such as ["API_KEY"], got "A"'],
  [{ secrets: { A: true } }, "secrets", 'Expected true, {} or a list of names, such as ["API_KEY"], got an object'],
  [{ tools: "a" }, "tools", 'Expected true, {} or a list of tool names, such as ["text__*"], got "a"'],
  ...PLAIN.map((name): [{ [name: string]: JsonValue }, string, string] => [
    { [name]: { foo: 1 } },
    name,
    "Expected true or {}, got an object",
  ]),
  [{ kv: ["a"] }, "kv", "Expected true or {}, got an array"],
  [{ onRollback: 1 }, "onRollback", "Expected true or {}, got a number"],
];
const BUILTIN = [...LISTED, ...PLAIN];
const allSetTo = (setting: JsonValue): { readonly [name: string]: JsonValue } =>
  Object.fromEntries(BUILTIN.map((name) => [name, setting]));
/** Valid requests, each with those that are kept. */
const VALID: readonly (readonly [requested: { readonly [name: string]: JsonValue }, kept?: object])[] = [
  [allSetTo(true)],
  [allSetTo({})],
  [allSetTo(false), {}],
  [{ fetch: [], secrets: [], tools: [] }],
  [{ fetch: ["a.example"], secrets: ["A"], tools: ["text__*"] }],
  // The settings of a host's own capability are for the host to check.
  [{ mine: { foo: 1 }, other: "text", third: false }],
];

describe("what a tool requests of a capability", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox();
  });
  afterAll(() => glovebox.close());

  /** A definition as a worker process extracts it. */
  const definitionWith = (capabilities: object): string =>
    JSON.stringify({ description: "", inputSchema: { type: "object" }, capabilities });
  const sourceWith = (capabilities: object): string =>
    `export const capabilities = ${JSON.stringify(capabilities)}; export default () => 1;`;

  test.for(MALFORMED)("rejects %j in a definition", async ([capabilities, path, message]) => {
    const parsing = (async () => parseDefinition(definitionWith(capabilities)))();
    const failure = await failureOf(parsing);
    expect(failure.code).toBe("BUNDLE_FAILED");
    expect(failure.message).toBe(`The tool's definition: capabilities/${path}: ${message}`);
  });

  test("rejects a malformed request of a tool", async () => {
    const source = sourceWith({ fetch: "https://a.example", kv: { foo: 1 } });
    const failure = await failureOf(glovebox.addTool({ name: "asks", source }));
    expect([failure.code, failure.message.split("; ")]).toEqual([
      "BUNDLE_FAILED",
      [
        `The tool's definition: capabilities/fetch: ${HOSTS}, got "https://a.example"`,
        "capabilities/kv: Expected true or {}, got an object",
      ],
    ]);
  });

  test.for(MALFORMED)("rejects %j in overrides", async ([capabilities, path, message]) => {
    const tool = { name: "asks", source: "export default () => 1;", overrides: { capabilities } };
    for (const failed of [glovebox.addTool(tool), glovebox.updateTool(tool), glovebox.inspectTool(tool)]) {
      const failure = await failureOf(failed);
      expect(failure.code).toBe("PARAM_INVALID");
      expect(failure.message).toBe(`tool.overrides.capabilities.${path}: ${message}`);
    }
  });

  test.for(MALFORMED)("rejects %j as python.capabilities", async ([capabilities, path, message]) => {
    const failure = await failureOf(createGlovebox({ kv: "memory", python: { capabilities } }));
    expect(failure.code).toBe("PARAM_INVALID");
    expect(failure.message).toBe(`options.python.capabilities.${path}: ${message}`);
  });

  test("rejects a malformed request of a Python tool", async () => {
    await using python = await makeGlovebox({ cache: PYTHON_CACHE });
    const source = 'capabilities = {"fetch": "https://a.example"}\ndef main(input): return 1';
    const failure = await failureOf(python.addTool({ name: "asks", source, language: "python" }));
    expect(failure.code).toBe("BUNDLE_FAILED");
    expect(failure.message).toContain(`capabilities/fetch: ${HOSTS}, got "https://a.example"`);
  });

  test("rejects the name of an unknown capability in python.capabilities", async () => {
    const failure = await failureOf(createGlovebox({ kv: "memory", python: { capabilities: { fetsh: {} } } }));
    expect(failure.code).toBe("PARAM_INVALID");
    expect(failure.message).toBe('options.python.capabilities.fetsh: Unknown option. Did you mean "fetch"?');
  });

  test.for(VALID)("accepts %j, and leaves out what is false", ([capabilities, kept = capabilities]) => {
    expect(parseDefinition(definitionWith(capabilities)).capabilities).toEqual(kept);
  });

  test("keeps a tool's valid requests, and leaves out what is false", async () => {
    const requested = { ...allSetTo(true), fetch: ["a.example"], secrets: {}, kv: false, mine: { foo: 1 } };
    const { definition } = await glovebox.inspectTool({ name: "asks", source: sourceWith(requested) });
    const { kv: _kv, ...kept } = requested;
    expect(definition.capabilities).toEqual(kept);
  });

  test("grants nothing for an override that is false", async () => {
    const source = "export default (_, ctx) => typeof ctx.kv;";
    await glovebox.addTool({ name: "asks", source, overrides: { capabilities: { kv: false } } });
    expect(outputOf(await glovebox.execute({ id: "c", toolName: "asks", arguments: {} }))).toBe("undefined");
  });

  test("{} and true let a tool call every other tool", async () => {
    await glovebox.addTool({ name: "one", source: "export default () => 1;" });
    for (const [name, tools] of Object.entries({ empty: {}, yes: true, none: [] })) {
      const source = "export default async (_, ctx) => await ctx.tools.one({});";
      await glovebox.addTool({ name, source, overrides: { capabilities: { tools } } });
    }
    const codes = ["empty", "yes", "none"].map((toolName) => glovebox.execute({ id: "c", toolName, arguments: {} }));
    expect((await Promise.all(codes)).map(codeOf)).toEqual(["ok", "ok", "CAPABILITY_DENIED"]);
  });

  test.for(["https://a.example", { hosts: ["a.example"] }, false, null, 5] satisfies JsonValue[])(
    "a reader allows nothing for %j",
    (setting) => {
      expect(parseRequestedHosts({ fetch: setting })).toEqual([]);
      expect(readRequestedList({ secrets: setting }, "secrets")).toEqual([]);
    },
  );

  test("a reader narrows nothing without a request, and for true and {}", () => {
    for (const requested of [{}, { fetch: true }, { fetch: {} }])
      expect(parseRequestedHosts(requested)).toBeUndefined();
  });
});
