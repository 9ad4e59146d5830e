// Finds the parts of a schema that apply to a value, through $ref, allOf, if and dependentSchemas, and the unions among them.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { Pattern } from "../checks/pattern.ts";
import { ownProperty, type Schema, type SchemaObject } from "../schema/schema-copy.ts";
import type { SchemaRun } from "../schema-run.ts";

/** Access to a compiled document. */
export interface SchemaGuide {
  readonly root: Schema;
  resolve(schema: SchemaObject, reference: string): Schema | undefined;
  /** Whether keywords next to a `$ref` are ignored (draft 7 and earlier). */
  readonly refHidesSiblings: boolean;
  fits(schema: Schema, value: unknown, run: SchemaRun): boolean;
}

/** The schemas that apply to a value. */
export interface Applicable {
  readonly schemas: readonly SchemaObject[];
  /** The branches of each `anyOf` and `oneOf`. */
  readonly unions: readonly (readonly Schema[])[];
}

const schemasOf = (value: unknown): readonly Schema[] => (Array.isArray(value) ? (value as Schema[]) : []);
const isSchema = (value: unknown): value is Schema => typeof value === "boolean" || isJsonObject(value);

/** Returns the given schemas and those that apply through them. This ends, since the compiler rejects schemas that refer to themselves in place. */
export function applicableTo(given: readonly Schema[], value: unknown, guide: SchemaGuide, run: SchemaRun): Applicable {
  const schemas = new Set<SchemaObject>();
  const unions: (readonly Schema[])[] = [];
  const open = [...given].reverse();
  for (let schema = open.pop(); schema !== undefined; schema = open.pop()) {
    run.spend(1);
    if (!isJsonObject(schema) || schemas.has(schema)) continue;
    schemas.add(schema);
    const reference = ownProperty(schema, "$ref");
    const target = typeof reference === "string" ? guide.resolve(schema, reference) : undefined;
    if (target !== undefined) open.push(target);
    if (target !== undefined && guide.refHidesSiblings) continue;
    open.push(...schemasOf(ownProperty(schema, "allOf")));
    for (const keyword of ["anyOf", "oneOf"]) {
      const branches = schemasOf(ownProperty(schema, keyword));
      if (branches.length > 0) unions.push(branches);
    }
    open.push(...conditionalsOf(schema, value, guide, run));
  }
  return { schemas: [...schemas], unions };
}

function conditionalsOf(schema: SchemaObject, value: unknown, guide: SchemaGuide, run: SchemaRun): Schema[] {
  const found: Schema[] = [];
  const condition = ownProperty(schema, "if");
  if (isSchema(condition)) {
    const holds = guide.fits(condition, value, run);
    const then = ownProperty(schema, holds ? "then" : "else");
    if (isSchema(then)) found.push(then);
    if (holds) found.push(condition);
  }
  for (const keyword of ["dependentSchemas", "dependencies"]) {
    const dependents = ownProperty(schema, keyword);
    if (!isJsonObject(dependents) || !isJsonObject(value)) continue;
    for (const [name, dependent] of Object.entries(dependents)) {
      if (isSchema(dependent) && Object.hasOwn(value, name)) found.push(dependent);
    }
  }
  return found;
}

/** The schemas of one member of an object. */
export interface MemberView {
  readonly schemas: readonly Schema[];
  readonly isKnown: boolean;
}

/** The keywords of one schema about an object's members. */
interface MemberRules {
  readonly properties: SchemaObject;
  readonly patterns: readonly (readonly [Pattern, Schema])[];
  readonly additional: unknown;
  readonly unevaluated: unknown;
  readonly required: readonly unknown[];
  readonly namesMembers: boolean;
}

const NOTHING: SchemaObject = Object.create(null);

function rulesOf(schema: SchemaObject): MemberRules {
  const properties = ownProperty(schema, "properties");
  const patterns = ownProperty(schema, "patternProperties");
  const required = ownProperty(schema, "required");
  return {
    properties: isJsonObject(properties) ? properties : NOTHING,
    patterns: isJsonObject(patterns)
      ? Object.entries(patterns).map(([source, member]) => [new Pattern(source), member as Schema] as const)
      : [],
    additional: ownProperty(schema, "additionalProperties"),
    unevaluated: ownProperty(schema, "unevaluatedProperties"),
    required: Array.isArray(required) ? required : [],
    namesMembers: isJsonObject(properties) || isJsonObject(patterns),
  };
}

/**
 * Combines the rules of all schemas for an object's members. A member is known if a schema names it or explicitly allows additional members,
 * and no schema forbids it. If no schema names any member, every member is known.
 */
export function membersIn(schemas: readonly SchemaObject[], run: SchemaRun): (key: string) => MemberView {
  const all = schemas.map(rulesOf);
  const isClosed = all.some((rules) => rules.additional === false || rules.unevaluated === false);
  const isFree = !isClosed && !all.some((rules) => rules.namesMembers);
  const required = new Set(all.flatMap((rules) => rules.required));
  return (key) => {
    const members: Schema[] = [];
    let isKnown = isFree || required.has(key);
    let isForbidden = false;
    for (const rules of all) {
      const own: Schema[] = [];
      if (Object.hasOwn(rules.properties, key)) own.push(rules.properties[key] as Schema);
      for (const [pattern, member] of rules.patterns) if (pattern.test(key, run)) own.push(member);
      if (own.length > 0) isKnown = true;
      else if (rules.additional === false) isForbidden = true;
      else if (isSchema(rules.additional)) {
        isKnown = true;
        own.push(rules.additional);
      } else if (isJsonObject(rules.unevaluated)) own.push(rules.unevaluated);
      if (rules.unevaluated === true || isJsonObject(rules.unevaluated)) isKnown = true;
      members.push(...own);
    }
    return { schemas: members, isKnown: isKnown && !isForbidden };
  };
}

/** Returns a function that returns the schemas of an array's item at an index. */
export function itemsIn(schemas: readonly SchemaObject[]): (index: number) => readonly Schema[] {
  const all = schemas.map((schema) => {
    const items = ownProperty(schema, "items");
    const prefix = Array.isArray(items) ? (items as Schema[]) : schemasOf(ownProperty(schema, "prefixItems"));
    const rest = Array.isArray(items) ? ownProperty(schema, "additionalItems") : items;
    return { prefix, rest: isSchema(rest) ? [rest] : [] };
  });
  const prefixed = Math.max(0, ...all.map(({ prefix }) => prefix.length));
  const rest = all.flatMap((each) => each.rest);
  return (index) =>
    index >= prefixed
      ? rest
      : all.flatMap((each) => (index < each.prefix.length ? [each.prefix[index] as Schema] : each.rest));
}
