// A tool provider that a host adds: a transport to its tools, and the tools that are registered from it. All of them share its circuit breaker.
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { unavailable } from "../../sandbox/contract/errors.ts";
import type { ToolValue } from "../contract/tool-value.ts";
import type { SourceKind, ToolExecutor } from "../executors/executor.ts";
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

/** How the router calls the tools of a provider. */
export interface SourceTransport {
  /** Kind of source that is shown for its tools. @default "host" */
  readonly kind?: Exclude<SourceKind, "sandbox"> | undefined;
  /**
   * Runs a tool of the provider, by its name there, and returns or yields as a host function does. A ToolError that it throws is the failure
   * of the tool (TOOL_FAILED, PARAM_INVALID …). TOOL_UNAVAILABLE, any other exception, and a call that does not end in time count as failures
   * of the provider; failures of parallel calls with the same `cause` count once.
   */
  call(toolName: string, input: ToolValue, context: HostFunctionContext): unknown;
  /** Discovery of tools on demand, for a provider whose tools are not registered in advance. */
  readonly discovery?: SourceDiscovery | undefined;
}

/** How a provider is queried for its tools: before tools are listed, and before a call of an unknown name. */
export interface SourceDiscovery {
  /** Returns whether a tenant can have tools of this provider. This and the next two functions are synchronous and must not throw. */
  isFor(tenantId: string): boolean;
  /** Returns whether the provider may have a tool of this name. */
  mayHave(toolName: string): boolean;
  /** Returns whether the tenant's registered tools are current, so that `discover` is not needed. */
  isKnown(tenantId: string): boolean;
  /** Registers the tools for a tenant. A rejection counts as a failure of the provider, like that of a call. */
  discover(tenantId: string, signal: AbortSignal): Promise<void>;
}

/** Options of a tool that a provider registers. */
export interface SourceToolOptions extends RegisterOptions {
  /** Name of the tool at the provider. Default: the name that it is registered with. */
  readonly nameAtSource?: string | undefined;
}

interface Registrar {
  /** @throws {ToolError} PARAM_INVALID for a missing or unexpected tenant */
  ownerOf(options: ToolOwner): string | undefined;
  add(
    toolName: string,
    definition: Omit<ToolDefinition, "name">,
    executor: ToolExecutor,
    options: Omit<RegisterOptions, "scope">,
  ): void;
  remove(toolName: string, tenantId: string | undefined, executor: ToolExecutor): void;
  dispose(): void;
}

/** A tool provider of a router. Disposing it removes its tools; running calls continue. */
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
   * Registers a tool of the provider. Dispose the returned object to remove the tool. Schemas are as for {@link ToolRouter.register}.
   * @throws {ToolError} PARAM_INVALID for a malformed name, and for a field or option that is unknown or of the wrong type; NAME_TAKEN;
   *   BUNDLE_FAILED for a JSON Schema that cannot be used; TOOL_UNAVAILABLE after disposal
   */
  register(toolName: string, definition: HostToolDefinition<HostSchema>, options?: SourceToolOptions): Disposable {
    if (this.#isDisposed) throw unavailable("not_found", `The tool provider ${this.id} was removed`);
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

  /** Has no effect the second time. */
  [Symbol.dispose](): void {
    if (this.#isDisposed) return;
    this.#isDisposed = true;
    for (const registration of [...this.#tools]) registration[Symbol.dispose]();
    this.#registrar.dispose();
  }
}
