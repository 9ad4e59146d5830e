// Maps tool names to names that OpenAI's API accepts, and back. An alias depends on the name alone, so it is the same in each request.
import { createHash } from "node:crypto";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";

/** OpenAI's rule for function names. */
const WIRE_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const MAX_WIRE_LENGTH = 64;
/** Hexadecimal digits of the name's SHA-256 in an alias; more if a tool already has the resulting name. */
const HASH_LENGTH = 8;
/** A prefix that models add to a name that was sent without it. */
const PREFIX = /^functions?[.:/]/;

export const withoutPrefix = (wireName: string): string => wireName.replace(PREFIX, "");

/** Returns the name if it is valid on the wire; otherwise an alias of its valid characters and a hash. */
export function toWireName(toolName: string, isTaken: (alias: string) => boolean = () => false): string {
  if (WIRE_NAME.test(toolName)) return toolName;
  const hash = createHash("sha256").update(toolName).digest("hex");
  const legible = toolName.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
  for (let chars = HASH_LENGTH; ; chars += HASH_LENGTH) {
    const alias = `${legible.slice(0, MAX_WIRE_LENGTH - 1 - chars)}_${hash.slice(0, chars)}`;
    if (chars + HASH_LENGTH > MAX_WIRE_LENGTH - 1 || !isTaken(alias)) return alias;
  }
}

/** Rejects a string in particular: it is iterable, and its characters would be taken for names. */
function checkNames(names: unknown, what: string): readonly string[] {
  const isList = typeof names === "object" && names !== null && Symbol.iterator in names;
  const all = isList ? [...(names as Iterable<unknown>)] : undefined;
  if (all?.every((name) => typeof name === "string") === true) return all;
  throw new ToolError("PARAM_INVALID", `${what}: Expected an iterable of strings, got ${describeKind(names)}`);
}

/** The name of a tool on the wire. */
export interface WireName {
  readonly namespace?: string;
  readonly name: string;
}

const keyOf = (name: string, namespace?: string): string => `${namespace ?? ""}\n${name}`;

/** The names of a list of tools. A tool named `namespace.name` for one of `namespaces` is placed in that namespace. */
export class ToolNames {
  readonly #wireNames = new Map<string, WireName>();
  readonly #toolNames = new Map<string, string>();
  readonly #namespaces: readonly string[];

  /** @throws {ToolError} PARAM_INVALID for names that are not strings */
  constructor(toolNames: Iterable<string>, namespaces: readonly string[] = []) {
    this.#namespaces = checkNames(namespaces, "namespaces");
    const all = new Set(checkNames(toolNames, "toolNames"));
    // A valid name is never changed.
    const isTaken = (name: string, namespace?: string): boolean =>
      all.has(namespace === undefined ? name : `${namespace}.${name}`) || this.#toolNames.has(keyOf(name, namespace));
    for (const toolName of all) {
      const { namespace, name: own } = this.#split(toolName);
      const name = toWireName(own, (alias) => isTaken(alias, namespace));
      this.#wireNames.set(toolName, namespace === undefined ? { name } : { namespace, name });
      this.#toolNames.set(keyOf(name, namespace), toolName);
    }
  }

  /** Returns the wire name of a tool. Also supports unknown tools, which old messages may contain. */
  wireNameOf(toolName: string): WireName {
    return (
      this.#wireNames.get(toolName) ?? { name: toWireName(toolName, (alias) => this.#toolNames.has(keyOf(alias))) }
    );
  }

  /** Returns the tool that a model's name refers to; an unknown name is returned unchanged. */
  toToolName(wireName: string, namespace?: string): string {
    for (const name of new Set([wireName, withoutPrefix(wireName)])) {
      // A model that read about a tool in a prompt uses the name from the prompt.
      const qualified = namespace === undefined ? name : `${namespace}.${name}`;
      const known =
        this.#toolNames.get(keyOf(name, namespace)) ??
        (this.#wireNames.has(qualified) ? qualified : undefined) ??
        this.#toolNames.get(keyOf(name)) ??
        (this.#wireNames.has(name) ? name : undefined) ??
        this.#onlyOneNamed(name);
      if (known !== undefined) return known;
    }
    return wireName;
  }

  has(toolName: string): boolean {
    return this.#wireNames.has(toolName);
  }

  /** Returns the tool of a name without its namespace, if it is unique. */
  #onlyOneNamed(name: string): string | undefined {
    const found = this.#namespaces.flatMap((namespace) => this.#toolNames.get(keyOf(name, namespace)) ?? []);
    return found.length === 1 ? found[0] : undefined;
  }

  #split(toolName: string): WireName {
    const namespace = this.#namespaces.find((each) => toolName.startsWith(`${each}.`) && toolName !== `${each}.`);
    return namespace === undefined ? { name: toolName } : { namespace, name: toolName.slice(namespace.length + 1) };
  }
}
