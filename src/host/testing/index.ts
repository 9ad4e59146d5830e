// "glovebox/testing": a tool in its author's own tests, run for real in the sandbox. Needs no test runner; knows vitest where it is there.
/// <reference types="node" preserve="true" />
import { fileURLToPath } from "node:url";
import * as z from "zod";
import type { DefinitionOverrides, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import type { Capability, CapabilityContext } from "../capabilities/capability.ts";
import { createStandIn, type StubInput } from "../capabilities/stubs.ts";
import { parseOptions } from "../config/option-errors.ts";
import { CAPABILITY_RULE, type GloveboxOptions, isCapability } from "../config/options.ts";
import type { ToolContext, ToolResult } from "../contract/tool-call.ts";
import { createGlovebox, type Glovebox } from "../glovebox/glovebox.ts";
import { checkString, TenantIdSchema, type TenantScope } from "../routing/tenant-scope.ts";
import { mergeDefined } from "../util/merge-defined.ts";

/** Room for a slow, busy machine: what a tool's author states for it counts all the same. */
const TIMEOUT_MS = 20_000;

export interface OpenToolOptions {
  /** The tenant that it is added for and called by; the host then has `tenancy: "multi"`. Default: the one tenant of a host of its own. */
  readonly tenantId?: string | undefined;
  /** Stubs of what a host would grant, also of the own `fetch`, `kv`, `secrets` and `tools`: each is granted. */
  readonly capabilities?: readonly Capability[] | undefined;
  /** Further capabilities and engine features to grant, by name. */
  readonly grant?: readonly string[] | undefined;
  /** Fields that the host supplies or overrides in the definition. */
  readonly definition?: DefinitionOverrides | undefined;
  /** Further options of the host: `limits`, `egress`, `secrets` … */
  readonly host?: Omit<GloveboxOptions, "capabilities"> | undefined;
}

/** Only what is used here: the rest is checked where a tool is added, and where the Glovebox is created. */
const OpenToolOptionsSchema = strictObject({
  tenantId: TenantIdSchema.optional(),
  capabilities: z.array(z.custom<Capability>(isCapability, CAPABILITY_RULE)).default([]),
  grant: z.array(z.string()).default([]),
  definition: z.custom<DefinitionOverrides>(isPlainObject, "Expected a plain object").optional(),
  host: z.custom<Omit<GloveboxOptions, "capabilities">>(isPlainObject, "Expected a plain object").default({}),
});

/** A tool in a Glovebox of its own. With vitest it is disposed of after the file's tests, else by `await using`. */
export interface OpenedTool extends AsyncDisposable {
  readonly definition: ToolDefinition;
  /** Its own: for tools that it is to call, and for what else a host does. */
  readonly box: Glovebox;
  /** One call; always resolves. */
  call(input?: unknown, context?: ToolContext): Promise<ToolResult>;
  /** The output of a call that must succeed. `Output` is what the test goes on to check. @throws {Error} with the failure's text */
  output<Output = unknown>(input?: unknown, context?: ToolContext): Promise<Output>;
  /** `CODE: message, details and stack` of a call that must fail. @throws {Error} when it succeeds */
  failure(input?: unknown, context?: ToolContext): Promise<string>;
}

const openTools = new Set<OpenedTool>();

async function closeAll(): Promise<void> {
  await Promise.all([...openTools].map((tool) => tool[Symbol.asyncDispose]()));
}

/** In a test file of vitest's this is run while its tests are declared: then all that is open is closed when they are over. */
async function closeAfterTests(): Promise<void> {
  try {
    const { afterAll } = await import("vitest");
    afterAll(closeAll);
  } catch {
    // Another runner, or none.
  }
}
await closeAfterTests();

/**
 * Bundles a tool and runs it in the sandbox, as a host would.
 * @param path a file or a folder: `import.meta.dirname`, or a URL
 * @throws {ToolError} as `addTool` and `createGlovebox` do; PARAM_INVALID for an option that is unknown or of the wrong type
 * @example
 * ```typescript
 * import { expect, test } from "vitest";
 * import { openTool } from "glovebox/testing";
 *
 * test("adds", async () => {
 *   await using tool = await openTool(import.meta.dirname);
 *   expect(await tool.output({ a: 1, b: 2 })).toEqual({ sum: 3 });
 * });
 * ```
 */
export async function openTool(path: string | URL, options: OpenToolOptions = {}): Promise<OpenedTool> {
  const parsed = parseOptions(OpenToolOptionsSchema, options, "options");
  const { tenantId, capabilities, grant, definition: overrides, host } = parsed;
  if (!(path instanceof URL)) checkString(path, "path");
  const tenancy = tenantId === undefined ? {} : { tenancy: "multi" as const };
  const whose = tenantId === undefined ? {} : { tenantId };
  const box = await createGlovebox(toHostOptions(mergeDefined(tenancy, host), capabilities));
  try {
    const definition = await box.addTool(
      {
        path: path instanceof URL ? fileURLToPath(path) : path,
        ...(overrides === undefined ? {} : { definition: overrides }),
      },
      { ...whose, grant: [...grant, ...capabilities.map(({ name }) => name)] },
    );
    return openedTool(box, definition, whose);
  } catch (thrown) {
    await box.close();
    throw thrown;
  }
}

/** @throws {ToolError} PARAM_INVALID for what {@link createGlovebox} would not see */
function toHostOptions(host: GloveboxOptions, capabilities: readonly Capability[]): GloveboxOptions {
  if ("capabilities" in host) {
    throw new ToolError(
      "PARAM_INVALID",
      "options.host.capabilities: Unknown option. State options.capabilities instead",
    );
  }
  const { limits = {} } = host;
  const defaults = { timeoutMs: TIMEOUT_MS, cpuMs: TIMEOUT_MS };
  return {
    ...mergeDefined({ store: "memory", shutdown: false } as const, host),
    // A value that is no plain object is left to the check of the options.
    limits: isPlainObject(limits) ? mergeDefined(defaults, limits as PartialLimits) : limits,
    capabilities,
  };
}

function openedTool(box: Glovebox, definition: ToolDefinition, whose: TenantScope): OpenedTool {
  let calls = 0;
  const call: OpenedTool["call"] = (input = {}, context = {}) => {
    calls += 1;
    // Spread into another object, a promise for a context would have no fields.
    const given = isPlainObject(context) ? mergeDefined(whose, context as ToolContext) : context;
    return box.execute({ id: `call-${calls}`, toolName: definition.name, arguments: input }, given);
  };
  const tool: OpenedTool = {
    definition,
    box,
    call,
    async output<Output>(input?: unknown, context?: ToolContext) {
      const result = await call(input, context);
      if (!result.success) throw new Error(describeFailure(result.error));
      return result.output as Output;
    },
    async failure(input, context) {
      const result = await call(input, context);
      if (result.success) throw new Error(`Expected a failure, got ${JSON.stringify(result.output).slice(0, 200)}`);
      return describeFailure(result.error);
    },
    async [Symbol.asyncDispose]() {
      openTools.delete(tool);
      await box.close();
    },
  };
  openTools.add(tool);
  return tool;
}

function describeFailure({ code, message, details, stack }: Extract<ToolResult, { success: false }>["error"]): string {
  const lines = [`${code}: ${message}${details === undefined ? "" : ` ${JSON.stringify(details)}`}`];
  // Its first line is the message again.
  if (stack !== undefined) lines.push(...stack.split("\n").slice(1));
  return lines.join("\n");
}

/** A stand-in for a capability that a host would grant: takes anything, and remembers what it was asked. */
export interface StubbedCapability extends Capability {
  /** Inputs, in the order in which they came. */
  readonly inputs: readonly unknown[];
}

/**
 * The tool sees it as it sees the capability of that name. Of our own, `answer` is given, and gives:
 *
 * | name | input | answer; without one |
 * |---|---|---|
 * | `fetch` | `{ method, url, headers, body }`, names of headers in lower case, the body as text | a `Response`, or JSON that becomes the body of one; 404 |
 * | `kv` | `{ op: "get" or "delete", key }`, `{ op: "set", key, value, … }`, `{ op: "list", prefix, … }` | what `ctx.kv.getEntry`, `delete`, `set`, `list` give; `getEntry`'s may leave `version` out; nothing is there, all can be set |
 * | `secrets` | the secret's name | the placeholder; `placeholder-of-NAME` |
 * | `tools` | `{ name, input }` | the tool's output; null |
 *
 * @param answer of any other capability it is given the input; what it returns must be JSON, what it throws the tool gets as an error
 * @throws {ToolError} PARAM_INVALID for a malformed or reserved name, or an answer that is not a function
 * @example
 * ```typescript
 * const api = stubCapability("fetch", ({ url }) => Response.json({ asked: url }));
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
  const capability = createStandIn(name, (input, context) => {
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
 * Paths of all properties in a JSON Schema that have no description: a model would have to guess what they are.
 * @param path of the schema itself, before all paths. Default: none
 * @throws {ToolError} PARAM_INVALID for anything but a plain object, or a path that is not a string
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
