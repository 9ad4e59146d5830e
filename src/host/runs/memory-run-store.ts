// Keeps durable runs in memory, for tests and for hosts whose runs need not survive the process.
import type {
  DueFilter,
  NewRun,
  RunClaim,
  RunFilter,
  RunKey,
  RunLease,
  RunRecord,
  RunRelease,
  RunState,
  RunStore,
} from "./run-store.ts";

type Writable<Type> = { -readonly [Key in keyof Type]: Type[Key] };
interface Kept {
  readonly run: Writable<RunRecord>;
  readonly journal: string[];
}

const isEnded = ({ state }: RunRecord): boolean => state !== "running" && state !== "suspended";
const isDue = ({ state, leaseUntil, wakeAt = Number.POSITIVE_INFINITY, expiresAt }: RunRecord, now: number): boolean =>
  state === "running" ? leaseUntil < now : state === "suspended" && Math.min(wakeAt, expiresAt) <= now;
const keyOf = ({ tenantId, id }: RunKey): string => JSON.stringify([tenantId, id]);

/**
 * A {@link RunStore} in memory.
 * @example
 * ```ts
 * import { createGlovebox, createRuns, MemoryRunStore } from "glovebox";
 *
 * await using glovebox = await createGlovebox();
 * await using runs = createRuns(glovebox, { store: new MemoryRunStore() });
 * console.log((await runs.list()).length); // 0
 * ```
 */
export class MemoryRunStore implements RunStore {
  readonly #runs = new Map<string, Kept>();

  async create(run: NewRun, maxOpen: number): Promise<"created" | "taken" | "full"> {
    if (this.#runs.has(keyOf(run))) return "taken";
    const { tenantId, kind } = run;
    const open = [...this.#runs.values()].filter(
      (one) => one.run.tenantId === tenantId && one.run.kind === kind && !isEnded(one.run),
    );
    if (open.length >= maxOpen) return "full";
    const record = { ...run, state: "running" as const, fence: 1, waits: [], journalLength: 0, entries: 0 };
    this.#runs.set(keyOf(run), { run: record, journal: [] });
    return "created";
  }

  async find(key: RunKey): Promise<RunRecord | undefined> {
    const kept = this.#runs.get(keyOf(key));
    return kept && { ...kept.run };
  }

  async journal(key: RunKey): Promise<readonly string[]> {
    return [...(this.#runs.get(keyOf(key))?.journal ?? [])];
  }

  async list(tenantId: string, { state, before, limit }: RunFilter): Promise<readonly RunRecord[]> {
    return [...this.#runs.values()]
      .map(({ run }) => run)
      .filter((run) => run.tenantId === tenantId && (state === undefined || run.state === state))
      .filter(({ id }) => before === undefined || id < before)
      .sort((a, b) => (a.id < b.id ? 1 : -1))
      .slice(0, limit)
      .map((run) => ({ ...run }));
  }

  async claim(key: RunKey, { kind, now, until }: RunLease): Promise<number | undefined> {
    const run = this.#runs.get(keyOf(key))?.run;
    if (run === undefined || run.kind !== kind || isEnded(run) || (run.state === "running" && run.leaseUntil >= now))
      return undefined;
    run.state = "running";
    run.fence += 1;
    run.leaseUntil = until;
    return run.fence;
  }

  #claimed({ fence, ...key }: RunClaim): Kept | undefined {
    const kept = this.#runs.get(keyOf(key));
    return kept?.run.state === "running" && kept.run.fence === fence ? kept : undefined;
  }

  async renew(claim: RunClaim, until: number): Promise<boolean> {
    const kept = this.#claimed(claim);
    if (kept !== undefined) kept.run.leaseUntil = until;
    return kept !== undefined;
  }

  #add({ run, journal }: Kept, entries: readonly string[]): void {
    journal.push(...entries);
    run.entries += entries.length;
    run.journalLength += entries.reduce((sum, { length }) => sum + length, 0);
  }

  async append(claim: RunClaim, entries: readonly string[]): Promise<boolean> {
    const kept = this.#claimed(claim);
    if (kept !== undefined) this.#add(kept, entries);
    return kept !== undefined;
  }

  async appendEvent(key: RunKey, entry: string): Promise<RunState | undefined> {
    const kept = this.#runs.get(keyOf(key));
    if (kept === undefined || isEnded(kept.run)) return undefined;
    this.#add(kept, [entry]);
    return kept.run.state;
  }

  async release(claim: RunClaim, release: RunRelease, entries: number): Promise<"released" | "changed" | "lost"> {
    const kept = this.#claimed(claim);
    if (kept === undefined) return "lost";
    const { run } = kept;
    if (release.state === "suspended" && run.entries !== entries) return "changed";
    run.state = release.state;
    run.waits = release.state === "suspended" ? release.waits : [];
    run.wakeAt = release.state === "suspended" ? release.wakeAt : undefined;
    if (release.state !== "suspended") run.result = release.result;
    return "released";
  }

  async due(
    now: number,
    { kind, tenantId: owner, except = [], perTenant, limit }: DueFilter,
  ): Promise<readonly RunKey[]> {
    const due = [...this.#runs.values()]
      .map(({ run }) => run)
      .filter((run) => run.kind === kind && (owner === undefined || run.tenantId === owner))
      .filter(({ tenantId }) => !except.includes(tenantId))
      .filter((run) => isDue(run, now))
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    const counts = new Map<string, number>();
    return due
      .map(({ tenantId, id }) => {
        const rank = (counts.get(tenantId) ?? 0) + 1;
        counts.set(tenantId, rank);
        return { tenantId, id, rank };
      })
      .filter(({ rank }) => rank <= perTenant)
      .sort((a, b) => a.rank - b.rank)
      .slice(0, limit)
      .map(({ tenantId, id }) => ({ tenantId, id }));
  }

  async deleteTenant(tenantId: string): Promise<number> {
    let deleted = 0;
    for (const [key, { run }] of this.#runs) if (run.tenantId === tenantId && this.#runs.delete(key)) deleted += 1;
    return deleted;
  }
}
