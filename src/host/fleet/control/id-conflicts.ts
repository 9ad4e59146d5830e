// Two processes with the id of one executor: one that was restarted after a crash replaces the earlier one, and one that was started with the
// credentials of an executor that is alive is rejected. Their announcements differ in the key of the process.
import { setBounded } from "../../util/bounded-map.ts";
import type { FleetConnection } from "../nats-connection.ts";
import { executorSubject } from "../protocol/subjects.ts";
import { encodeFrame } from "../protocol/wire.ts";
import type { RemoteExecutor } from "./remote-executor.ts";

/** Time in ms after which a process that does not announce itself any more gives way to another one: three announcements. */
const TAKEOVER_MS = 1_500;
/** Time in ms between two reports of the same conflict. Executors of earlier releases do not end. */
const REPORT_MS = 60_000;
/** Maximum number of ids with a conflict. */
const MAX_RIVALS = 10_000;

/** A process that announces itself with the id of another one. */
interface Rival {
  readonly key: string;
  /** When it has last announced itself, by performance.now(). */
  readonly seenAt: number;
  reportedAt: number;
}

type Known = Pick<RemoteExecutor, "id" | "seenAt">;

export interface IdConflictsOptions {
  readonly connection: Pick<FleetConnection, "publish">;
  readonly onError: (error: Error) => void;
  /** Clock in ms that never goes back. Default: performance.now */
  readonly now?: () => number;
}

export class IdConflicts {
  readonly #options: IdConflictsOptions;
  readonly #now: () => number;
  readonly #rivals = new Map<string, Rival>();

  constructor(options: IdConflictsOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  /**
   * Returns whether a process that announces itself replaces the known one, because that is silent.
   * @param isLate whether this host has not read announcements for a while, so that the known process only seems to be silent
   */
  replaces({ id, seenAt }: Known, key: string, isLate: boolean): boolean {
    const now = this.#now();
    if (!isLate && now - seenAt >= TAKEOVER_MS) {
      this.#rivals.delete(id);
      return true;
    }
    const before = this.#rivals.get(id);
    const reportedAt = before?.key === key ? before.reportedAt : Number.NEGATIVE_INFINITY;
    setBounded(this.#rivals, id, { key, seenAt: now, reportedAt }, MAX_RIVALS);
    return false;
  }

  /** The known process has announced itself again, so a process that has done so in the meantime is a second one. */
  confirm({ id }: Known): void {
    const rival = this.#rivals.get(id);
    if (rival === undefined) return;
    const now = this.#now();
    if (now - rival.seenAt > TAKEOVER_MS) {
      if (now - rival.reportedAt > REPORT_MS) this.#rivals.delete(id);
      return;
    }
    if (now - rival.reportedAt < REPORT_MS) return;
    rival.reportedAt = now;
    this.#options.connection.publish(executorSubject(id), encodeFrame({ type: "id-in-use", key: rival.key }));
    this.#options.onError(
      new Error(
        `A second process announces itself as the executor ${id} and gets no calls, because the first one is connected. Give each executor credentials of its own`,
      ),
    );
  }

  forget(id: string): void {
    this.#rivals.delete(id);
  }
}
