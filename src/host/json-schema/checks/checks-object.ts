// Keywords about an object's members. Only own members are read, so `constructor` and `__proto__` are ordinary names.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { didYouMean, formatCount, formatList, quoteShortened } from "../describe.ts";
import { type Builder, type Check, evaluate, type SchemaNode, type Seen } from "../schema/node.ts";
import { ownProperty, type SchemaObject } from "../schema/schema-copy.ts";
import type { SchemaRun } from "../schema-run.ts";
import { Pattern } from "./pattern.ts";

/** Returns a check that accepts every value that is not an object. */
function onObject(check: (value: SchemaObject, run: SchemaRun, seen: Seen | undefined) => boolean): Check {
  return (value, run, seen) => !isJsonObject(value) || check(value, run, seen);
}

const stringsOf = (value: unknown): readonly string[] => (Array.isArray(value) ? value : []);
const entriesOf = (value: unknown): readonly (readonly [string, unknown])[] =>
  isJsonObject(value) ? Object.entries(value) : [];

const buildRequired: Builder = (setting) => {
  const names = stringsOf(setting);
  return onObject((value, run) => requireAll("required", names, value, run));
};

/** Reports each name that is missing. */
function requireAll(keyword: string, names: readonly string[], value: SchemaObject, run: SchemaRun): boolean {
  let valid = true;
  run.spend(names.length >> 2);
  for (const name of names) {
    if (Object.hasOwn(value, name)) continue;
    valid = run.report(
      keyword,
      () => `property ${quoteShortened(name)}`,
      undefined,
      () => "missing",
    );
    if (!run.collecting || run.full) return false;
  }
  return valid;
}

function buildSize(keyword: "minProperties" | "maxProperties"): Builder {
  return (setting) => {
    const limit = Number(setting);
    const isMin = keyword === "minProperties";
    const expected = (): string =>
      `an object with at ${isMin ? "least" : "most"} ${formatCount(limit, "property", "properties")}`;
    return onObject((value, run) => {
      const size = run.keysOf(value).length;
      if (isMin ? size >= limit : size <= limit) return true;
      return run.report(keyword, expected, value, () => formatCount(size, "property", "properties"));
    });
  };
}

const buildPropertyNames: Builder = (setting, _schema, context) => {
  const node = context.child(setting, "propertyNames");
  return onObject((value, run) => {
    let valid = true;
    for (const key of run.keysOf(value)) {
      // A name has no pointer of its own, so issues are reported at the member of that name.
      if (evaluate(node, key, run, undefined, key)) continue;
      valid = false;
      if (!run.collecting || run.full) return false;
    }
    return valid;
  });
};

/** The members that `properties` and `patternProperties` name, to which `additionalProperties` does not apply. */
interface Members {
  readonly named: ReadonlyMap<string, SchemaNode>;
  readonly patterned: readonly { readonly pattern: Pattern; readonly node: SchemaNode }[];
}

function membersOf(
  schema: SchemaObject,
  node: (keyword: string, name: string, schema: unknown) => SchemaNode,
): Members {
  const named = entriesOf(ownProperty(schema, "properties")).map(
    ([name, member]) => [name, node("properties", name, member)] as const,
  );
  const patterned = entriesOf(ownProperty(schema, "patternProperties")).map(([source, member]) => ({
    pattern: new Pattern(source),
    node: node("patternProperties", source, member),
  }));
  return { named: new Map(named), patterned };
}

/** `properties`, `patternProperties` and `additionalProperties` together, since the last depends on the others. */
const buildMembers: Builder = (_setting, schema, context) => {
  const members = membersOf(schema, (keyword, name, member) => context.child(member, keyword, name));
  const additional = ownProperty(schema, "additionalProperties");
  const rest = additional === undefined ? undefined : context.child(additional, "additionalProperties");
  // Listing the keys of a large object is the slowest part, so it is done only for keywords that need it.
  const mustList = members.patterned.length > 0 || (rest !== undefined && rest.schema !== true);
  return (value, run, seen) => {
    if (!isJsonObject(value)) return true;
    let valid = checkNamed(members, value, run, seen);
    if (!valid && !run.collecting) return false;
    if (seen !== undefined && rest?.schema === true) seen.all = true;
    if (mustList && !checkListed(members, rest, value, run, seen)) valid = false;
    return valid;
  };
};

function checkNamed(members: Members, value: SchemaObject, run: SchemaRun, seen: Seen | undefined): boolean {
  let valid = true;
  for (const [name, node] of members.named) {
    if (!Object.hasOwn(value, name)) {
      run.spend(1);
      continue;
    }
    seen?.keys.add(name);
    if (evaluate(node, value[name], run, undefined, name)) continue;
    valid = false;
    if (!run.collecting || run.full) return false;
  }
  return valid;
}

function checkListed(
  members: Members,
  rest: SchemaNode | undefined,
  value: SchemaObject,
  run: SchemaRun,
  seen: Seen | undefined,
): boolean {
  let valid = true;
  for (const key of run.keysOf(value)) {
    if (!checkMember(members, rest, key, value[key], run, seen)) valid = false;
    if (!valid && (!run.collecting || run.full)) return false;
  }
  return valid;
}

function checkMember(
  members: Members,
  rest: SchemaNode | undefined,
  key: string,
  member: unknown,
  run: SchemaRun,
  seen: Seen | undefined,
): boolean {
  let valid = true;
  let matched = members.named.has(key);
  for (const { pattern, node } of members.patterned) {
    if (!pattern.test(key, run)) continue;
    matched = true;
    seen?.keys.add(key);
    if (!evaluate(node, member, run, undefined, key)) valid = false;
  }
  run.spend(1);
  if (matched || rest === undefined) return valid;
  seen?.keys.add(key);
  if (rest.schema === false) return reportUnknown("additionalProperties", key, member, members, run);
  return evaluate(rest, member, run, undefined, key) && valid;
}

/** Reports a member that is not allowed, with the allowed names and the likely misspelling. */
function reportUnknown(keyword: string, key: string, member: unknown, members: Members, run: SchemaRun): false {
  run.path.push(key);
  run.report(
    keyword,
    () => {
      const allowed = [...members.named.keys()];
      const likely = didYouMean(key, allowed);
      const hint = likely === undefined ? "" : `; did you mean ${quoteShortened(likely)}?`;
      return `no property ${quoteShortened(key)} (${allowed.length === 0 ? "none is allowed" : `allowed: ${formatList(allowed, quoteShortened)}`}${hint})`;
    },
    member,
  );
  run.path.pop();
  return false;
}

/** Checks the members that no other keyword has evaluated. Must be the last check of its node. */
const buildUnevaluated: Builder = (setting, schema, context) => {
  const node = context.child(setting, "unevaluatedProperties");
  const members = membersOf(schema, () => node);
  return onObject((value, run, seen) => {
    if (seen === undefined || seen.all) return true;
    let valid = true;
    for (const key of run.keysOf(value)) {
      run.spend(1);
      if (seen.keys.has(key)) continue;
      const member = value[key];
      if (node.schema === false) valid = reportUnknown("unevaluatedProperties", key, member, members, run);
      else if (!evaluate(node, member, run, undefined, key)) valid = false;
      if (!valid && (!run.collecting || run.full)) return false;
    }
    seen.all = true;
    return valid;
  });
};

/** Builds `dependentRequired`, `dependentSchemas`, and draft-07's `dependencies`, which combines both. */
function buildDependent(keyword: string): Builder {
  return (setting, _schema, context) => {
    const rules = entriesOf(setting).map(([name, rule]) => ({
      name,
      rule: Array.isArray(rule) ? stringsOf(rule) : context.inPlace(rule, keyword, name),
    }));
    return onObject((value, run, seen) => {
      let valid = true;
      for (const { name, rule } of rules) {
        run.spend(1);
        if (!Object.hasOwn(value, name)) continue;
        const holds = "checks" in rule ? evaluate(rule, value, run, seen) : requireAll(keyword, rule, value, run);
        if (holds) continue;
        valid = false;
        if (!run.collecting || run.full) return false;
      }
      return valid;
    });
  };
}

export const OBJECT_CHECKS: readonly (readonly [keywords: readonly string[], build: Builder])[] = [
  [["required"], buildRequired],
  [["minProperties"], buildSize("minProperties")],
  [["maxProperties"], buildSize("maxProperties")],
  [["propertyNames"], buildPropertyNames],
  [["dependentRequired"], buildDependent("dependentRequired")],
  [["dependentSchemas"], buildDependent("dependentSchemas")],
  [["dependencies"], buildDependent("dependencies")],
  [["properties", "patternProperties", "additionalProperties"], buildMembers],
];
export const UNEVALUATED_PROPERTIES: readonly [readonly string[], Builder] = [
  ["unevaluatedProperties"],
  buildUnevaluated,
];
