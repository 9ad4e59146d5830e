// Evaluates the expressions of a module that build a path or a URL from the module's own location, without running the code.
import { posix } from "node:path";
import { isSyntax, type Syntax } from "../transforms/syntax.ts";
import { keyOf, type ModuleNames } from "./module-names.ts";

/** A value that an expression may have. Expressions whose value is unknown have none. */
export type Value =
  | { readonly kind: "text"; readonly text: string }
  /** A path or a URL below the module's location. */
  | { readonly kind: "place"; readonly path: string; readonly isPrefix: boolean }
  /** The `require` of this module, as `createRequire()` returns it. */
  | { readonly kind: "require" };
type Place = Extract<Value, { kind: "place" }>;

/** Maximum number of values of one expression that are followed. */
const MAX_VALUES = 8;
/** Functions that return the path or URL that they are given. */
const SAME_PLACE: ReadonlySet<string> = new Set([
  "normalize",
  "realpathSync",
  "realpath",
  "native",
  "fileURLToPath",
  "pathToFileURL",
  "toNamespacedPath",
  "String",
  "decodeURI",
  "decodeURIComponent",
]);
const SAME_PLACE_METHODS: ReadonlySet<string> = new Set(["toString", "trim", "normalize", "valueOf"]);
/** Methods of strings whose result is a part of the path that is not computed here. */
const PART_METHODS: ReadonlySet<string> = new Set([
  "replace",
  "replaceAll",
  "slice",
  "split",
  "substr",
  "substring",
  "lastIndexOf",
]);
const placeOf = (path: string, isPrefix = false): Place => ({ kind: "place", path, isPrefix });
const present = (value: Value | undefined): readonly Value[] => (value === undefined ? [] : [value]);
const isPlace = (value: Value): value is Place => value.kind === "place";

/** Returns the folder that a prefix is in: "/a/b/" and "/a/b/c" are in "/a/b". */
const folderOf = (path: string): string => (path.endsWith("/") ? path : posix.dirname(path));

/** Resolves a relative URL. Returns undefined for an absolute one. */
function resolveUrl(relative: string, base: string): string | undefined {
  if (/^[a-z][a-z0-9+.-]*:/i.test(relative) || relative.startsWith("//")) return undefined;
  const path = relative.replace(/[?#].*$/s, "");
  try {
    if (path === "") return base;
    const target = posix.join(folderOf(base), decodeURIComponent(path));
    return /(?:^|\/)\.\.?$/.test(path) && !target.endsWith("/") ? `${target}/` : target;
  } catch {
    return undefined;
  }
}

type Combine = (place: Place, next: Value | undefined) => Value | undefined;

/** Appends text, as `+` does. */
const append: Combine = (place, next) => {
  if (place.isPrefix || next?.kind !== "text") return { ...place, isPrefix: true };
  return placeOf(place.path + next.text);
};

/** Appends a segment, as `path.join()` does. */
const appendSegment: Combine = (place, next) => {
  if (place.isPrefix) return place;
  // The path ends in a slash, so that the unknown segment is searched in this folder.
  if (next?.kind !== "text") return placeOf(`${place.path}/`, true);
  return placeOf(posix.join(place.path, next.text));
};

/** Appends a segment, as `path.resolve()` does: an absolute one starts again. */
const resolveSegment: Combine = (place, next) => {
  if (next?.kind === "place") return next;
  if (next?.kind === "text" && next.text.startsWith("/")) return undefined;
  return appendSegment(place, next);
};

export class LocationValues {
  readonly #module: string;
  readonly #names: ModuleNames;
  readonly #known = new Map<Syntax, readonly Value[]>();
  readonly #knownProperties = new Map<string, readonly Value[]>();

  constructor(module: string, names: ModuleNames) {
    this.#module = module;
    this.#names = names;
  }

  /** Returns the values that an expression may have, as far as they are known. */
  valuesOf(node: unknown): readonly Value[] {
    if (!isSyntax(node)) return [];
    const known = this.#known.get(node);
    if (known !== undefined) return known;
    // A value that depends on itself is unknown.
    this.#known.set(node, []);
    const values = this.#evaluate(node).slice(0, MAX_VALUES);
    this.#known.set(node, values);
    return values;
  }

  placesOf(node: unknown): readonly Place[] {
    return this.valuesOf(node).filter(isPlace);
  }

  /** Returns the name of a function: `join` of `path.join` and of `(0, path.join)`, and also if it was imported under another name. */
  nameOfFunction(callee: unknown): string | undefined {
    if (!isSyntax(callee)) return undefined;
    if (callee.type === "Identifier") return this.#names.find(callee)?.imported ?? String(callee.name);
    if (callee.type === "MemberExpression") return keyOf(callee.property, callee.computed);
    if (callee.type === "SequenceExpression") return this.nameOfFunction((callee.expressions as Syntax[]).at(-1));
    if (callee.type === "ChainExpression") return this.nameOfFunction(callee.expression);
    return undefined;
  }

  #evaluate(node: Syntax): readonly Value[] {
    switch (node.type) {
      case "Literal":
        return typeof node.value === "string" ? [{ kind: "text", text: node.value }] : [];
      case "TemplateLiteral":
        return this.#template(node);
      case "Identifier":
        return this.#identifier(node);
      case "MemberExpression":
        return this.#member(node);
      case "BinaryExpression":
        return node.operator === "+" ? this.#add(this.valuesOf(node.left), this.valuesOf(node.right)) : [];
      case "LogicalExpression":
        return [...(node.operator === "&&" ? [] : this.valuesOf(node.left)), ...this.valuesOf(node.right)];
      case "ConditionalExpression":
        return [...this.valuesOf(node.consequent), ...this.valuesOf(node.alternate)];
      case "SequenceExpression":
        return this.valuesOf((node.expressions as readonly Syntax[]).at(-1));
      case "AssignmentExpression":
        return this.valuesOf(node.right);
      case "AwaitExpression":
        return this.valuesOf(node.argument);
      case "ChainExpression":
        return this.valuesOf(node.expression);
      case "CallExpression":
      case "NewExpression":
        return this.#call(node);
      default:
        return [];
    }
  }

  #identifier(node: Syntax): readonly Value[] {
    const variable = this.#names.find(node);
    const values = (variable?.values ?? []).flatMap((value) => this.valuesOf(value));
    if (values.length > 0) return values;
    // A module may declare these names itself, in a way that is not followed. They mean the same then.
    if (node.name === "__dirname") return [placeOf(posix.dirname(this.#module))];
    if (node.name === "__filename") return [placeOf(this.#module)];
    return node.name === "require" && (variable?.values ?? []).length === 0 ? [{ kind: "require" }] : [];
  }

  #member(node: Syntax): readonly Value[] {
    const key = keyOf(node.property, node.computed);
    const object = node.object as Syntax;
    if (object.type === "MetaProperty") {
      if (key === "dirname") return [placeOf(posix.dirname(this.#module))];
      return key === "url" || key === "filename" ? [placeOf(this.#module)] : [];
    }
    if (key === undefined) return [];
    if (key === "sep") return [{ kind: "text", text: "/" }];
    if (key === "pathname" || key === "href") {
      const places = this.placesOf(object);
      if (places.length > 0) return places;
    }
    if (key === "dir" && object.type === "CallExpression" && this.nameOfFunction(object.callee) === "parse")
      return this.#parents((object.arguments as readonly Syntax[])[0]);
    return this.#property(key);
  }

  /** Returns the values that are assigned to properties of this name. */
  #property(key: string): readonly Value[] {
    const known = this.#knownProperties.get(key);
    if (known !== undefined) return known;
    this.#knownProperties.set(key, []);
    const values = (this.#names.properties.get(key) ?? []).flatMap((value) => this.placesOf(value));
    this.#knownProperties.set(key, values.slice(0, MAX_VALUES));
    return values.slice(0, MAX_VALUES);
  }

  #add(left: readonly Value[], right: readonly Value[]): readonly Value[] {
    const texts = right.length === 0 ? [undefined] : right;
    return left.flatMap((first) =>
      texts.flatMap((next): readonly Value[] => {
        if (first.kind === "place") return present(append(first, next));
        if (first.kind !== "text") return [];
        if (next?.kind === "text") return [{ kind: "text", text: first.text + next.text }];
        // "file://" + __dirname
        return next?.kind === "place" && /^(?:file:\/*)?$/.test(first.text) ? [next] : [];
      }),
    );
  }

  #template({ quasis, expressions }: Syntax): readonly Value[] {
    const texts = (quasis as readonly { readonly value: { readonly cooked?: string } }[]).map(({ value }): Value => {
      return { kind: "text", text: value.cooked ?? "" };
    });
    return (expressions as readonly Syntax[]).reduce<readonly Value[]>(
      (values, expression, index) =>
        this.#add(this.#add(values, this.valuesOf(expression)), texts.slice(index + 1, index + 2)),
      texts.slice(0, 1),
    );
  }

  #combine(first: readonly Value[], rest: readonly unknown[], combine: Combine): readonly Value[] {
    return rest.reduce<readonly Value[]>((places, part) => {
      const values = this.valuesOf(part);
      const next = values.length === 0 ? [undefined] : values;
      const all = places
        .filter(isPlace)
        .flatMap((place) => next.flatMap((value): readonly Value[] => present(combine(place, value))));
      return all.slice(0, MAX_VALUES);
    }, first.filter(isPlace));
  }

  #parents(node: unknown): readonly Value[] {
    return this.placesOf(node).map(({ path, isPrefix }) =>
      isPrefix ? placeOf(folderOf(path), true) : placeOf(posix.dirname(path)),
    );
  }

  #call(node: Syntax): readonly Value[] {
    const name = this.nameOfFunction(node.callee);
    const given = node.arguments as readonly Syntax[];
    const [first, second] = given;
    const callee = node.callee as Syntax;
    if (name === undefined) return [];
    if (SAME_PLACE.has(name) && first !== undefined && this.placesOf(first).length > 0) return this.placesOf(first);
    switch (name) {
      case "URL":
        return second === undefined ? this.placesOf(first) : this.#url(first, second);
      case "createRequire":
        return this.placesOf(first).length > 0 ? [{ kind: "require" }] : [];
      case "dirname":
        return this.#parents(first);
      case "join":
        if (callee.type === "MemberExpression" && (callee.object as Syntax).type === "ArrayExpression")
          return this.#join((callee.object as Syntax).elements as readonly Syntax[], appendSegment);
        return this.#join(given, appendSegment);
      case "resolve":
        return this.#resolve(callee, given);
      case "format":
        return this.#format(first);
    }
    return callee.type === "MemberExpression" ? this.#method(callee.object, name, given) : [];
  }

  #join([first, ...rest]: readonly Syntax[], combine: Combine): readonly Value[] {
    return this.#combine(this.placesOf(first), rest, combine);
  }

  #resolve(callee: Syntax, given: readonly Syntax[]): readonly Value[] {
    const object = callee.type === "MemberExpression" ? (callee.object as Syntax) : undefined;
    if (object?.type === "MetaProperty") return this.#required(given[0]);
    if (object !== undefined && this.valuesOf(object).some(({ kind }) => kind === "require"))
      return this.#required(given[0]);
    // What is before the first path of the module is dropped, as it is absolute.
    const start = given.findIndex((part) => this.placesOf(part).length > 0);
    return start < 0 ? [] : this.#join(given.slice(start), resolveSegment);
  }

  /** Returns what a relative specifier means. */
  #required(specifier: unknown): readonly Value[] {
    return this.valuesOf(specifier).flatMap((value) => {
      if (value.kind !== "text" || !/^\.\.?\//.test(value.text)) return [];
      return placeOf(posix.join(posix.dirname(this.#module), value.text));
    });
  }

  #url(relative: unknown, base: unknown): readonly Value[] {
    const texts = this.valuesOf(relative).flatMap((value) => (value.kind === "text" ? [value.text] : []));
    return this.placesOf(base).flatMap((place): readonly Value[] => {
      if (place.isPrefix || texts.length === 0) return [placeOf(folderOf(place.path), true)];
      return texts.flatMap((text) => {
        const path = resolveUrl(text, place.path);
        return path === undefined ? [] : placeOf(path);
      });
    });
  }

  /** `path.format({ dir, base })` */
  #format(options: unknown): readonly Value[] {
    if (!isSyntax(options) || options.type !== "ObjectExpression") return [];
    const properties = options.properties as readonly Syntax[];
    const partOf = (name: string) => properties.find(({ key, computed }) => keyOf(key, computed) === name)?.value;
    const folder = this.placesOf(partOf("dir") ?? partOf("root"));
    const base = partOf("base");
    if (base !== undefined) return this.#combine(folder, [base], appendSegment);
    const file = this.#combine(folder, [partOf("name")], appendSegment);
    return partOf("ext") === undefined ? file : this.#combine(file, [partOf("ext")], append);
  }

  #method(object: unknown, name: string, given: readonly Syntax[]): readonly Value[] {
    const places = this.placesOf(object);
    if (name === "concat") return this.#combine(places, given, append);
    if (SAME_PLACE_METHODS.has(name)) return places;
    return PART_METHODS.has(name) ? places.map(() => placeOf(`${posix.dirname(this.#module)}/`, true)) : [];
  }
}
