// Counts the calls of a tenant or a key that run and that wait, over all replicas, for those who look at its limits.
import type { Glovebox } from "../../host/index.ts";
import type { ClusterSlots, SlotCounts } from "../calls/cluster-slots.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { SlotOwner } from "../records/tenants/concurrency-slots.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import { ANSWER_MS, type ReplicaRequests } from "../replicas/requests.ts";

export interface RunningCountsDependencies {
  readonly kind: DatabaseKind;
  readonly bus: ReplicaBus;
  readonly requests: ReplicaRequests;
  readonly glovebox: Pick<Glovebox, "listCalls">;
  readonly slots: ClusterSlots;
}

export class RunningCounts implements Disposable {
  readonly #dependencies: RunningCountsDependencies;
  readonly #subscription: Disposable;

  constructor(dependencies: RunningCountsDependencies) {
    this.#dependencies = dependencies;
    const { bus, requests } = dependencies;
    this.#subscription = bus.subscribe("count", async ({ sender, message: { request, kind, id } }) => {
      if (sender !== bus.replicaId) await requests.answer(request, true, this.#here({ kind, id }));
    });
  }

  /** Returns the counts over all replicas. Those of a replica that does not answer in time are missing. */
  async of(owner: SlotOwner): Promise<SlotCounts> {
    const own = this.#here(owner);
    const options = { timeoutMs: ANSWER_MS, until: "all" } as const;
    const { counts } = await this.#dependencies.requests.send({ type: "count", ...owner }, options);
    return counts.reduce(
      (sum, { running, waiting }) => ({ running: sum.running + running, waiting: sum.waiting + waiting }),
      own,
    );
  }

  #here(owner: SlotOwner): SlotCounts {
    const { kind, glovebox, slots } = this.#dependencies;
    if (kind === "postgres" || owner.kind === "key") return slots.counts(owner);
    // With SQLite, the Glovebox limits the calls of a tenant.
    const calls = glovebox.listCalls({ tenantId: owner.id }).filter(({ parentId }) => parentId === undefined);
    const waiting = calls.filter(({ state }) => state === "queued").length;
    return { running: calls.length - waiting, waiting };
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}
