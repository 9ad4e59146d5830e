// Cancels calls, in whichever replica they run. Synchronous calls have no row while they run, so a message goes to all replicas.
import type { Glovebox } from "../../host/index.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { requestCancel } from "../records/calls/call-outcomes.ts";
import { type CallRow, findCall } from "../records/calls/calls.ts";
import type { TenantRecord } from "../records/tenants/tenants.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import { ANSWER_MS, type ReplicaRequests } from "../replicas/requests.ts";
import type { ClusterSlots } from "./cluster-slots.ts";
import { toStoredInput } from "./outcome.ts";
import type { CallQueue } from "./queue/call-queue.ts";
import type { ForwardedCalls } from "./replicas/forwarded-calls.ts";
import type { CallJournal } from "./running/call-journal.ts";

export interface CancellationDependencies {
  readonly database: OpenDatabase;
  readonly glovebox: Glovebox;
  readonly bus: ReplicaBus;
  readonly requests: ReplicaRequests;
  readonly slots: ClusterSlots;
  readonly queue: CallQueue;
  readonly journal: CallJournal;
  readonly forwarded: Pick<ForwardedCalls, "cancel">;
}

export class Cancellation implements Disposable {
  readonly #dependencies: CancellationDependencies;
  readonly #subscription: Disposable;

  constructor(dependencies: CancellationDependencies) {
    this.#dependencies = dependencies;
    const { bus, requests, journal } = dependencies;
    this.#subscription = bus.subscribe("cancel", async ({ sender, message: { request, tenant, call } }) => {
      if (sender === bus.replicaId) return;
      const isDone = this.#cancelHere(tenant, call);
      if (request === undefined) return;
      // A call that has just ended has its row before the answer.
      if (!isDone) await journal.flush();
      await requests.answer(request, isDone);
    });
  }

  /** Cancels a call. Returns the state that it had; undefined if there is no such call. */
  async cancel(
    { id: tenantId, policy }: Pick<TenantRecord, "id" | "policy">,
    id: string,
  ): Promise<CallRow["state"] | undefined> {
    if (this.#cancelHere(tenantId, id)) return "running";
    const { bus, database, requests } = this.#dependencies;
    const { db } = database;
    // The input of a call that has not run is stored as it is until the call has ended.
    const { keepContent } = policy.retention;
    const before = await requestCancel(db, tenantId, id, (input) => (keepContent ? toStoredInput(input) : null));
    // The process that runs it sees that in the row too, but not at once. This one may have claimed it meanwhile.
    if (before === "running" && !this.#cancelHere(tenantId, id))
      await bus.publish({ type: "cancel", tenant: tenantId, call: id });
    if (before !== undefined) return before;
    const limits = { timeoutMs: ANSWER_MS, until: "one" } as const;
    const { isDone } = await requests.send({ type: "cancel", tenant: tenantId, call: id }, limits);
    return isDone ? "running" : (await findCall(db, tenantId, id))?.state;
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }

  /** Cancels a call that runs in this process. */
  #cancelHere(tenantId: string, id: string): boolean {
    const isRunning = this.#dependencies.glovebox.cancelCall(id, { tenantId });
    // One from the queue must not go back to it.
    const isClaimed = this.#dependencies.queue.cancel(id, tenantId);
    const isWaiting = this.#dependencies.slots.cancel(tenantId, id);
    // One that another replica runs is cancelled there.
    const isForwarded = this.#dependencies.forwarded.cancel(tenantId, id);
    return isRunning || isClaimed || isWaiting || isForwarded;
  }
}
