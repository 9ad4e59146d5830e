// Stubs of capabilities for tests of tools, and the parts of a schema that have no description.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { describeKind, isPlainObject } from "../../sandbox/contract/plain-object.ts";
import type { Capability, CapabilityContext } from "../capabilities/capability.ts";
import { createCapabilityStub, type StubInput } from "../capabilities/stubs.ts";
import type { ToolResult } from "../contract/tool-call.ts";

export interface StubError {
  readonly capability: string;
  readonly thrown: unknown;
}

/**
 * What capabilities have thrown, by call. A tool only sees that a capability failed, as it would with a host; the author of a test sees the
 * error too.
 */
export class StubErrors {
  readonly #byCall = new Map<string, StubError[]>();

  /** Returns the capability with a handler that records what it throws. */
  watch(capability: Capability): Capability {
    const handler = async (input: never, context: CapabilityContext): Promise<unknown> => {
      try {
        return await capability.handler(input, context);
      } catch (thrown) {
        this.#byCall.get(context.callId)?.push({ capability: capability.name, thrown });
        throw thrown;
      }
    };
    return { ...capability, handler };
  }

  /** Records errors of a call until it ends, and returns its result with them. */
  async during(callId: string, run: () => Promise<ToolResult>): Promise<[ToolResult, readonly StubError[]]> {
    const errors: StubError[] = [];
    this.#byCall.set(callId, errors);
    try {
      return [await run(), errors];
    } finally {
      this.#byCall.delete(callId);
    }
  }
}

/** A stub of a capability that a host would grant. It accepts any input and records it. */
export interface StubbedCapability extends Capability {
  /** Inputs in order of arrival. */
  readonly inputs: readonly unknown[];
}

/**
 * Creates a stub. The tool sees it like the capability of that name. For the built-in capabilities, `answer` receives and returns:
 *
 * | name | input | return value; default |
 * |---|---|---|
 * | `fetch` | `{ method, url, headers, body }`, header names in lower case, the body as text | a `Response`, or JSON for the body of one; 404 |
 * | `kv` | `{ op: "get" or "delete", key }`, `{ op: "set", key, value, … }`, `{ op: "list", prefix, … }` | the result of `ctx.kv.getEntry` (`version` is optional), `delete`, `set` or `list`; an empty store that accepts every `set` |
 * | `secrets` | the name of the secret | the placeholder; `placeholder-of-NAME` |
 * | `tools` | `{ name, input }` | the tool's output; null |
 *
 * @param answer for any other capability, receives the input and returns JSON. If it throws, the tool receives an error
 *   without its message, as from a host, and `output()` and `failure()` state what it threw
 * @throws {ToolError} PARAM_INVALID for a malformed or reserved name, or an answer that is not a function
 * @example
 * ```typescript
 * import { openTool, stubCapability } from "glovebox/testing";
 *
 * const api = stubCapability("fetch", ({ url }) => Response.json({ url }));
 * await using tool = await openTool(import.meta.dirname, { capabilities: [api] });
 * ```
 */
export function stubCapability<Name extends string>(
  name: Name,
  answer?: (input: StubInput<Name>, context: CapabilityContext) => unknown,
): StubbedCapability {
  if (answer !== undefined && typeof answer !== "function") {
    throw new ToolError("PARAM_INVALID", `answer: Expected a function, got ${describeKind(answer)}`);
  }
  const inputs: unknown[] = [];
  const capability = createCapabilityStub(name, (input, context) => {
    inputs.push(input);
    return answer?.(input as StubInput<Name>, context);
  });
  return { ...capability, inputs };
}

interface SchemaNode {
  readonly properties?: { readonly [name: string]: SchemaNode };
  readonly items?: SchemaNode;
  readonly anyOf?: readonly SchemaNode[];
  readonly oneOf?: readonly SchemaNode[];
  readonly description?: string;
}

/**
 * Returns the paths of all properties in a JSON Schema that have no description, so that a model would have to guess their meaning.
 * @param path prefix of all paths. Default: none
 * @throws {ToolError} PARAM_INVALID unless the schema is a plain object and the path a string
 */
export function undescribed(schema: unknown, path = ""): string[] {
  if (!isPlainObject(schema)) {
    throw new ToolError("PARAM_INVALID", `schema: Expected a JSON Schema object, got ${describeKind(schema)}`);
  }
  if (typeof path !== "string") {
    throw new ToolError("PARAM_INVALID", `path: Expected a string, got ${describeKind(path)}`);
  }
  return listUndescribed(schema, path);
}

function listUndescribed({ properties = {}, items, anyOf = [], oneOf = [] }: SchemaNode, path: string): string[] {
  const missing = [...anyOf, ...oneOf].flatMap((branch) => listUndescribed(branch, path));
  if (items !== undefined) missing.push(...listUndescribed(items, `${path}[]`));
  for (const [name, property] of Object.entries(properties)) {
    if (property.description === undefined) missing.push(`${path}.${name}`);
    missing.push(...listUndescribed(property, `${path}.${name}`));
  }
  return missing;
}
