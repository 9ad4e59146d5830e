// Clients that listen are told that there are other tools now: those whose tools they are, and once for all that happens together.
import { AsyncLocalStorage } from "node:async_hooks";
import {
  InMemoryServerEventBus,
  type McpServer,
  type ServerEvent,
  type ServerEventBus,
} from "@modelcontextprotocol/server";
import type { ToolRegistry } from "../../routing/registry.ts";

/** Changes within so long are told of as one: an upstream server brings all its tools at once. */
const GATHER_MS = 20;

/** @param tell hears whose tools have changed; undefined for everybody's */
export function watchTools(registry: ToolRegistry, tell: (tenantId: string | undefined) => void): Disposable {
  const changed = new Set<string | undefined>();
  let timer: NodeJS.Timeout | undefined;
  const tellAll = (): void => {
    const all = changed.has(undefined) ? [undefined] : [...changed];
    timer = undefined;
    changed.clear();
    for (const tenantId of all) tell(tenantId);
  };
  const stop = registry.onChange?.((tenantId) => {
    changed.add(tenantId);
    timer ??= setTimeout(tellAll, GATHER_MS).unref();
  });
  return {
    [Symbol.dispose]: () => {
      stop?.();
      clearTimeout(timer);
    },
  };
}

/** Notifies the client of a connection, if it is still there. */
export function notifyToolsChanged(mcp: McpServer): void {
  if (mcp.isConnected()) mcp.server.sendToolListChanged().catch(() => {});
}

/**
 * Notifies the client of a connection, if it is still there and prompts are served. The SDK's own `McpServer.sendPromptListChanged()` leaves
 * its promise unhandled, so that it would end the process for a server without prompts.
 */
export function notifyPromptsChanged(mcp: McpServer): void {
  if (mcp.isConnected()) mcp.server.sendPromptListChanged().catch(() => {});
}

/** Subscriptions of 2026-07-28, each its tenant's: what one tenant adds is no other's to hear of. */
export class TenantEvents {
  readonly #tenant = new AsyncLocalStorage<string>();
  readonly #all = new InMemoryServerEventBus();
  readonly #ofTenant = new Map<string, InMemoryServerEventBus>();

  /** What the SDK subscribes to while it serves a request within {@link TenantEvents.serve}. */
  readonly bus: ServerEventBus = {
    publish: (event) => this.#all.publish(event),
    subscribe: (listener) => this.#subscribe(listener),
  };

  serve<Result>(tenantId: string, run: () => Result): Result {
    return this.#tenant.run(tenantId, run);
  }

  /** @param tenantId undefined for everybody's */
  toolsChanged(tenantId: string | undefined): void {
    const bus = tenantId === undefined ? this.#all : this.#ofTenant.get(tenantId);
    bus?.publish({ kind: "tools_list_changed" });
  }

  #subscribe(listener: (event: ServerEvent) => void): () => void {
    const leaveAll = this.#all.subscribe(listener);
    const tenantId = this.#tenant.getStore();
    if (tenantId === undefined) return leaveAll;
    const own = this.#ofTenant.get(tenantId) ?? new InMemoryServerEventBus();
    this.#ofTenant.set(tenantId, own);
    const leaveOwn = own.subscribe(listener);
    return () => {
      leaveAll();
      leaveOwn();
      if (own.listenerCount === 0 && this.#ofTenant.get(tenantId) === own) this.#ofTenant.delete(tenantId);
    };
  }
}
