// Notifies listening clients when the tools of their tenant have changed. Changes in quick succession cause one notification.
import { AsyncLocalStorage } from "node:async_hooks";
import {
  InMemoryServerEventBus,
  type McpServer,
  type ServerEvent,
  type ServerEventBus,
} from "@modelcontextprotocol/server";
import type { ToolRegistry } from "../../../routing/registry.ts";

/** Time in ms in which changes are combined: an upstream server adds all its tools at once. */
const DEBOUNCE_MS = 20;

/** @param notify receives the tenant whose tools have changed; undefined for all tenants */
export function watchTools(registry: ToolRegistry, notify: (tenantId: string | undefined) => void): Disposable {
  const changed = new Set<string | undefined>();
  let timer: NodeJS.Timeout | undefined;
  const notifyAll = (): void => {
    const all = changed.has(undefined) ? [undefined] : [...changed];
    timer = undefined;
    changed.clear();
    for (const tenantId of all) notify(tenantId);
  };
  const stop = registry.onChange?.((tenantId) => {
    changed.add(tenantId);
    timer ??= setTimeout(notifyAll, DEBOUNCE_MS).unref();
  });
  return {
    [Symbol.dispose]: () => {
      stop?.();
      clearTimeout(timer);
    },
  };
}

/** Notifies the client of a connection, if it is still open. */
export function notifyToolsChanged(mcp: McpServer): void {
  if (mcp.isConnected()) mcp.server.sendToolListChanged().catch(() => {});
}

/**
 * Notifies the client of a connection, if it is still open and prompts are served. The SDK's own `McpServer.sendPromptListChanged()` does not
 * handle its promise: for a server without prompts, the unhandled rejection would end the process.
 */
export function notifyPromptsChanged(mcp: McpServer): void {
  if (mcp.isConnected()) mcp.server.sendPromptListChanged().catch(() => {});
}

/** Event buses of the subscriptions in revision 2026-07-28. Each tenant has one, so that a change notifies only that tenant's clients. */
export class TenantEvents {
  readonly #tenant = new AsyncLocalStorage<string>();
  readonly #all = new InMemoryServerEventBus();
  readonly #byTenant = new Map<string, InMemoryServerEventBus>();

  /** The bus of the SDK. A subscription made within {@link TenantEvents.serve} receives the events of that tenant and of all tenants. */
  readonly bus: ServerEventBus = {
    publish: (event) => this.#all.publish(event),
    subscribe: (listener) => this.#subscribe(listener),
  };

  /** Runs a function whose subscriptions belong to a tenant. */
  serve<Result>(tenantId: string, run: () => Result): Result {
    return this.#tenant.run(tenantId, run);
  }

  /** @param tenantId undefined for all tenants */
  toolsChanged(tenantId: string | undefined): void {
    const bus = tenantId === undefined ? this.#all : this.#byTenant.get(tenantId);
    bus?.publish({ kind: "tools_list_changed" });
  }

  #subscribe(listener: (event: ServerEvent) => void): () => void {
    const unsubscribeAll = this.#all.subscribe(listener);
    const tenantId = this.#tenant.getStore();
    if (tenantId === undefined) return unsubscribeAll;
    const own = this.#byTenant.get(tenantId) ?? new InMemoryServerEventBus();
    this.#byTenant.set(tenantId, own);
    const unsubscribeOwn = own.subscribe(listener);
    return () => {
      unsubscribeAll();
      unsubscribeOwn();
      if (own.listenerCount === 0 && this.#byTenant.get(tenantId) === own) this.#byTenant.delete(tenantId);
    };
  }
}
