// A subschema made ready to check values, and how one is evaluated. What a keyword checks is in checks-*.ts.
import type { Resource } from "./resource.ts";
import type { Run } from "./run.ts";
import type { Schema, SchemaObject } from "./schema-copy.ts";

/** Whether a value satisfies one keyword; when `run.collecting`, reports each problem. `seen` is for `unevaluated*` only. */
export type Check = (value: unknown, run: Run, seen: Seen | undefined) => boolean;

export interface SchemaNode {
  readonly schema: Schema;
  readonly resource: Resource;
  readonly pointer: string;
  readonly checks: Check[];
  /** Nodes checked against the same value: a cycle of these would never end. */
  readonly inPlace: SchemaNode[];
  /** Whether this node has `unevaluatedProperties` or `unevaluatedItems`. */
  needsSeen: boolean;
  /** What a schema that is nothing but a `$ref` stands for. */
  alias: SchemaNode | undefined;
}

/** What a builder of checks may ask of the compiler. */
export interface CompileContext {
  /** The node for the schema under `steps` of the one being built, checked against a member of the value. */
  child(schema: unknown, ...steps: readonly (string | number)[]): SchemaNode;
  /** The same, checked against the value itself. */
  inPlace(schema: unknown, ...steps: readonly (string | number)[]): SchemaNode;
  /** What a `$ref`, `$dynamicRef` or `$recursiveRef` means: the node, and the name by which the dynamic scope may replace it. */
  reference(keyword: string, reference: string): { node: SchemaNode; dynamicName: string | undefined };
  /** The node that has the dynamic anchor `name` in a resource. */
  dynamicNode(resource: Resource, name: string): SchemaNode | undefined;
}

/** Makes the check of one keyword from its value; the value's shape was checked by schema-check.ts. */
export type Builder = (stated: unknown, schema: SchemaObject, context: CompileContext) => Check | undefined;

/** Which members of one object or array some keyword has looked at (2020-12, section 11). */
export class Seen {
  all = false;
  readonly keys = new Set<string | number>();

  merge(other: Seen, run: Run): void {
    run.spend(other.keys.size);
    if (other.all) this.all = true;
    for (const key of other.keys) this.keys.add(key);
  }
}

/**
 * Few frames stand between two levels of an instance, here and in the checks: the stack then holds about 2,000 levels.
 * @param into where the members seen are noted, when a caller's `unevaluated*` needs them
 * @param key set when `value` is the member of that name
 */
export function evaluate(
  given: SchemaNode,
  value: unknown,
  run: Run,
  into: Seen | undefined,
  key?: string | number,
): boolean {
  if (run.full) return false;
  run.spend(1);
  const node = given.alias ?? given;
  const descends = run.collecting && key !== undefined;
  if (descends) run.path.push(key);
  const enters = run.scope[run.scope.length - 1] !== node.resource;
  if (enters) run.scope.push(node.resource);
  const seen = into !== undefined || node.needsSeen ? new Seen() : undefined;
  let valid = true;
  for (const check of node.checks) {
    if (check(value, run, seen)) continue;
    valid = false;
    if (!run.collecting) break;
  }
  if (enters) run.scope.pop();
  if (descends) run.path.pop();
  // While collecting, what a failed part looked at counts as seen: its problems are reported already.
  if (into !== undefined && seen !== undefined && (valid || run.collecting)) into.merge(seen, run);
  return valid;
}

/** Yes or no, reporting nothing. */
export function evaluateQuietly(node: SchemaNode, value: unknown, run: Run, into: Seen | undefined): boolean {
  const outer = run.collecting;
  run.collecting = false;
  const valid = evaluate(node, value, run, into);
  run.collecting = outer;
  return valid;
}
