// Checks an untrusted schema, indexes its subschemas, `$id`s and anchors, and resolves references. References stay within the document:
// nothing is fetched.
import { isJsonObject } from "../../../sandbox/contract/value-kind.ts";
import { describeValue, formatList, quoteShortened } from "../describe.ts";
import { escapeStep, parsePointer } from "../json-pointer.ts";
import { DIALECT_NAMES, type Dialect, dialectOf, KEYWORD_SHAPES, refHidesSiblings } from "./keywords.ts";
import { RECURSIVE_ANCHOR, type SchemaResource } from "./resource.ts";
import { checkKeyword, type SchemaChecks } from "./schema-check.ts";
import { ownProperty, type Schema, type SchemaObject } from "./schema-copy.ts";
import type { RejectSchema } from "./schema-error.ts";

/** Base URI of a schema without `$id`. Its scheme cannot be fetched. */
const ROOT_URI = "glovebox:/schema";
/** Subschemas with an `$id`. Each dynamic reference may lead to any of them, so the limit bounds their product. */
const MAX_RESOURCES = 100;

interface Location {
  readonly resource: SchemaResource;
  readonly pointer: string;
}

export interface ResolvedRef {
  readonly schema: Schema;
  readonly resource: SchemaResource;
  /** The fragment, if it is a plain name and not a pointer. */
  readonly anchor: string | undefined;
}

export class SchemaDocument {
  readonly dialect: Dialect;
  readonly root: Schema;
  readonly rootResource: SchemaResource;
  readonly #resources = new Map<string, SchemaResource>();
  readonly #places = new Map<SchemaObject, Location>();
  readonly #reject: RejectSchema;
  readonly #checks: SchemaChecks;

  constructor(root: Schema, reject: RejectSchema) {
    this.#reject = reject;
    this.#checks = { reject, patterns: { unicodeClasses: 0 } };
    this.root = root;
    this.dialect = isJsonObject(root) ? this.#readDialect(root) : "2020-12";
    this.rootResource = { uri: ROOT_URI, root, anchors: new Map(), dynamicAnchors: new Map() };
    this.#resources.set(ROOT_URI, this.rootResource);
    this.#index(root, "", this.rootResource);
  }

  locationOf(schema: SchemaObject): Location {
    return this.#places.get(schema) ?? { resource: this.rootResource, pointer: "" };
  }

  resources(): Iterable<SchemaResource> {
    return this.#resources.values();
  }

  /** Returns the target of `reference` in `schema`. @throws {ToolError} when it is not in this document */
  resolve(schema: SchemaObject, keyword: string, reference: string): ResolvedRef {
    const location = this.locationOf(schema);
    const pointer = `${location.pointer}/${keyword}`;
    const target = parseReference(reference, location.resource.uri);
    const got = quoteShortened(reference);
    if (target === undefined) return this.#reject(pointer, "a URI reference", got);
    const resource = this.#resources.get(target.uri);
    if (resource === undefined) {
      return this.#reject(pointer, "a reference within this schema, such as #/$defs/name (none is fetched)", got);
    }
    const { fragment } = target;
    if (fragment !== "" && !fragment.startsWith("/")) {
      const anchored = resource.anchors.get(fragment);
      if (anchored === undefined) return this.#reject(pointer, "the name of an $anchor in this schema", got);
      return { schema: anchored, resource: this.locationOf(anchored).resource, anchor: fragment };
    }
    const found = this.#follow(resource, fragment);
    if (found === undefined) return this.#reject(pointer, "a reference to an existing schema", got);
    return found;
  }

  #follow(resource: SchemaResource, fragment: string): ResolvedRef | undefined {
    const steps = parsePointer(fragment);
    if (steps === undefined) return undefined;
    let value: unknown = resource.root;
    let inside = resource;
    let pointer = isJsonObject(value) ? this.locationOf(value).pointer : "";
    for (const step of steps) {
      value = stepInto(value, step);
      pointer += `/${escapeStep(step)}`;
      if (isJsonObject(value)) inside = this.#places.get(value)?.resource ?? inside;
    }
    if (typeof value !== "boolean" && !isJsonObject(value)) return undefined;
    // A schema under an unknown keyword, such as OpenAPI's "components", is indexed when it is first referenced.
    if (isJsonObject(value) && !this.#places.has(value)) this.#index(value, pointer, inside);
    return { schema: value, resource: inside, anchor: undefined };
  }

  #readDialect(root: SchemaObject): Dialect {
    const setting = ownProperty(root, "$schema");
    if (setting !== undefined && typeof setting !== "string")
      return this.#reject("/$schema", "a string", describeValue(setting));
    const known = formatList([...DIALECT_NAMES], (name) => name);
    return dialectOf(setting) ?? this.#reject("/$schema", `one of ${known}`, quoteShortened(setting ?? ""));
  }

  /** Checks the keywords of a schema and of its subschemas, and records the location of each subschema. */
  #index(schema: Schema, pointer: string, outer: SchemaResource): void {
    if (!isJsonObject(schema) || this.#places.has(schema)) return;
    const resource = this.#enter(schema, pointer, outer);
    this.#places.set(schema, { resource, pointer });
    for (const [keyword, value] of Object.entries(schema)) {
      const shape = KEYWORD_SHAPES.get(keyword);
      if (shape === undefined) continue;
      const keywordPointer = `${pointer}/${escapeStep(keyword)}`;
      for (const part of checkKeyword(shape, value, keywordPointer, this.#checks)) {
        this.#index(part.schema, part.pointer, resource);
      }
    }
  }

  /** Returns the resource that a schema belongs to: a new one if it has an `$id`. */
  #enter(schema: SchemaObject, pointer: string, outer: SchemaResource): SchemaResource {
    const legacy = refHidesSiblings(this.dialect);
    if (legacy && ownProperty(schema, "$ref") !== undefined) return outer;
    const idKeyword = this.dialect === "draft-04" ? "id" : "$id";
    const id = ownProperty(schema, idKeyword);
    let resource = outer;
    if (typeof id === "string") {
      const parsed = parseReference(id, outer.uri);
      if (parsed === undefined) return this.#reject(`${pointer}/${idKeyword}`, "a URI reference", quoteShortened(id));
      if (parsed.fragment !== "") this.#anchor(outer.anchors, parsed.fragment, schema, pointer);
      if (!id.startsWith("#")) resource = this.#openResource(parsed.uri, schema, pointer);
    }
    for (const keyword of ["$anchor", "$dynamicAnchor"]) {
      const name = ownProperty(schema, keyword);
      if (typeof name !== "string") continue;
      this.#anchor(resource.anchors, name, schema, pointer);
      if (keyword === "$dynamicAnchor") resource.dynamicAnchors.set(name, schema);
    }
    if (ownProperty(schema, "$recursiveAnchor") === true) resource.dynamicAnchors.set(RECURSIVE_ANCHOR, schema);
    return resource;
  }

  #openResource(uri: string, root: SchemaObject, pointer: string): SchemaResource {
    if (root === this.root) {
      this.#resources.set(uri, this.rootResource);
      Object.assign(this.rootResource, { uri });
      return this.rootResource;
    }
    if (this.#resources.size >= MAX_RESOURCES)
      this.#reject(pointer, `at most ${MAX_RESOURCES} parts with an $id`, "more");
    if (this.#resources.has(uri)) this.#reject(pointer, "an $id that no other part has", quoteShortened(uri));
    const resource: SchemaResource = { uri, root, anchors: new Map(), dynamicAnchors: new Map() };
    this.#resources.set(uri, resource);
    return resource;
  }

  #anchor(anchors: Map<string, SchemaObject>, name: string, schema: SchemaObject, pointer: string): void {
    const other = anchors.get(name);
    if (other !== undefined && other !== schema)
      this.#reject(pointer, "an anchor that no other part has", quoteShortened(name));
    anchors.set(name, schema);
  }
}

function stepInto(value: unknown, step: string): unknown {
  if (Array.isArray(value)) return /^(0|[1-9]\d{0,8})$/.test(step) ? value[Number(step)] : undefined;
  return isJsonObject(value) ? ownProperty(value, step) : undefined;
}

/** Returns a reference as an absolute URI and its decoded fragment; undefined if it is malformed. */
function parseReference(reference: string, base: string): { uri: string; fragment: string } | undefined {
  const url = URL.parse(reference, base);
  if (url === null) return undefined;
  try {
    const fragment = decodeURIComponent(url.hash.slice(1));
    url.hash = "";
    return { uri: url.href, fragment };
  } catch {
    return undefined;
  }
}
