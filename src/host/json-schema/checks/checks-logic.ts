// Keywords that apply other schemas to the same value: references, allOf, anyOf, oneOf, not, if.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { describeValue, formatConstant, formatList, typeOf } from "../describe.ts";
import type { SchemaIssue } from "../outcome.ts";
import { type Builder, evaluate, evaluateQuietly, type SchemaNode, Seen } from "../schema/node.ts";
import { ownProperty, type Schema } from "../schema/schema-copy.ts";
import type { SchemaRun } from "../schema-run.ts";

/** For unions with more branches, the issue only lists them, since finding the intended branch evaluates each of them again. */
const MAX_EXPLAINED_BRANCHES = 20;
const MAX_BRANCH_ISSUES = 5;
const NO_DESCRIPTION = "something the schema rules out";

function buildReference(keyword: "$ref" | "$dynamicRef" | "$recursiveRef"): Builder {
  return (setting, _schema, context) => {
    const { node, dynamicName } = context.reference(keyword, String(setting));
    if (dynamicName === undefined) return (value, run, seen) => evaluate(node, value, run, seen);
    return (value, run, seen) => {
      run.spend(run.scope.length);
      const outermost = run.scope.find((resource) => resource.dynamicAnchors.has(dynamicName));
      const target = outermost === undefined ? undefined : context.dynamicNode(outermost, dynamicName);
      return evaluate(target ?? node, value, run, seen);
    };
  };
}

function branchesOf(setting: unknown, inPlace: (schema: unknown, index: number) => SchemaNode): readonly SchemaNode[] {
  return Array.isArray(setting) ? setting.map(inPlace) : [];
}

const buildAllOf: Builder = (setting, _schema, context) => {
  const branches = branchesOf(setting, (schema, index) => context.inPlace(schema, "allOf", index));
  return (value, run, seen) => {
    let valid = true;
    for (const branch of branches) {
      if (evaluate(branch, value, run, seen)) continue;
      valid = false;
      if (!run.collecting || run.full) return false;
    }
    return valid;
  };
};

const buildAnyOf: Builder = (setting, _schema, context) => {
  const branches = branchesOf(setting, (schema, index) => context.inPlace(schema, "anyOf", index));
  return (value, run, seen) => {
    let matched = false;
    for (const branch of branches) {
      if (evaluateQuietly(branch, value, run, seen)) matched = true;
      // Every matching branch may evaluate members for `unevaluated*`. Without that, the first match is enough.
      if (matched && seen === undefined) return true;
    }
    return matched || explain("anyOf", branches, value, run);
  };
};

const buildOneOf: Builder = (setting, _schema, context) => {
  const branches = branchesOf(setting, (schema, index) => context.inPlace(schema, "oneOf", index));
  return (value, run, seen) => {
    let matches = 0;
    for (const branch of branches) {
      const noted = seen === undefined ? undefined : new Seen();
      if (!evaluateQuietly(branch, value, run, noted)) continue;
      matches += 1;
      if (matches > 1) {
        const got = (): string => `${describeValue(value)}, which matches several`;
        return run.report("oneOf", () => `exactly ${describeBranches(branches)}`, value, got);
      }
      if (seen !== undefined && noted !== undefined) seen.merge(noted, run);
    }
    return matches === 1 || explain("oneOf", branches, value, run);
  };
};

const buildNot: Builder = (setting, _schema, context) => {
  const node = context.inPlace(setting, "not");
  return (value, run) =>
    !evaluateQuietly(node, value, run, undefined) ||
    run.report("not", () => `anything but ${describeSchema(node.schema)}`, value);
};

const buildIf: Builder = (setting, schema, context) => {
  const condition = context.inPlace(setting, "if");
  const branch = (keyword: string): SchemaNode | undefined => {
    const part = ownProperty(schema, keyword);
    return part === undefined ? undefined : context.inPlace(part, keyword);
  };
  const whenTrue = branch("then");
  const whenFalse = branch("else");
  return (value, run, seen) => {
    const next = evaluateQuietly(condition, value, run, seen) ? whenTrue : whenFalse;
    return next === undefined || evaluate(next, value, run, seen);
  };
};

/**
 * Reports that no branch matches. If exactly one branch is intended, by its type or by a constant such as a union's `kind`, its issues are
 * reported; otherwise one issue lists the branches.
 */
function explain(keyword: string, branches: readonly SchemaNode[], value: unknown, run: SchemaRun): false {
  if (!run.collecting || run.full) return false;
  const intended = branches.length > MAX_EXPLAINED_BRANCHES ? [] : findIntended(branches, value, run);
  const [only] = intended;
  if (intended.length === 1 && only !== undefined) return run.adopt(only);
  return run.report(keyword, () => describeBranches(branches), value);
}

/** Returns the issues of each branch that may be intended. */
function findIntended(
  branches: readonly SchemaNode[],
  value: unknown,
  run: SchemaRun,
): readonly (readonly SchemaIssue[])[] {
  const depth = run.path.length;
  const found: (readonly SchemaIssue[])[] = [];
  for (const branch of branches) {
    const issues = run.collectApart(MAX_BRANCH_ISSUES, () => evaluate(branch, value, run, undefined));
    const isOther = issues.some((issue) => showsOtherBranch(issue, depth));
    if (!isOther && issues.length > 0) found.push(issues);
  }
  return found;
}

/** Tells whether an issue shows that another branch is intended: a wrong type of the value, or a wrong constant in it or in a member. */
function showsOtherBranch({ pointer, keyword }: SchemaIssue, depth: number): boolean {
  const below = pointer.split("/").length - 1 - depth;
  if (keyword === "type" || keyword === "false") return below <= 0;
  return (keyword === "const" || keyword === "enum") && below <= 1;
}

/** Returns text such as `one of string, number`, or only the number of branches if one of them has no description. */
function describeBranches(branches: readonly SchemaNode[]): string {
  const texts = new Set(branches.map((branch) => describeSchema(branch.schema)));
  if (texts.has(NO_DESCRIPTION)) return `one of ${branches.length} forms`;
  return `one of ${formatList([...texts], (text) => text)}`;
}

/** Describes a schema in a few words, by its constants, type or required members. */
function describeSchema(schema: Schema): string {
  if (!isJsonObject(schema)) return schema ? "anything" : "nothing";
  const constantValue = ownProperty(schema, "const");
  if (constantValue !== undefined) return formatConstant(constantValue);
  const values = ownProperty(schema, "enum");
  if (Array.isArray(values)) return formatList(values, formatConstant);
  const type = ownProperty(schema, "type");
  const name = Array.isArray(type) ? type.join(" or ") : typeof type === "string" ? type : undefined;
  const tag = isJsonObject(ownProperty(schema, "properties"))
    ? describeTag(ownProperty(schema, "properties"))
    : undefined;
  const required = ownProperty(schema, "required");
  if (tag !== undefined) return `${name ?? "object"} with ${tag}`;
  if (Array.isArray(required) && required.length > 0)
    return `${name ?? "object"} with ${formatList(required, formatConstant)}`;
  const reference = ownProperty(schema, "$ref");
  if (name === undefined && typeof reference === "string") return formatConstant(reference.split("/").at(-1));
  return name ?? NO_DESCRIPTION;
}

/** Describes the first member with a constant value, which distinguishes the branches of a tagged union. */
function describeTag(properties: unknown): string | undefined {
  if (!isJsonObject(properties)) return undefined;
  for (const [name, member] of Object.entries(properties)) {
    const value = isJsonObject(member) ? ownProperty(member, "const") : undefined;
    if (value !== undefined && typeOf(value) !== "object") return `${formatConstant(name)}: ${formatConstant(value)}`;
  }
  return undefined;
}

export const REFERENCE_CHECKS: readonly (readonly [keywords: readonly string[], build: Builder])[] = [
  [["$ref"], buildReference("$ref")],
];
export const DYNAMIC_REFERENCES = {
  "2020-12": [["$dynamicRef"], buildReference("$dynamicRef")],
  "2019-09": [["$recursiveRef"], buildReference("$recursiveRef")],
} as const satisfies Record<string, readonly [readonly string[], Builder]>;
export const LOGIC_CHECKS: readonly (readonly [keywords: readonly string[], build: Builder])[] = [
  [["allOf"], buildAllOf],
  [["anyOf"], buildAnyOf],
  [["oneOf"], buildOneOf],
  [["not"], buildNot],
  [["if"], buildIf],
];
