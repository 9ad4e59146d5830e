// What a version of a tool requests beyond the live one: it waits for approval exactly if there is such a thing.
import { describe, expect, test } from "vitest";
import type { CapabilityRequests } from "../../src/host/index.ts";
import { compareRequests } from "../../src/server/tools/requested-access.ts";

const versionOf = (capabilities: CapabilityRequests): Parameters<typeof compareRequests>[1] => ({
  definition: { name: "tool", description: "", inputSchema: {}, capabilities },
  language: "javascript",
  settings: {},
});

type Row = readonly [live: CapabilityRequests, next: CapabilityRequests, added: readonly string[]];

const ROWS: readonly Row[] = [
  [{}, { kv: {} }, ["kv"]],
  [{ kv: true }, { kv: {} }, []],
  [{ kv: {} }, {}, []],
  // A host's own capability: its settings mean what the host decides.
  [{ mail: { to: ["a@example.com"] } }, { mail: true }, ["mail"]],
  [{ mail: true }, { mail: { bulk: true } }, ['mail={"bulk":true}']],
  [{ mail: ["a"] }, { mail: [] }, ["mail=[]"]],
  [{ mail: ["a"] }, { mail: ["a"] }, []],
  // A name that looks like an item of another capability.
  [{ "fetch:*": true }, { fetch: true }, ["fetch:*"]],
  [{ fetch: ["*"] }, { fetch: {} }, ["fetch:*"]],
];

describe.for(["fetch", "secrets", "tools"])("%s", (name) => {
  test.for<Row>([
    [{}, { [name]: ["a"] }, [name, `${name}:a`]],
    [{}, { [name]: [] }, [name]],
    [{ [name]: ["a"] }, { [name]: ["a", "b"] }, [`${name}:b`]],
    [{ [name]: ["a", "b"] }, { [name]: ["b"] }, []],
    [{ [name]: ["a"] }, { [name]: true }, [`${name}:*`]],
    [{ [name]: ["a"] }, { [name]: {} }, [`${name}:*`]],
    [{ [name]: [] }, { [name]: {} }, [`${name}:*`]],
    [{}, { [name]: {} }, [`${name}:*`]],
    [{ [name]: {} }, { [name]: true }, []],
    [{ [name]: true }, { [name]: ["a"] }, []],
  ])("from %j to %j adds %j", ([live, next, added]) => {
    expect(compareRequests(versionOf(live), versionOf(next), []).added).toEqual(added);
    // The other way round, the same is removed.
    expect(compareRequests(versionOf(next), versionOf(live), []).removed).toEqual(added);
  });
});

test.for(ROWS)("a change from %j to %j adds %j", ([live, next, added]) => {
  expect(compareRequests(versionOf(live), versionOf(next), []).added).toEqual(added);
});
