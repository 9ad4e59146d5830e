// Prepares a JSON Schema of an upstream server for a model: removes invisible characters from descriptive texts, and rejects a schema with
// invisible characters in names or values. A model must repeat names and values exactly, so they cannot be changed.
import { invisibleIn, toVisible } from "./visible-text.ts";

/** Members of a schema that are descriptive texts. */
const TEXTS: ReadonlySet<string> = new Set(["title", "description", "$comment"]);
/** Members of a schema that are values, not schemas. */
const VALUES: ReadonlySet<string> = new Set(["enum", "const", "default", "examples"]);
/** Members of a schema that map names to schemas. */
const NAMED_SCHEMAS: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies",
]);
const MAX_SHOWN_LENGTH = 60;

type Kind = "schema" | "named schemas" | "value";

function kindOf(key: string, parent: Kind): Kind {
  if (parent === "value") return "value";
  if (parent === "named schemas") return "schema";
  if (VALUES.has(key)) return "value";
  return NAMED_SCHEMAS.has(key) ? "named schemas" : "schema";
}

function check(text: string, subject: string): void {
  const found = invisibleIn(text);
  if (found === undefined) return;
  const shown = JSON.stringify(toVisible(text).slice(0, MAX_SHOWN_LENGTH));
  throw new RangeError(`${subject}: expected visible characters, got ${found} in a name or value that reads ${shown}`);
}

/**
 * Returns a copy of a schema, whose depth must have been checked.
 * @throws {RangeError} for an invisible character in a name or a value
 */
export function toVisibleSchema<Schema>(schema: Schema, subject: string): Schema {
  const copy = (value: unknown, kind: Kind, key: string): unknown => {
    if (typeof value === "string") {
      if (kind === "schema" && TEXTS.has(key)) return toVisible(value);
      check(value, subject);
      return value;
    }
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((item) => copy(item, kind, ""));
    const members = Object.entries(value).map(([name, member]) => {
      check(name, subject);
      const own = kindOf(name, kind);
      return [name, copy(member, typeof member === "string" ? kind : own, name)] as const;
    });
    return Object.fromEntries(members);
  };
  return copy(schema, "schema", "") as Schema;
}
