// Keywords about an array's items.
import { formatCount } from "../describe.ts";
import { type Builder, type Check, evaluate, evaluateQuietly, type SchemaNode, type Seen } from "../schema/node.ts";
import { ownProperty, type SchemaObject } from "../schema/schema-copy.ts";
import type { SchemaRun } from "../schema-run.ts";
import { findDuplicate } from "./equality.ts";

type Items = readonly unknown[];

/** Returns a check that accepts every value that is not an array. */
function onArray(check: (value: Items, run: SchemaRun, seen: Seen | undefined) => boolean): Check {
  return (value, run, seen) => !Array.isArray(value) || check(value, run, seen);
}

function buildLength(keyword: "minItems" | "maxItems"): Builder {
  return (setting) => {
    const limit = Number(setting);
    const isMin = keyword === "minItems";
    const expected = (): string => `an array of at ${isMin ? "least" : "most"} ${formatCount(limit, "item", "items")}`;
    return onArray((value, run) => {
      const holds = isMin ? value.length >= limit : value.length <= limit;
      return holds || run.report(keyword, expected, value);
    });
  };
}

const buildUniqueItems: Builder = (setting) => {
  if (setting !== true) return undefined;
  return onArray((value, run) => {
    const duplicate = findDuplicate(value, run);
    if (duplicate === undefined) return true;
    const got = (): string => `equal items at ${duplicate[0]} and ${duplicate[1]}`;
    return run.report("uniqueItems", () => "items that all differ", value, got);
  });
};

/** Returns the schemas of the first items (2020-12's `prefixItems` or the older array form of `items`) and the schema of the others. */
function itemSchemas(schema: SchemaObject): { keyword: string; prefix: Items; restKeyword: string; rest: unknown } {
  const prefixItems = ownProperty(schema, "prefixItems");
  const items = ownProperty(schema, "items");
  if (Array.isArray(items)) {
    return {
      keyword: "items",
      prefix: items,
      restKeyword: "additionalItems",
      rest: ownProperty(schema, "additionalItems"),
    };
  }
  const prefix = Array.isArray(prefixItems) ? prefixItems : [];
  return { keyword: "prefixItems", prefix, restKeyword: "items", rest: items };
}

const buildItems: Builder = (_setting, schema, context) => {
  const { keyword, prefix, restKeyword, rest } = itemSchemas(schema);
  const prefixNodes = prefix.map((item, index) => context.child(item, keyword, index));
  const restNode = rest === undefined ? undefined : context.child(rest, restKeyword);
  return (value, run, seen) => {
    if (!Array.isArray(value)) return true;
    noteItems(seen, prefixNodes.length, restNode !== undefined, value.length);
    let valid = true;
    // This is the hottest loop. With an iterator it would be half as fast.
    for (let index = 0; index < value.length; index++) {
      const item: unknown = value[index];
      const node = index < prefixNodes.length ? prefixNodes[index] : restNode;
      if (node === undefined) break;
      const holds =
        node.schema === false
          ? reportExtra(restKeyword, prefixNodes.length, index, item, run)
          : evaluate(node, item, run, undefined, index);
      if (holds) continue;
      valid = false;
      if (!run.collecting || run.full) return false;
    }
    return valid;
  };
};

function noteItems(seen: Seen | undefined, prefix: number, hasRest: boolean, length: number): void {
  if (seen === undefined) return;
  if (hasRest || prefix >= length) seen.all = true;
  else for (let index = 0; index < prefix; index++) seen.keys.add(index);
}

/** Reports an item after the last allowed one. */
function reportExtra(keyword: string, allowed: number, index: number, item: unknown, run: SchemaRun): false {
  run.path.push(index);
  run.report(keyword, () => `at most ${formatCount(allowed, "item", "items")}`, item);
  run.path.pop();
  return false;
}

/** `contains` with its bounds. Items are checked without reporting, since an item that does not match is not an issue by itself. */
const buildContains: Builder = (setting, schema, context) => {
  const node = context.child(setting, "contains");
  const least = Number(ownProperty(schema, "minContains") ?? 1);
  const most = Number(ownProperty(schema, "maxContains") ?? Number.POSITIVE_INFINITY);
  return onArray((value, run, seen) => {
    const found = countMatches(node, value, run, seen);
    const got = (): string => `${formatCount(found, "such item", "such items")} among ${value.length}`;
    const valid =
      found >= least ||
      run.report("contains", () => `at least ${formatCount(least, "matching item", "matching items")}`, value, got);
    return (
      (found <= most ||
        run.report(
          "maxContains",
          () => `at most ${formatCount(most, "matching item", "matching items")}`,
          value,
          got,
        )) &&
      valid
    );
  });
};

function countMatches(node: SchemaNode, value: Items, run: SchemaRun, seen: Seen | undefined): number {
  let found = 0;
  for (const [index, item] of value.entries()) {
    if (!evaluateQuietly(node, item, run, undefined)) continue;
    found += 1;
    seen?.keys.add(index);
  }
  return found;
}

/** Checks the items that no other keyword has evaluated. Must be among the last checks of its node. */
const buildUnevaluated: Builder = (setting, _schema, context) => {
  const node = context.child(setting, "unevaluatedItems");
  return onArray((value, run, seen) => {
    if (seen === undefined || seen.all) return true;
    let valid = true;
    for (const [index, item] of value.entries()) {
      run.spend(1);
      if (seen.keys.has(index)) continue;
      const holds =
        node.schema === false
          ? reportExtra("unevaluatedItems", seen.keys.size, index, item, run)
          : evaluate(node, item, run, undefined, index);
      if (holds) continue;
      valid = false;
      if (!run.collecting || run.full) return false;
    }
    seen.all = true;
    return valid;
  });
};

export const ARRAY_CHECKS: readonly (readonly [keywords: readonly string[], build: Builder])[] = [
  [["minItems"], buildLength("minItems")],
  [["maxItems"], buildLength("maxItems")],
  [["uniqueItems"], buildUniqueItems],
  [["prefixItems", "items"], buildItems],
  [["contains"], buildContains],
];
export const UNEVALUATED_ITEMS: readonly [readonly string[], Builder] = [["unevaluatedItems"], buildUnevaluated];
