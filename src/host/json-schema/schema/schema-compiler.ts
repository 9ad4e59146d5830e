// Compiles an indexed document to nodes: one for each subschema, with resolved references. Rejects cycles whose evaluation would never end.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { ARRAY_CHECKS, UNEVALUATED_ITEMS } from "../checks/checks-array.ts";
import { DYNAMIC_REFERENCES, LOGIC_CHECKS, REFERENCE_CHECKS } from "../checks/checks-logic.ts";
import { OBJECT_CHECKS, UNEVALUATED_PROPERTIES } from "../checks/checks-object.ts";
import { SCALAR_CHECKS } from "../checks/checks-scalar.ts";
import { toPointer } from "../json-pointer.ts";
import { refHidesSiblings } from "./keywords.ts";
import type { Builder, CompileContext, SchemaNode } from "./node.ts";
import { RECURSIVE_ANCHOR, type SchemaResource } from "./resource.ts";
import { ownProperty, type Schema, type SchemaObject } from "./schema-copy.ts";
import type { SchemaDocument } from "./schema-document.ts";
import type { RejectSchema } from "./schema-error.ts";

type Row = readonly [keywords: readonly string[], build: Builder];
interface OrderedRow {
  readonly keywords: readonly string[];
  readonly build: Builder;
  readonly order: number;
}

/** Checks in the order of evaluation: cheap and informative ones first, `unevaluated*` last, since they depend on the others. */
const FIRST_ROWS: readonly Row[] = SCALAR_CHECKS.map(([keyword, build]): Row => [[keyword], build]);
const LAST_ROWS: readonly Row[] = [
  ...ARRAY_CHECKS,
  ...OBJECT_CHECKS,
  ...LOGIC_CHECKS,
  UNEVALUATED_PROPERTIES,
  UNEVALUATED_ITEMS,
];

export interface CompiledDocument {
  readonly root: SchemaNode;
  /** Returns undefined for a part of the document that is not a schema. */
  nodeOf(schema: SchemaObject): SchemaNode | undefined;
}

/** @throws {ToolError} for a `$ref` without a target, or one that leads only back to itself */
export function compileDocument(document: SchemaDocument, reject: RejectSchema): CompiledDocument {
  const compiler = new SchemaCompiler(document);
  const root = compiler.compile();
  rejectCycles(compiler.nodes(), reject);
  shortenAliases(compiler.nodes());
  return { root, nodeOf: (schema) => compiler.nodeOf(schema) };
}

class SchemaCompiler {
  readonly #document: SchemaDocument;
  readonly #nodes = new Map<SchemaObject, SchemaNode>();
  readonly #waiting: SchemaNode[] = [];
  readonly #rows: ReadonlyMap<string, OrderedRow>;

  constructor(document: SchemaDocument) {
    this.#document = document;
    const { dialect } = document;
    const dynamic = dialect === "2020-12" || dialect === "2019-09" ? [DYNAMIC_REFERENCES[dialect]] : [];
    const rows = [...FIRST_ROWS, ...REFERENCE_CHECKS, ...dynamic, ...LAST_ROWS];
    this.#rows = new Map(
      rows.flatMap(([keywords, build], order) => {
        const row: OrderedRow = { keywords, build, order };
        return keywords.map((keyword) => [keyword, row] as const);
      }),
    );
  }

  compile(): SchemaNode {
    const root = this.#nodeFor(this.#document.root, this.#document.rootResource, "");
    // A work list instead of recursion, since chains of references may have thousands of schemas.
    for (let node = this.#waiting.pop(); node !== undefined; node = this.#waiting.pop()) this.#fill(node);
    return root;
  }

  nodes(): Iterable<SchemaNode> {
    return this.#nodes.values();
  }

  nodeOf(schema: SchemaObject): SchemaNode | undefined {
    return this.#nodes.get(schema);
  }

  #nodeFor(schema: Schema, resource: SchemaResource, pointer: string): SchemaNode {
    if (!isJsonObject(schema)) return booleanNode(schema, resource, pointer);
    const known = this.#nodes.get(schema);
    if (known !== undefined) return known;
    const location = this.#document.locationOf(schema);
    const node: SchemaNode = { schema, ...location, checks: [], inPlace: [], needsSeen: false, alias: undefined };
    this.#nodes.set(schema, node);
    this.#waiting.push(node);
    return node;
  }

  #fill(node: SchemaNode): void {
    const { schema } = node;
    if (!isJsonObject(schema)) return;
    const context = this.#contextFor(node, schema);
    const onlyReference = refHidesSiblings(this.#document.dialect) && ownProperty(schema, "$ref") !== undefined;
    const rows = this.#rowsFor(schema, onlyReference);
    for (const { keywords, build } of rows) {
      const setting = keywords.map((keyword) => ownProperty(schema, keyword)).find((value) => value !== undefined);
      const check = build(setting, schema, context);
      if (check !== undefined) node.checks.push(check);
    }
    const isSeenBy = (keyword: string): boolean => !onlyReference && ownProperty(schema, keyword) !== undefined;
    node.needsSeen = isSeenBy("unevaluatedProperties") || isSeenBy("unevaluatedItems");
    if (rows.length === 1 && rows[0]?.keywords[0] === "$ref") node.alias = aliasOf(node);
  }

  /** Returns the rows of the schema's own keywords, since most schemas have two or three of forty. */
  #rowsFor(schema: SchemaObject, onlyReference: boolean): readonly OrderedRow[] {
    const found = new Set<OrderedRow>();
    for (const keyword of onlyReference ? ["$ref"] : Object.keys(schema)) {
      const row = this.#rows.get(keyword);
      if (row !== undefined) found.add(row);
    }
    return [...found].sort((a, b) => a.order - b.order);
  }

  #contextFor(node: SchemaNode, schema: SchemaObject): CompileContext {
    const child: CompileContext["child"] = (part, ...steps) => {
      const pointer = node.pointer + toPointer(steps);
      return this.#nodeFor(part as Schema, node.resource, pointer);
    };
    const tie = (target: SchemaNode): SchemaNode => {
      node.inPlace.push(target);
      return target;
    };
    return {
      child,
      inPlace: (part, ...steps) => tie(child(part, ...steps)),
      reference: (keyword, reference) => {
        const target = this.#document.resolve(schema, keyword, reference);
        const dynamicName = dynamicNameOf(keyword, target.resource, target.schema, target.anchor);
        if (dynamicName !== undefined) this.#tieDynamic(dynamicName, tie);
        return { node: tie(this.#nodeFor(target.schema, target.resource, "")), dynamicName };
      },
      dynamicNode: (resource, name) => {
        const target = resource.dynamicAnchors.get(name);
        return target === undefined ? undefined : this.#nodes.get(target);
      },
    };
  }

  /** Compiles the targets in all resources that have the name, since each of them may be selected at run time. */
  #tieDynamic(name: string, tie: (target: SchemaNode) => SchemaNode): void {
    for (const resource of new Set(this.#document.resources())) {
      const schema = resource.dynamicAnchors.get(name);
      if (schema !== undefined) tie(this.#nodeFor(schema, resource, ""));
    }
  }
}

/** Returns the name that a reference looks up in the dynamic scope; undefined for an ordinary reference. */
function dynamicNameOf(
  keyword: string,
  resource: SchemaResource,
  schema: Schema,
  anchor: string | undefined,
): string | undefined {
  const name = keyword === "$recursiveRef" ? RECURSIVE_ANCHOR : keyword === "$dynamicRef" ? anchor : undefined;
  if (name === undefined) return undefined;
  return resource.dynamicAnchors.get(name) === schema ? name : undefined;
}

/** Returns the target of a `$ref` within the same resource. Entering another resource matters to `$dynamicRef`, so there is no alias then. */
function aliasOf(node: SchemaNode): SchemaNode | undefined {
  const [target] = node.inPlace;
  return target?.resource === node.resource && node.resource.root !== node.schema ? target : undefined;
}

/** Points each alias directly to the end of its chain. Chains have no cycles: see rejectCycles. */
function shortenAliases(nodes: Iterable<SchemaNode>): void {
  for (const node of nodes) {
    while (node.alias?.alias !== undefined) node.alias = node.alias.alias;
  }
}

function booleanNode(schema: boolean, resource: SchemaResource, pointer: string): SchemaNode {
  const node: SchemaNode = { schema, resource, pointer, checks: [], inPlace: [], needsSeen: false, alias: undefined };
  if (!schema) node.checks.push((value, run) => run.report("false", () => "nothing here", value));
  return node;
}

/** Rejects schemas that lead back to themselves in location, such as {"$ref": "#"}: their evaluation would never end. */
function rejectCycles(nodes: Iterable<SchemaNode>, reject: RejectSchema): void {
  const state = new Map<SchemaNode, "open" | "done">();
  for (const start of nodes) {
    if (state.has(start)) continue;
    const stack = [{ node: start, next: 0 }];
    state.set(start, "open");
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const target = top.node.inPlace[top.next++];
      if (target === undefined) {
        state.set(top.node, "done");
        stack.pop();
      } else if (state.get(target) === "open") {
        reject(top.node.pointer, "a schema that does not lead back to itself", "one that would be checked forever");
      } else if (!state.has(target)) {
        state.set(target, "open");
        stack.push({ node: target, next: 0 });
      }
    }
  }
}
