// Tests the aliases of upstream tools: they are unique, stable, and valid for the APIs of all models.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { toToolNames } from "../../../src/host/mcp/client/upstream-names.ts";
import { TOOL_NAME_PATTERN } from "../../../src/sandbox/contract/tool-name.ts";

const aliasOf = (prefix: string, name: string): string => [...toToolNames(prefix, [name]).keys()][0] ?? "";
const OPENAI = /^[a-zA-Z0-9_-]{1,64}$/;

/** Names that resemble each other, and aliases. */
const names = fc.array(
  fc.oneof(
    fc.string({ minLength: 1, maxLength: 256, unit: "binary" }),
    fc.string({
      minLength: 1,
      maxLength: 90,
      unit: fc.constantFrom("a", "_", "-", ".", " ", "\u0000", "é", "\ud800", "\udc00"),
    }),
    fc.string({ minLength: 13, maxLength: 20, unit: fc.constantFrom("_", "0", "f") }),
  ),
  { minLength: 1, maxLength: 30 },
);
const prefixes = fc.oneof(
  fc.string({ maxLength: 38, unit: fc.constantFrom("a", "_", "-") }).map((name) => `${name}__`),
  fc.constantFrom("", "q-", "git__"),
);

describe("toToolNames()", () => {
  test("keeps a valid name unchanged", () => {
    expect([...toToolNames("git__", ["status", "log-all", "log_all"])]).toEqual([
      ["git__status", "status"],
      ["git__log-all", "log-all"],
      ["git__log_all", "log_all"],
    ]);
  });

  test("gives search-a, search_a and search.a different aliases", () => {
    const tools = toToolNames("s__", ["search-a", "search_a", "search.a"]);
    expect(tools.size).toBe(3);
    expect(tools.get("s__search-a")).toBe("search-a");
    expect(tools.get("s__search_a")).toBe("search_a");
    const [alias] = [...tools].find(([, name]) => name === "search.a") ?? [];
    expect(alias).toMatch(/^s__search_a_[0-9a-f]{12}$/);
  });

  test("gives each name a different alias that starts with the prefix and is valid for OpenAI", () => {
    fc.assert(
      fc.property(prefixes, names, (prefix, listed) => {
        const tools = toToolNames(prefix, listed);
        expect(new Set(tools.values())).toEqual(new Set(listed));
        for (const alias of tools.keys()) {
          expect(alias).toMatch(OPENAI);
          expect(alias.startsWith(prefix)).toBe(true);
        }
      }),
    );
  });

  test("gives a name the same alias regardless of other names and their order", () => {
    fc.assert(
      fc.property(prefixes, names, names, (prefix, some, more) => {
        const tools = toToolNames(prefix, [...more, ...some].reverse());
        for (const name of some) expect(tools.get(aliasOf(prefix, name))).toBe(name);
      }),
    );
  });

  test("a server cannot imitate the aliases of another server", () => {
    // Short names out of few letters, so that many of them would collide.
    const word = fc.string({ minLength: 1, maxLength: 4, unit: fc.constantFrom("a", "b", "_") });
    fc.assert(
      fc.property(word, word, word, word, (server, name, otherServer, otherName) => {
        fc.pre(server !== otherServer || name !== otherName);
        expect(aliasOf(`${server}__`, name)).not.toBe(aliasOf(`${otherServer}__`, otherName));
        expect(aliasOf(`${server}__`, `${otherServer}__${name}`)).not.toBe(
          aliasOf(`${server}__${otherServer}__`, name),
        );
      }),
      { numRuns: 3_000 },
    );
  });

  test.for([
    [
      ["a", "_b"],
      ["a_", "b"],
    ],
    [
      ["a", "b__c"],
      ["a__b", "c"],
    ],
    [
      ["a", "__b"],
      ["a__", "b"],
    ],
  ] as const)("%j and %j have different aliases", ([[server, name], [otherServer, otherName]]) => {
    expect(aliasOf(`${server}__`, name)).not.toBe(aliasOf(`${otherServer}__`, otherName));
  });

  test("a tool whose name looks like an alias gets a different alias", () => {
    const alias = aliasOf("s__", "search.a");
    const tools = toToolNames("s__", ["search.a", alias.slice("s__".length)]);
    expect(tools.get(alias)).toBe("search.a");
    expect(tools.size).toBe(2);
  });

  test("aliases do not change between releases", () => {
    expect(aliasOf("s__", "search.a")).toBe("s__search_a_6fde76614ab8");
  });

  test("a prefix as long as OpenAI's limit still results in a valid name", () => {
    for (const name of ["x", "x".repeat(256), "\n"]) expect(aliasOf("p".repeat(66), name)).toMatch(TOOL_NAME_PATTERN);
  });
});
