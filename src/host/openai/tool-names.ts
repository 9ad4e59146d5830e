// Names as OpenAI's wire takes them, and back. An alias follows from the name alone, so it is the same in each request.
import { createHash } from "node:crypto";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";

/** OpenAI's rule for a function's name. */
const WIRE_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const MAX_WIRE_CHARS = 64;
/** Of the name's SHA-256, in hexadecimal; more where somebody has a tool of the very name that this gives. */
const HASH_CHARS = 8;
/** What models put before a name that they were given without it. */
const PREFIX = /^functions?[.:/]/;

export const withoutPrefix = (wireName: string): string => wireName.replace(PREFIX, "");

/** The name, if it can be sent as it is; else what it can be of it, and a hash. */
export function toWireName(toolName: string, isTaken: (alias: string) => boolean = () => false): string {
  if (WIRE_NAME.test(toolName)) return toolName;
  const hash = createHash("sha256").update(toolName).digest("hex");
  const legible = toolName.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
  for (let chars = HASH_CHARS; ; chars += HASH_CHARS) {
    const alias = `${legible.slice(0, MAX_WIRE_CHARS - 1 - chars)}_${hash.slice(0, chars)}`;
    if (chars + HASH_CHARS > MAX_WIRE_CHARS - 1 || !isTaken(alias)) return alias;
  }
}

/** A text is iterable, too: its letters would be taken for names. */
function checkNames(names: unknown, what: string): readonly string[] {
  const isList = typeof names === "object" && names !== null && Symbol.iterator in names;
  const all = isList ? [...(names as Iterable<unknown>)] : undefined;
  if (all?.every((name) => typeof name === "string") === true) return all;
  throw new ToolError("PARAM_INVALID", `${what}: Expected an iterable of strings, got ${describeKind(names)}`);
}

/** Where a tool stands on the wire. */
export interface WirePlace {
  readonly namespace?: string;
  readonly name: string;
}

const keyOf = (name: string, namespace?: string): string => `${namespace ?? ""}\n${name}`;

/** The names of one list of tools; those that are called `namespace.name` for one of `namespaces` stand in it. */
export class ToolNames {
  readonly #places = new Map<string, WirePlace>();
  readonly #toolNames = new Map<string, string>();
  readonly #namespaces: readonly string[];

  /** @throws {ToolError} PARAM_INVALID for names that are not strings */
  constructor(toolNames: Iterable<string>, namespaces: readonly string[] = []) {
    this.#namespaces = checkNames(namespaces, "namespaces");
    const all = new Set(checkNames(toolNames, "toolNames"));
    // Who has a name that can be sent keeps it.
    const isTaken = (name: string, namespace?: string): boolean =>
      all.has(namespace === undefined ? name : `${namespace}.${name}`) || this.#toolNames.has(keyOf(name, namespace));
    for (const toolName of all) {
      const { namespace, name: own } = this.#split(toolName);
      const name = toWireName(own, (alias) => isTaken(alias, namespace));
      this.#places.set(toolName, namespace === undefined ? { name } : { namespace, name });
      this.#toolNames.set(keyOf(name, namespace), toolName);
    }
  }

  /** For a tool that is not among them too: an old message may speak of it. */
  placeOf(toolName: string): WirePlace {
    return this.#places.get(toolName) ?? { name: toWireName(toolName, (alias) => this.#toolNames.has(keyOf(alias))) };
  }

  /** The tool that a model means; a name that means none is given back as it is. */
  toToolName(wireName: string, namespace?: string): string {
    for (const name of new Set([wireName, withoutPrefix(wireName)])) {
      // A model that has read of a tool in a prompt uses the name that stands there.
      const qualified = namespace === undefined ? name : `${namespace}.${name}`;
      const known =
        this.#toolNames.get(keyOf(name, namespace)) ??
        (this.#places.has(qualified) ? qualified : undefined) ??
        this.#toolNames.get(keyOf(name)) ??
        (this.#places.has(name) ? name : undefined) ??
        this.#onlyOneNamed(name);
      if (known !== undefined) return known;
    }
    return wireName;
  }

  has(toolName: string): boolean {
    return this.#places.has(toolName);
  }

  /** A name without its namespace is the tool's, where one has it. */
  #onlyOneNamed(name: string): string | undefined {
    const found = this.#namespaces.flatMap((namespace) => this.#toolNames.get(keyOf(name, namespace)) ?? []);
    return found.length === 1 ? found[0] : undefined;
  }

  #split(toolName: string): WirePlace {
    const namespace = this.#namespaces.find((each) => toolName.startsWith(`${each}.`) && toolName !== `${each}.`);
    return namespace === undefined ? { name: toolName } : { namespace, name: toolName.slice(namespace.length + 1) };
  }
}
