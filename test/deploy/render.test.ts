// The renderer of the other tests behaves as Helm does, where a difference would let a chart pass that Helm renders otherwise.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ChartRenderer, canRender } from "./chart.ts";

const DEFAULTS = { text: "a", list: [1], table: { x: 1, y: { z: 1 } } };

describe.skipIf(!canRender)("the renderer of charts", () => {
  let folder: string;
  let chart: ChartRenderer;
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "glovebox-small-chart-"));
    mkdirSync(join(folder, "templates"));
    write("Chart.yaml", "name: small\nversion: 0.1.0\n");
    write("values.yaml", JSON.stringify({ ...DEFAULTS, nothing: null, deep: { nothing: null } }));
    write("values.schema.json", JSON.stringify({ properties: { text: { pattern: "^[a-z]*$" } } }));
    chart = new ChartRenderer(folder);
  });
  afterAll(() => {
    chart?.[Symbol.dispose]();
    if (folder !== undefined) rmSync(folder, { recursive: true });
  });

  const { text: _text, ...withoutText } = DEFAULTS;
  const { table: _table, ...withoutTable } = DEFAULTS;
  test.for([
    [{}, DEFAULTS],
    [{ text: null }, withoutText],
    [{ table: null }, withoutTable],
    [{ table: { x: null } }, { ...DEFAULTS, table: { y: { z: 1 } } }],
    [{ table: { y: { z: null } } }, { ...DEFAULTS, table: { x: 1, y: {} } }],
    [{ table: { w: 2 } }, { ...DEFAULTS, table: { w: 2, ...DEFAULTS.table } }],
    [{ table: 5 }, { ...DEFAULTS, table: 5 }],
    [{ text: { a: 1 } }, { ...DEFAULTS, text: { a: 1 } }],
    [{ list: [] }, { ...DEFAULTS, list: [] }],
    [{ list: [null, { a: null }] }, { ...DEFAULTS, list: [null, { a: null }] }],
    [{ other: null }, { ...DEFAULTS, other: null }],
    [{ table: { other: null } }, { ...DEFAULTS, table: { ...DEFAULTS.table, other: null } }],
  ])("completes the values %j", ([given, expected], { expect }) => {
    expect(chart.coalesce(given as object)).toEqual({ deep: {}, ...(expected as object) });
  });

  const evaluate = (expression: string): unknown => {
    write("templates/object.yaml", `kind: Test\nspec: {{ ${expression} | toJson }}\n`);
    const [object] = chart.render({});
    return object?.spec;
  };

  test.for([
    ['required "m" list', []],
    ['required "m" dict', {}],
    ['required "m" 0', 0],
    ['required "m" false', false],
    ['required "m" .Values.list', [1]],
    ['lookup "v1" "Secret" "a" "b"', {}],
    ['tpl "{{ .Values.text }}{{ .Values.missing }}" .', "a"],
    ['toYaml (dict "a" (list 1))', "a:\n- 1"],
    ['fromYaml "a: 1"', { a: 1 }],
    ['fromJson "{}"', {}],
    ["toYaml list", "[]"],
  ] as const)("evaluates %s", ([expression, expected], { expect }) => {
    expect(evaluate(expression)).toEqual(expected);
  });

  test.for([
    ['required "The message" ""', "execution error: The message"],
    ['required "The message" .Values.missing', "execution error: The message"],
    ['fail "The message"', "execution error: The message"],
    [".Values.missing.field", "nil pointer evaluating interface {}.field"],
    ['env "PATH"', 'function "env" not defined'],
  ] as const)("fails at %s", ([expression, message], { expect }) => {
    expect(() => evaluate(expression)).toThrow(message);
  });

  test("parses objects with the types of YAML 1.1, and rejects a key that is there twice", () => {
    write(
      "templates/object.yaml",
      "# Nothing\n---\nkind: Test\nspec: {a: 0440, b: yes, c: 1e3, d: {{ .Values.missing }}}\n---\n",
    );
    expect(chart.render({})).toEqual([{ kind: "Test", spec: { a: 0o440, b: true, c: 1_000, d: null } }]);
    write("templates/object.yaml", "kind: Test\nkind: Other\n");
    expect(() => chart.render({})).toThrow("YAML parse error on object.yaml");
  });

  test("rejects a pattern that only JavaScript knows", () => {
    write("templates/object.yaml", "kind: Test\n");
    expect(chart.render({})).toHaveLength(1);
    write("values.schema.json", JSON.stringify({ properties: { text: { pattern: "^(?!a)" } } }));
    expect(() => chart.render({})).toThrow("error parsing regexp");
    write("values.schema.json", "{}");
  });
});
