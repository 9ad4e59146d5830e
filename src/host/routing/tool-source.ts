// A source of tools that a host adds: a transport to wherever its tools are, and the tools it is asked for. What is known of its health
// is known of all of them.
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { unavailable } from "../../sandbox/contract/errors.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import type { Executor, SourceKind } from "../executors/executor.ts";
import { createHostFunctionExecutor, type HostFunctionContext } from "../executors/host-function.ts";
import type { ToolOwner } from "../tenants/tenancy.ts";
import {
  type HostSchema,
  type HostToolDefinition,
  parseHostDefinition,
  parseSourceToolOptions,
  type RegisterOptions,
} from "./registration.ts";
import { checkString } from "./tenant-scope.ts";

/** How a source is asked. */
export interface SourceTransport {
  /** `host` unless stated. */
  readonly kind?: Exclude<SourceKind, "sandbox"> | undefined;
  /**
   * Runs one of the source's tools, by the name that it has there; returns or yields as a host function does. A ToolError that it throws
   * is the tool's own answer (TOOL_FAILED, PARAM_INVALID …), but for TOOL_UNAVAILABLE: that, anything else that it throws, and a call
   * that it does not end in time, count as failures of the source; once where one and the same `cause` ends calls that run side by side.
   */
  call(toolName: string, input: ToolValue, context: HostFunctionContext): unknown;
  /** For a source that is asked for its tools only when somebody wants them. */
  readonly discovery?: SourceDiscovery | undefined;
}

/** How a source that tells of its tools by itself is asked for them: before a listing, and before a call of a name that nobody knows. */
export interface SourceDiscovery {
  /** Whether a tenant may have its tools. None of these three throws, or takes its time. */
  isFor(tenantId: string): boolean;
  /** Whether a tool of this name could be its own. */
  mayHave(toolName: string): boolean;
  /** Whether what it has last said of a tenant's tools still holds: then it is not asked. */
  isKnown(tenantId: string): boolean;
  /** Resolves when what it has for a tenant is registered. A rejection counts as a call's failure does. */
  discover(tenantId: string, signal: AbortSignal): Promise<void>;
}

export interface SourceToolOptions extends RegisterOptions {
  /** What the source calls it; as it is registered unless stated. */
  readonly nameAtSource?: string | undefined;
}

interface Registrar {
  /** @throws {ToolError} PARAM_INVALID for a missing or unexpected tenant */
  ownerOf(options: ToolOwner): string | undefined;
  add(
    toolName: string,
    definition: Omit<ToolDefinition, "name">,
    executor: Executor,
    options: Omit<RegisterOptions, "scope">,
  ): void;
  remove(toolName: string, tenantId: string | undefined, executor: Executor): void;
  dispose(): void;
}

/** Dispose it to take its tools out of the router; calls that have begun go on. */
export class AddedToolProvider implements Disposable {
  readonly id: string;
  readonly #transport: SourceTransport;
  readonly #registrar: Registrar;
  readonly #tools = new Set<Disposable>();
  #isDisposed = false;

  /** @internal use {@link ToolRouter.addToolProvider} */
  constructor(id: string, transport: SourceTransport, registrar: Registrar) {
    this.id = id;
    this.#transport = transport;
    this.#registrar = registrar;
  }

  /**
   * Adds one of the source's tools; dispose what this returns to take it out again. Its schemas are as those of {@link ToolRouter.register}.
   * @throws {ToolError} PARAM_INVALID for a malformed name, or a field or option that is unknown or of the wrong type; NAME_TAKEN;
   *   BUNDLE_FAILED for a JSON Schema that cannot be used; TOOL_UNAVAILABLE after disposal
   */
  register(toolName: string, definition: HostToolDefinition<HostSchema>, options?: SourceToolOptions): Disposable {
    if (this.#isDisposed) throw unavailable("not_found", `The source ${this.id} has been removed`);
    checkString(toolName, "toolName");
    const { nameAtSource = toolName, scope, ...given } = parseSourceToolOptions(options);
    const tenantId = this.#registrar.ownerOf({ tenantId: given.tenantId, scope });
    const parsed = parseHostDefinition(definition);
    const transport = this.#transport;
    const executor = createHostFunctionExecutor((input, context) => transport.call(nameAtSource, input, context), {
      source: transport.kind ?? "host",
      sourceId: this.id,
      schemas: parsed.schemas,
      isRemote: true,
    });
    this.#registrar.add(toolName, parsed.definition, executor, { ...given, tenantId });
    const registered = {
      [Symbol.dispose]: () => {
        if (this.#tools.delete(registered)) this.#registrar.remove(toolName, tenantId, executor);
      },
    };
    this.#tools.add(registered);
    return registered;
  }

  /** Twice is a no-op. */
  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    for (const registration of [...this.#tools]) registration[Symbol.dispose]();
    this.#registrar.dispose();
  }
}
