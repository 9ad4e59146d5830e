// A compiled subschema, and its evaluation. The checks of keywords are in checks-*.ts.

import type { SchemaRun } from "../schema-run.ts";
import type { SchemaResource } from "./resource.ts";
import type { Schema, SchemaObject } from "./schema-copy.ts";

/** Tells whether a value satisfies one keyword. If `run.collecting`, reports each issue. `seen` is for `unevaluated*` only. */
export type Check = (value: unknown, run: SchemaRun, seen: Seen | undefined) => boolean;

export interface SchemaNode {
  readonly schema: Schema;
  readonly resource: SchemaResource;
  readonly pointer: string;
  readonly checks: Check[];
  /** Nodes checked against the same value: a cycle of these would never end. */
  readonly inPlace: SchemaNode[];
  /** Whether this node has `unevaluatedProperties` or `unevaluatedItems`. */
  needsSeen: boolean;
  /** The target of a schema that consists of a `$ref` only. */
  alias: SchemaNode | undefined;
}

/** The functions of the compiler that builders of checks use. */
export interface CompileContext {
  /** Returns the node of a subschema at `steps`, which is evaluated against a member of the value. */
  child(schema: unknown, ...steps: readonly (string | number)[]): SchemaNode;
  /** Returns the node of a subschema at `steps`, which is evaluated against the value itself. */
  inPlace(schema: unknown, ...steps: readonly (string | number)[]): SchemaNode;
  /** Returns the target of a `$ref`, `$dynamicRef` or `$recursiveRef`, and the name by which the dynamic scope may replace it. */
  reference(keyword: string, reference: string): { node: SchemaNode; dynamicName: string | undefined };
  /** Returns the node with the dynamic anchor `name` in a resource. */
  dynamicNode(resource: SchemaResource, name: string): SchemaNode | undefined;
}

/** Creates the check of one keyword from its value, whose form schema-check.ts has checked. */
export type Builder = (setting: unknown, schema: SchemaObject, context: CompileContext) => Check | undefined;

/** The members of one object or array that a keyword has evaluated (2020-12, section 11). */
export class Seen {
  all = false;
  readonly keys = new Set<string | number>();

  merge(other: Seen, run: SchemaRun): void {
    run.spend(other.keys.size);
    if (other.all) this.all = true;
    for (const key of other.keys) this.keys.add(key);
  }
}

/**
 * Evaluates a value against a node. This function and the checks use few stack frames per level, so that the stack holds about 2,000 levels.
 * @param into receives the evaluated members, if `unevaluated*` of the caller needs them
 * @param key name or index of `value`, if it is a member
 */
export function evaluate(
  given: SchemaNode,
  value: unknown,
  run: SchemaRun,
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
  // While collecting, members that a failed part has evaluated count as seen, since their issues are already reported.
  if (into !== undefined && seen !== undefined && (valid || run.collecting)) into.merge(seen, run);
  return valid;
}

/** Evaluates a value without reporting issues. */
export function evaluateQuietly(node: SchemaNode, value: unknown, run: SchemaRun, into: Seen | undefined): boolean {
  const outer = run.collecting;
  run.collecting = false;
  const valid = evaluate(node, value, run, into);
  run.collecting = outer;
  return valid;
}
