// Lists of tools next to the Glovebox's own, such as those of code modes: each has a router of its own, and runs on the parts of the Glovebox.
import type { Bundler } from "../../bundler/bundler.ts";
import type { KvStore } from "../capabilities/kv/kv-store.ts";
import type { PythonHost } from "../python/python-host.ts";
import type { CallInfo } from "../routing/open-calls.ts";
import type { TenantScope } from "../routing/tenant-scope.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { TenantFilter } from "../tenants/tenancy.ts";
import type { PendingByKey } from "../util/pending-by-key.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { EnvironmentResolver } from "./tool-environment.ts";

/** The parts of the Glovebox that all lists share. */
interface SharedParts {
  readonly pool: CallPool;
  readonly bundler: Bundler;
  readonly python: PythonHost;
  readonly environments: EnvironmentResolver;
  readonly store: KvStore;
  readonly kvPending: PendingByKey;
}

/** A list of tools next to the Glovebox's own, and the parts that run them. */
export interface SecondaryToolList extends SharedParts {
  readonly router: ToolRouter;
  /** Ends the calls of the list's tools. */
  close(): Promise<void>;
}

export class SecondaryToolLists {
  readonly #openRouter: () => ToolRouter;
  readonly #parts: SharedParts;
  /** The router of each list, with a function that drops what the list keeps of a tenant. */
  readonly #lists = new Map<ToolRouter, (tenantId: string) => void>();

  /** @param openRouter creates a router with the policies, hooks and limits of the main one */
  constructor(openRouter: () => ToolRouter, parts: SharedParts) {
    this.#openRouter = openRouter;
    this.#parts = parts;
  }

  get routers(): readonly ToolRouter[] {
    return [...this.#lists.keys()];
  }

  /** @param onTenantDeleted drops what the list keeps of a tenant */
  open(onTenantDeleted: (tenantId: string) => void): SecondaryToolList {
    const router = this.#openRouter();
    this.#lists.set(router, onTenantDeleted);
    return {
      ...this.#parts,
      router,
      close: async () => {
        await router[Symbol.asyncDispose]();
        this.#lists.delete(router);
      },
    };
  }

  /** Drops what the lists keep of a tenant. */
  deleteTenant(tenantId: string): void {
    for (const onTenantDeleted of this.#lists.values()) onTenantDeleted(tenantId);
  }

  listCalls(options: TenantFilter | undefined): readonly CallInfo[] {
    return this.routers.flatMap((router) => router.listCalls(options));
  }

  /** Cancels a call in all lists. Returns false if none of them has it. */
  cancelCall(id: string, options: TenantScope | undefined): boolean {
    return this.routers.map((router) => router.cancelCall(id, options)).includes(true);
  }
}
