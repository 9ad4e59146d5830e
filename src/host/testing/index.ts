// "glovebox/testing": runs a tool in the sandbox from its author's tests. Works with any test runner; with vitest, tools are closed
// automatically.
/// <reference types="node" preserve="true" />
import { fileURLToPath } from "node:url";
import { inspect } from "node:util";
import * as z from "zod";
import type { DefinitionOverrides, ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import type { Capability } from "../capabilities/capability.ts";
import type { GloveboxOptions } from "../config/glovebox-options.ts";
import { parseOptions } from "../config/option-errors.ts";
import { CAPABILITY_RULE, isCapability } from "../config/options.ts";
import type { CallContext, ToolResult } from "../contract/tool-call.ts";
import { createGlovebox } from "../glovebox/create-glovebox.ts";
import type { Glovebox } from "../glovebox/glovebox.ts";
import { parseRecording } from "../recording/recording.ts";
import type { ReplayedCall } from "../recording/replay-call.ts";
import { checkString, TenantIdSchema, type TenantScope } from "../routing/tenant-scope.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { mergeDefined } from "../util/merge-defined.ts";
import { type StubError, StubErrors } from "./stubs.ts";

export { type StubbedCapability, stubCapability, undescribed } from "./stubs.ts";

/** Time limit in ms that suits a slow or busy machine. Limits in the tool's own definition still apply. */
const TIMEOUT_MS = 20_000;

/** One tool needs no processes that wait for calls of others. */
const FEW_WORKERS = { warmProcesses: 1, warmPythonProcesses: 0 } as const;

/** Options of {@link openTool}. */
export interface OpenToolOptions {
  /** Tenant that the tool is added for and called by; the host then has `tenancy: "multi"`. @default the only tenant of a new host */
  readonly tenantId?: string | undefined;
  /** Stubs of capabilities, including the built-in `fetch`, `kv`, `secrets` and `tools`. Each of them is granted to the tool. */
  readonly capabilities?: readonly Capability[] | undefined;
  /** Further capabilities and engine features to grant, by name. */
  readonly grant?: readonly string[] | undefined;
  /** Definition fields that the host supplies or overrides. */
  readonly overrides?: DefinitionOverrides | undefined;
  /** Further options of the host: `limits`, `egress`, `secrets` and others. */
  readonly host?: Omit<GloveboxOptions, "capabilities"> | undefined;
}

/** Checks only what this file uses; adding the tool and creating the Glovebox check the rest. */
const OpenToolOptionsSchema = strictObject({
  tenantId: TenantIdSchema.optional(),
  capabilities: z.array(z.custom<Capability>(isCapability, CAPABILITY_RULE)).default([]),
  grant: z.array(z.string()).default([]),
  overrides: z.custom<DefinitionOverrides>(isPlainObject, "Expected a plain object").optional(),
  host: z.custom<Omit<GloveboxOptions, "capabilities">>(isPlainObject, "Expected a plain object").default({}),
});

/** A tool in its own Glovebox. With vitest it is disposed of after the tests of the file; otherwise use `await using`. */
export interface OpenedTool extends AsyncDisposable {
  readonly definition: ToolDefinition;
  /** The tool's Glovebox, for example to add tools that it calls. */
  readonly glovebox: Glovebox;
  /** Calls the tool. Always resolves. */
  call(input?: unknown, context?: CallContext): Promise<ToolResult>;
  /** Returns the output of a call that must succeed. `Output` is not checked. @throws {Error} with the text of the failure */
  output<Output = unknown>(input?: unknown, context?: CallContext): Promise<Output>;
  /** Returns `CODE: message`, details and stack of a call that must fail. @throws {Error} if it succeeds */
  failure(input?: unknown, context?: CallContext): Promise<string>;
  /**
   * Replays a recorded call on this tool, whatever tenant and version it was recorded with. No capability is called.
   * @throws {ToolError} as `glovebox.replay` does
   */
  replay(recording: unknown): Promise<ReplayedCall>;
}

const openTools = new Set<OpenedTool>();

async function closeAll(): Promise<void> {
  await Promise.all([...openTools].map((tool) => tool[Symbol.asyncDispose]()));
}

/** Registers the cleanup with vitest, which evaluates a test file while it collects the file's tests. */
async function closeAfterTests(): Promise<void> {
  try {
    const { afterAll } = await import("vitest");
    afterAll(closeAll);
  } catch {
    // Another test runner, or none.
  }
}

await closeAfterTests();

/**
 * Bundles a tool and runs it in the sandbox, as a host does.
 * @param path a file or a folder, as a path (`import.meta.dirname`) or a URL
 * @throws {ToolError} as `addTool` and `createGlovebox` do; PARAM_INVALID for an unknown option or one of the wrong type
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
export function openTool(path: string | URL, options: OpenToolOptions = {}): Promise<OpenedTool> {
  return deferFailure(() => openParsed(path, options));
}

async function openParsed(path: string | URL, options: OpenToolOptions): Promise<OpenedTool> {
  const parsed = parseOptions(OpenToolOptionsSchema, options, "options");
  const { tenantId, capabilities, grant, overrides, host } = parsed;
  if (!(path instanceof URL)) checkString(path, "path");
  const tenancy = tenantId === undefined ? {} : { tenancy: "multi" as const };
  const scope = tenantId === undefined ? {} : { tenantId };
  const errors = new StubErrors();
  const watched = capabilities.map((capability) => errors.watch(capability));
  const glovebox = await createGlovebox(toHostOptions(mergeDefined(tenancy, host), watched));
  try {
    const definition = await glovebox.addTool(
      {
        path: path instanceof URL ? fileURLToPath(path) : path,
        ...(overrides === undefined ? {} : { overrides: overrides }),
      },
      { ...scope, grant: [...grant, ...capabilities.map(({ name }) => name)] },
    );
    return createOpenedTool(glovebox, definition, scope, errors);
  } catch (thrown) {
    await glovebox.close();
    throw thrown;
  }
}

/** @throws {ToolError} PARAM_INVALID for options that {@link createGlovebox} would not reject */
function toHostOptions(host: GloveboxOptions, capabilities: readonly Capability[]): GloveboxOptions {
  if ("capabilities" in host) {
    throw new ToolError("PARAM_INVALID", "options.host.capabilities: Unknown option. Use options.capabilities instead");
  }
  const { limits = {}, workers = {} } = host;
  const defaults = { timeoutMs: TIMEOUT_MS, cpuMs: TIMEOUT_MS };
  return {
    ...mergeDefined({ kv: "memory", shutdown: false } as const, host),
    // createGlovebox() rejects a value that is not a plain object.
    limits: isPlainObject(limits) ? mergeDefined(defaults, limits as PartialLimits) : limits,
    workers: isPlainObject(workers)
      ? mergeDefined(FEW_WORKERS, workers as NonNullable<GloveboxOptions["workers"]>)
      : workers,
    capabilities,
  };
}

function createOpenedTool(
  glovebox: Glovebox,
  definition: ToolDefinition,
  scope: TenantScope,
  stubErrors: StubErrors,
): OpenedTool {
  let calls = 0;
  const run = (input: unknown = {}, context: CallContext = {}): Promise<[ToolResult, readonly StubError[]]> => {
    calls += 1;
    const id = `call-${calls}`;
    // Spreading a promise into another object would silently drop it.
    const given = isPlainObject(context) ? mergeDefined(scope, context as CallContext) : context;
    return stubErrors.during(id, () => glovebox.execute({ id, toolName: definition.name, arguments: input }, given));
  };
  const tool: OpenedTool = {
    definition,
    glovebox: glovebox,
    async call(input, context) {
      const [result] = await run(input, context);
      return result;
    },
    async output<Output>(input?: unknown, context?: CallContext) {
      const [result, errors] = await run(input, context);
      if (result.success) return result.output as Output;
      const cause = errors.at(-1);
      throw new Error(describeFailure(result.error, errors), cause === undefined ? {} : { cause: cause.thrown });
    },
    async failure(input, context) {
      const [result, errors] = await run(input, context);
      if (result.success) throw new Error(`Expected a failure, got ${JSON.stringify(result.output).slice(0, 200)}`);
      return describeFailure(result.error, errors);
    },
    async replay(value) {
      const { toolVersion: _, ...recording } = parseRecording(value);
      const tenantId = glovebox.router.tenancy.tenantOf(scope.tenantId);
      return await glovebox.replay({ ...recording, tenantId, toolName: definition.name }, scope);
    },
    async [Symbol.asyncDispose]() {
      openTools.delete(tool);
      await glovebox.close();
    },
  };
  openTools.add(tool);
  return tool;
}

function describeFailure(
  { code, message, details, stack }: Extract<ToolResult, { success: false }>["error"],
  errors: readonly StubError[],
): string {
  const lines = [`${code}: ${message}${details === undefined ? "" : ` ${JSON.stringify(details)}`}`];
  // The first line of a stack repeats the message.
  if (stack !== undefined) lines.push(...stack.split("\n").slice(1));
  for (const { capability, thrown } of errors) lines.push(`The capability "${capability}" threw: ${inspect(thrown)}`);
  return lines.join("\n");
}
