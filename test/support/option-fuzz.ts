// A fuzz test for options: any wrong value, at any depth, must be rejected with its path.
import fc from "fast-check";
import { expect, test } from "vitest";
import type * as z from "zod";
import { keysAt, MAX_SUGGESTED_NAMES } from "../../src/host/config/option-errors.ts";
import { ToolError } from "../../src/sandbox/contract/errors.ts";
import { isPlainObject } from "../../src/sandbox/contract/plain-object.ts";
import { STRIKES_ALL } from "./attack-sample.ts";
import { inOtherRealm } from "./failing-callbacks.ts";

const isObject = (value: unknown): value is object => typeof value === "object" && value !== null;
const isText = (value: unknown): boolean => typeof value === "string";
const isFunction = (value: unknown): boolean => typeof value === "function";
const isJson = (value: unknown): boolean =>
  value === null ||
  ["string", "number", "boolean"].includes(typeof value) ||
  Array.isArray(value) ||
  isPlainObject(value);

/** Kinds of values, each with a test of what could be a right one: anything else must be rejected. */
const KINDS = {
  text: isText,
  number: (value) => typeof value === "number",
  boolean: (value) => typeof value === "boolean",
  function: isFunction,
  list: Array.isArray,
  /** Any object: a provider, a client, a store. */
  object: isObject,
  /** An object of any class, of which only some members are read. */
  instance: isObject,
  "text or null": (value) => value === null || isText(value),
  "text or instance": (value) => isText(value) || isObject(value),
  "text or list": (value) => isText(value) || Array.isArray(value),
  "text or function": (value) => isText(value) || isFunction(value),
  "text or object": (value) => isText(value) || isObject(value),
  "text, list or function": (value) => isText(value) || isFunction(value) || Array.isArray(value),
  "list or function": (value) => isFunction(value) || Array.isArray(value),
  "object or null": (value) => typeof value === "object",
  "object or function": (value) => isObject(value) || isFunction(value),
  "boolean, text or object": (value) => typeof value === "boolean" || isText(value) || isObject(value),
  "boolean or text": (value) => typeof value === "boolean" || isText(value),
  "boolean or list": (value) => typeof value === "boolean" || Array.isArray(value),
  "boolean or object": (value) => typeof value === "boolean" || isObject(value),
  /** Any value of a type that JSON has. */
  json: isJson,
  /** Any value at all, as the input of a run. */
  any: () => true,
} as const satisfies Record<string, (value: unknown) => boolean>;

/** The options of one object by key: a kind, the options of a nested object, or both for an object that may also be of another kind. */
export interface OptionTable {
  readonly [key: string]: keyof typeof KINDS | OptionTable | Alternative;
}
type Alternative = readonly [kind: keyof typeof KINDS, table: OptionTable];

/** A public function, constructor or method that takes options. */
export interface PublicEntry {
  /** As a host writes it: `new ToolRouter(options)`. */
  readonly name: string;
  /** The name of the object in errors: `options`, or empty where errors begin with the key. */
  readonly where: string;
  /** The options that it takes, or the kind of an argument that is no options object. */
  readonly options: OptionTable | keyof typeof KINDS;
  /** The schema of the options, where an error lists fewer than all of them. */
  readonly schema?: z.core.$ZodType;
  /** The fewest options with which the call is right, or a right value of another kind. Default: `{}` */
  readonly valid?: () => unknown;
  /** Values that each property is tried with. Default: 25, or 100 with GLOVEBOX_ATTACKS=all */
  readonly runs?: number;
  /** Whether the options are sent as JSON, where a Date is text. */
  readonly isSent?: boolean;
  /** Calls it. It may throw, reject, or give a ToolResult. */
  readonly call: (given: unknown) => unknown;
}

class Settings {
  readonly timeoutMs = 1;
}

/** Values of every type; `undefined` is not among them: it means "not given". */
const anyValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.string(),
  fc.integer(),
  fc.double(),
  fc.bigInt(),
  fc.boolean(),
  fc.array(fc.integer(), { maxLength: 3 }),
  fc.constantFrom<unknown>(null, {}, Symbol("s"), new Date(0), inOtherRealm("({})"), inOtherRealm("[]")),
  fc.constant(null).map(() => () => undefined),
  fc.constant(null).map(() => new Map([["a", 1]])),
  fc.constant(null).map(() => Promise.resolve({})),
);

/** Values that are not plain objects. Most of them have no own keys to reject. */
const noPlainObject: fc.Arbitrary<unknown> = fc.oneof(
  fc.string(),
  fc.integer(),
  fc.boolean(),
  fc.constant(null).map(() => []),
  fc.constant(null).map(() => new Map()),
  fc.constant(null).map(() => new Set()),
  fc.constant(null).map(() => Promise.resolve({})),
  fc.constant(null).map(() => inOtherRealm("Promise.resolve({})")),
  fc.constant(null).map(() => new Settings()),
  fc.constant(null).map(() => Object.create({ timeoutMs: 1 })),
  fc.constant(null).map(() => () => ({})),
);

/** Paths to each options object, and to each option that is not one. */
function pathsOf(table: PublicEntry["options"]): {
  readonly objects: readonly string[][];
  /** Objects that may be of another kind as well. */
  readonly alternatives: readonly string[][];
  readonly leaves: readonly string[][];
} {
  if (typeof table === "string") return { objects: [], alternatives: [], leaves: table === "any" ? [] : [[]] };
  const objects: string[][] = [[]];
  const alternatives: string[][] = [];
  const leaves: string[][] = [];
  for (const [key, kind] of Object.entries(table)) {
    if (typeof kind === "string") {
      if (kind !== "any") leaves.push([key]);
      continue;
    }
    const below = pathsOf(isAlternative(kind) ? kind[1] : kind);
    const [own, ...inner] = below.objects.map((path) => [key, ...path]) as [string[], ...string[][]];
    objects.push(...inner);
    (isAlternative(kind) ? alternatives : objects).push(own);
    if (isAlternative(kind)) leaves.push(own);
    alternatives.push(...below.alternatives.map((path) => [key, ...path]));
    leaves.push(...below.leaves.map((path) => [key, ...path]));
  }
  return { objects, alternatives, leaves };
}

type Node = OptionTable[string];
const isAlternative = (node: Node): node is Alternative => Array.isArray(node);
const at = (table: PublicEntry["options"], path: readonly string[]): Node =>
  path.reduce<Node>((found, key) => (isAlternative(found) ? found[1] : (found as OptionTable))[key] as Node, table);
const kindAt = (table: PublicEntry["options"], path: readonly string[]): keyof typeof KINDS => {
  const node = at(table, path);
  return (isAlternative(node) ? node[0] : node) as keyof typeof KINDS;
};
const keysOf = (table: PublicEntry["options"], path: readonly string[]): readonly string[] => {
  const node = at(table, path);
  return Object.keys(isAlternative(node) ? node[1] : node);
};

/** A copy of the options with a value at a path; objects on the way that are not there are made. */
function withValue(options: unknown, [key, ...rest]: readonly string[], value: unknown): unknown {
  if (key === undefined) return value;
  const fields = (options ?? {}) as Readonly<Record<string, unknown>>;
  return { ...fields, [key]: withValue(fields[key], rest, value) };
}

/** Keys that look like a known one, as a slip of the pen would have them, and any other. */
function unknownKey(known: readonly string[]): fc.Arbitrary<string> {
  const changed = fc
    .tuple(fc.constantFrom(...known, "tenantId"), fc.constantFrom("upper", "plural", "cut", "swap"))
    .map(([key, how]) => {
      if (how === "upper") return key.toUpperCase();
      if (how === "plural") return key.endsWith("s") ? key.slice(0, -1) : `${key}s`;
      return how === "cut" ? key.slice(0, -1) : key.slice(1) + key.charAt(0);
    });
  const other = fc.stringMatching(/^[a-zA-Z_$][\w$]{0,20}$/);
  const isUnknown = (key: string): boolean => key !== "" && key !== "__proto__" && !known.includes(key);
  return fc.oneof(changed, other).filter(isUnknown);
}

/** The error that a call throws, rejects with, or gives as its result; undefined where it has none. */
async function errorOf(entry: PublicEntry, given: unknown): Promise<{ code: string; message: string } | undefined> {
  try {
    const result = (await entry.call(given)) as { readonly success?: boolean; readonly error?: ToolError } | undefined;
    return result?.success === false ? result.error : undefined;
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    // The client of browsers, which does not have ToolError.
    if (thrown instanceof TypeError && (thrown as { readonly code?: unknown }).code === "PARAM_INVALID")
      return { code: "PARAM_INVALID", message: thrown.message };
    throw thrown;
  }
}

async function expectRejected(entry: PublicEntry, given: unknown, path: readonly string[]): Promise<void> {
  const error = await errorOf(entry, given);
  expect(error?.code).toBe("PARAM_INVALID");
  expect(error?.message).toContain([entry.where, ...path].filter((step) => step !== "").join("."));
}

/** What calls of the host carry from one part of it to another. */
const INTERNAL_KEYS: ReadonlySet<string> = new Set(["nestedCalls", "replay", "run", "timeline"]);
/** A key that is like no option, so that the error lists the known ones. */
const ODD_KEY = "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz";

/**
 * Returns the keys that an entry knows in the object at a path, as its error for an unknown key lists them; undefined if it takes any key, or
 * lists none. A list of {@link MAX_SUGGESTED_NAMES} may have more.
 */
async function knownKeys(
  entry: PublicEntry,
  options: unknown,
  path: readonly string[],
): Promise<readonly string[] | undefined> {
  if (entry.schema !== undefined) {
    const known = keysAt(entry.schema, path);
    return known.length === 0 ? undefined : known;
  }
  const error = await errorOf(entry, withValue(options, [...path, ODD_KEY], 1)).catch(() => undefined);
  const start = `${[entry.where, ...path, ODD_KEY].filter((step) => step !== "").join(".")}: Unknown option`;
  const [, message] = error?.message.split(start) ?? [];
  if (message === undefined) return undefined;
  const [, list] = /^\. Expected one of: (\w+(?:, \w+)*)/.exec(message) ?? [];
  return list?.split(", ").filter((key) => !INTERNAL_KEYS.has(key));
}

/** Values that are tried for each argument. Each run of the tests draws other ones. */
const RUNS = STRIKES_ALL ? 100 : 25;

/** Declares the fuzz tests of a table's entries. */
export function fuzzOptions(entries: readonly PublicEntry[]): void {
  const rows = entries.map((entry) => [entry.name, entry] as const);
  const withObject = rows.filter(([, { options }]) => pathsOf(options).objects.length > 0);
  const validOf = ({ valid }: PublicEntry): unknown => valid?.() ?? {};

  test.for(rows)("%s accepts right options", async ([, entry]) => {
    expect(await errorOf(entry, validOf(entry))).toBeUndefined();
  });

  test.for(withObject)("the table of %s has each option, and those of nested objects", async ([, entry]) => {
    const { objects, alternatives, leaves } = pathsOf(entry.options);
    const isTable = new Set(alternatives.map((path) => path.join(".")));
    for (const path of [...objects, ...alternatives]) {
      const known = await knownKeys(entry, validOf(entry), path);
      if (known === undefined) continue;
      const listed = keysOf(entry.options, path);
      const isWhole = entry.schema !== undefined || known.length < MAX_SUGGESTED_NAMES - INTERNAL_KEYS.size;
      const compared = isWhole ? listed : listed.filter((key) => known.includes(key));
      expect([...compared].sort(), path.join(".")).toEqual([...known].sort());
    }
    for (const path of leaves.filter((leaf) => !isTable.has(leaf.join(".")))) {
      if (!kindAt(entry.options, path).includes("object")) continue;
      const known = await knownKeys(entry, validOf(entry), path);
      expect(known, `${entry.name}: the table of ${path.join(".")}`).toBeUndefined();
    }
  });

  test.for(withObject)("%s rejects an unknown key with its path", async ([, entry]) => {
    const { objects, alternatives } = pathsOf(entry.options);
    const place = fc
      .constantFrom(...objects, ...alternatives)
      .chain((path) => fc.tuple(fc.constant(path), unknownKey(keysOf(entry.options, path)), anyValue));
    const property = fc.asyncProperty(place, async ([path, key, value]) => {
      await expectRejected(entry, withValue(validOf(entry), [...path, key], value), [...path, key]);
    });
    await fc.assert(property, { numRuns: entry.runs ?? RUNS });
  });

  test.for(rows.filter(([, { options }]) => pathsOf(options).leaves.length > 0))(
    "%s rejects a value of a wrong type with its path",
    async ([, entry]) => {
      const place = fc.constantFrom(...pathsOf(entry.options).leaves).chain((path) => {
        const isRight = KINDS[kindAt(entry.options, path)];
        return fc.tuple(
          fc.constant(path),
          anyValue.filter((value) => !isRight(value) && !(entry.isSent === true && value instanceof Date)),
        );
      });
      const property = fc.asyncProperty(place, async ([path, value]) => {
        await expectRejected(entry, withValue(validOf(entry), path, value), path);
      });
      await fc.assert(property, { numRuns: entry.runs ?? RUNS });
    },
  );

  test.for(withObject)("%s rejects a value that is not a plain object, with its path", async ([, entry]) => {
    const place = fc.tuple(fc.constantFrom(...pathsOf(entry.options).objects), noPlainObject);
    const property = fc.asyncProperty(place, async ([path, value]) => {
      await expectRejected(entry, withValue(validOf(entry), path, value), path);
    });
    await fc.assert(property, { numRuns: entry.runs ?? RUNS });
  });
}
