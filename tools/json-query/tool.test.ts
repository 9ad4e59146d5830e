// json-query, run in the sandbox: both languages, and errors that say where.
import { readFile } from "node:fs/promises";
import { type OpenedTool, openTool, undescribed } from "glovebox/testing";
import { afterAll, beforeAll, expect, test } from "vitest";

interface QueryResult {
  readonly found: boolean;
  readonly result: unknown;
  readonly type: string;
  readonly count?: number;
}

let tool: OpenedTool;
beforeAll(async () => {
  tool = await openTool(import.meta.dirname);
});
afterAll(() => tool[Symbol.asyncDispose]());

test("json-query requires a query and describes every field", () => {
  const { inputSchema, outputSchema } = tool.definition;
  expect(inputSchema).toMatchObject({ required: ["query"] });
  expect([...undescribed(inputSchema), ...undescribed(outputSchema)]).toEqual([]);
});

interface Capital {
  readonly city: string;
  readonly state: string;
  readonly lat: number;
  readonly lon: number;
}

test("json-query answers its example as a plain filter does", async () => {
  const example = JSON.parse(await readFile(new URL("example.json", import.meta.url), "utf8")) as { data: Capital[] };
  const expected = example.data
    .filter(({ lat, lon }) => lat > 43 && lon < -100)
    .toSorted((a, b) => b.lat - a.lat)
    .map(({ city, state, lat }) => ({ capital: `${city}, ${state}`, latitude: lat }));
  const answer = await tool.output<QueryResult>(example);
  expect(answer).toEqual({ found: true, result: expected, type: "array", count: expected.length });
  const jmespath = {
    query:
      "reverse(sort_by([?lat > `43` && lon < `-100`], &lat))[].{capital: join(', ', [city, state]), latitude: lat}",
    language: "jmespath",
    data: example.data,
  };
  expect((await tool.output<QueryResult>(jmespath)).result).toEqual(expected);
});

const DATA = {
  orders: [
    { id: 1, status: "paid", total: 19.5, items: [{ sku: "a" }, { sku: "b" }] },
    { id: 2, status: "open", total: 7, items: [{ sku: "a" }] },
    { id: 3, status: "paid", total: 0.5, items: [] },
  ],
  empty: null,
  name: "Zoë",
};

test.for<[string, string, unknown]>([
  ["jsonata", '$sum(orders[status="paid"].total)', 20],
  ["jsonata", "orders.items.sku", ["a", "b", "a"]],
  ["jsonata", "orders{status: $count(id)}", { paid: 2, open: 1 }],
  ["jsonata", "orders[0]", DATA.orders[0]],
  ["jsonata", "$uppercase(name)", "ZOË"],
  ["jsonata", "$max(orders.total) > 5", true],
  ["jsonata", "[1..5].($ * $)", [1, 4, 9, 16, 25]],
  ["jsonata", "($f := function($n) { $n <= 1 ? 1 : $n * $f($n - 1) }; $f(10))", 3_628_800],
  ["jsonata", "empty", null],
  ["jmespath", "sum(orders[?status=='paid'].total)", 20],
  ["jmespath", "orders[].items[].sku", ["a", "b", "a"]],
  ["jmespath", "orders[0]", DATA.orders[0]],
  ["jmespath", "sort_by(orders, &total)[*].id", [3, 2, 1]],
  ["jmespath", "max_by(orders, &total).{id: id, skus: items[].sku}", { id: 1, skus: ["a", "b"] }],
  ["jmespath", "length(orders)", 3],
])("json-query evaluates %s: %s", async ([language, query, expected]) => {
  const { found, result } = await tool.output<QueryResult>({ language, query, data: DATA });
  expect(found).toBe(true);
  expect(result).toEqual(expected);
});

test.for<[string, string]>([
  ["jsonata", "orders[id=9].total"],
  ["jmespath", "orders[9].total"],
])("json-query says when %s finds nothing", async ([language, query]) => {
  expect(await tool.output({ language, query, data: DATA })).toEqual({ found: false, result: null, type: "null" });
});

test("json-query reads JSON text, and takes values as variables, not as parts of the query", async () => {
  const json = `\uFEFF${JSON.stringify(DATA)}`;
  const variables = { status: 'paid"] or ["', least: 1 };
  expect(await tool.output({ query: "$count(orders[status=$status])", json, variables })).toMatchObject({ result: 0 });
  expect(await tool.output({ query: "orders[total > $least].id", json, variables })).toMatchObject({ result: [1, 2] });
});

test.for<[string, unknown]>([
  ["a string", "text"],
  ["a number", 5],
  ["false", false],
  ["null", null],
  ["a list", [1, [2]]],
])("json-query takes %s as data", async ([, data]) => {
  for (const [language, query] of [
    ["jsonata", "$"],
    ["jmespath", "@"],
  ]) {
    expect(await tool.output({ language, query, data })).toMatchObject({ result: data });
  }
});

test("json-query sums and groups four thousand records", async () => {
  const data = Array.from({ length: 4_000 }, (_, id) => ({ id, group: `g${id % 5}`, value: id }));
  const sumOf = (group: number) => data.filter(({ id }) => id % 5 === group).reduce((sum, { value }) => sum + value, 0);
  const grouped = await tool.output<QueryResult>({ query: "$ {group: $sum(value)}", data });
  expect(grouped.result).toEqual(Object.fromEntries([0, 1, 2, 3, 4].map((group) => [`g${group}`, sumOf(group)])));
  const one = await tool.output<QueryResult>({ language: "jmespath", query: "sum([?group=='g3'].value)", data });
  expect(one.result).toBe(sumOf(3));
});

test.for<[string, string, RegExp]>([
  ["jsonata", "orders[0].id name", /not valid at character 14, before "name": Syntax error: "name" \(S0201\)/],
  ["jsonata", "orders[", /not valid at character 8, the end of the query: .*\(S0203\)/],
  ["jsonata", "orders.\n  id )", /not valid at line 2, character 6, before "\)"/],
  ["jsonata", "'never closed", /not valid at .*String literal must be terminated/],
  ["jsonata", "$sum(name)", /failed at character 6, before "name\)": Argument 1 of function "sum"/],
  ["jsonata", "name + 1", /failed at character 6, before "\+ 1": The left side of the "\+" operator/],
  ["jsonata", "$no(1)", /failed at .*non-function/],
  ["jsonata", '$error("my own words")', /failed at .*my own words/],
  ["jsonata", "($f := function($n) { 1 + $f($n) }; $f(1))", /Stack overflow/],
  ["jsonata", "($f := function($n) { $f($n) }; $f(1))", /Evaluation timeout after 3000 milliseconds/],
  ["jsonata", "[1..9000000]", /sequence length .*exceeded/],
  ["jsonata", "$sum", /gives a function: call it/],
  ["jsonata", "{'f': function($x) { $x }}", /gives a function: call it/],
  ["jmespath", "orders[0].id name", /not valid at character 14, before "name"/],
  ["jmespath", "orders[", /not valid at character 8, the end of the query/],
  ["jmespath", "orders[?id==`1`", /not valid at character 16, the end of the query/],
  ["jmespath", "orders ^ name", /not valid at character 8, before "\^ name"/],
  ["jmespath", '"never closed', /not valid at character 1, before/],
  ["jmespath", "orders[*].{id: id, name", /not valid at character 24, the end of the query/],
  ["jmespath", "no_such(@)", /failed: Unknown function: no_such/],
  ["jmespath", "abs(name)", /failed: .*expected argument 1 to be type \(number\)/],
])("json-query says what is wrong with %s: %s", async ([language, query, expected]) => {
  const failure = await tool.failure({ language, query, data: DATA });
  expect(failure).toMatch(/^TOOL_FAILED: /);
  expect(failure).toMatch(expected);
});

test.for<[string, unknown, RegExp]>([
  ["JSON text that is not JSON", { query: "a", json: '{"a": tru}' }, /^TOOL_FAILED: .*text in json is not JSON/],
  ["no query", { data: 1 }, /^PARAM_INVALID.*query/],
  ["a blank query", { query: "  ", data: 1 }, /^PARAM_INVALID.*query/],
  ["an unknown language", { query: "a", data: 1, language: "xpath" }, /^PARAM_INVALID.*language/],
  ["neither data nor json", { query: "a" }, /^PARAM_INVALID.*exactly one of data and json/],
  ["both data and json", { query: "a", data: 1, json: "1" }, /^PARAM_INVALID.*exactly one of data and json/],
  [
    "variables for JMESPath",
    { query: "a", data: 1, language: "jmespath", variables: {} },
    /^PARAM_INVALID.*JSONata only/,
  ],
  ["an endless query text", { query: "a".repeat(10_001), data: 1 }, /^PARAM_INVALID.*query/],
])("json-query rejects %s", async ([, args, expected]) => {
  expect(await tool.failure(args)).toMatch(expected);
});
