// Rolls a release back when too many calls of a version fail, if the release is configured to. The replicas add the calls
// that they have run to one count in the database, and the one whose calls exceed the limit rolls back.
import type { OpenDatabase } from "../database/open-database.ts";
import { BackgroundWork } from "../operation/background-work.ts";
import { appendAudit, SERVER_ACTOR } from "../records/audit/audit.ts";
import { TOOL_FAULTS } from "../records/calls/call-faults.ts";
import type { CallRow } from "../records/calls/calls.ts";
import { emitEvents } from "../records/events/webhooks.ts";
import { touchTenant } from "../records/tenants/tenants.ts";
import { addReleaseCount, type ReleaseCount } from "../records/tools/release-counts.ts";
import { findPrevious, findRelease, type ReleaseRecord, storeRelease } from "../records/tools/releases.ts";
import { findVersion } from "../records/tools/tool-versions.ts";
import { changeExclusively } from "../records/write-lock.ts";

/** Time in ms for which calls are counted before they are added to the database. */
const BATCH_MS = 250;
/** Maximum number of versions that are counted at one time. Calls of others are not counted until the next batch. */
const MAX_COUNTS = 10_000;

/** Calls that have ended since the last batch. */
interface Batch {
  readonly tenantId: string;
  readonly release: ReleaseRecord;
  readonly version: number;
  calls: number;
  faults: number;
}

export interface ReleaseWatchDependencies {
  readonly database: OpenDatabase;
  /** Returns a release as it was last read. */
  readonly releaseOf: (tenantId: string, toolName: string, alias: string) => ReleaseRecord | undefined;
  /** Called after a release was rolled back. */
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
}

type EndedCall = Pick<CallRow, "tenant_id" | "tool_name" | "alias" | "tool_version" | "error">;

export class ReleaseWatch implements AsyncDisposable {
  readonly #dependencies: ReleaseWatchDependencies;
  readonly #background: BackgroundWork;
  #batches = new Map<string, Batch>();
  /** Versions that have exceeded the limit of their release: there is nothing to go back to, or a rollback is under way. */
  readonly #decided = new Set<string>();
  #timer: NodeJS.Timeout | undefined;

  constructor(dependencies: ReleaseWatchDependencies) {
    this.#dependencies = dependencies;
    this.#background = new BackgroundWork(dependencies.onError);
  }

  /** Counts a call that has ended. Never throws. */
  observe({ tenant_id: tenantId, tool_name: toolName, alias, tool_version: version, error }: EndedCall): void {
    const release = this.#dependencies.releaseOf(tenantId, toolName, alias);
    const isReleased = release?.versions.some((one) => one.version === version) === true;
    if (release?.rollback == null || version === null || !isReleased) return;
    const key = JSON.stringify([tenantId, toolName, alias, release.revision, version]);
    if (this.#decided.has(key)) return;
    const batch = this.#batches.get(key) ?? { tenantId, release, version, calls: 0, faults: 0 };
    if (batch.calls === 0 && this.#batches.size >= MAX_COUNTS) return;
    this.#batches.set(key, batch);
    batch.calls += 1;
    if (error !== null && TOOL_FAULTS.has((JSON.parse(error) as { readonly code: string }).code)) batch.faults += 1;
    this.#timer ??= setTimeout(() => this.#add(), BATCH_MS);
  }

  /** Adds what was counted to the database. */
  #add(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batches = this.#batches;
    this.#batches = new Map();
    void this.#background.run(async () => {
      for (const [key, batch] of batches) await this.#decide(key, batch).catch(this.#dependencies.onError);
    });
  }

  async #decide(key: string, { tenantId, release, version, calls, faults }: Batch): Promise<void> {
    const { toolName, alias, revision, rollback } = release;
    const released = { tenantId, toolName, alias, revision, version };
    const total = await addReleaseCount(this.#dependencies.database.db, released, { calls, faults });
    if (rollback === null || total.calls < rollback.minCalls || total.faults / total.calls <= rollback.errorRate)
      return;
    if (this.#decided.has(key)) return;
    if (this.#decided.size >= MAX_COUNTS) this.#decided.clear();
    this.#decided.add(key);
    try {
      await this.#rollBack(tenantId, release, version, total);
    } catch (thrown) {
      // The next batch tries again.
      this.#decided.delete(key);
      throw thrown;
    }
  }

  /** Adds what was counted, and waits for it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#add();
    await this.#background.settled();
  }

  async #rollBack(tenantId: string, release: ReleaseRecord, version: number, count: ReleaseCount): Promise<void> {
    const { database, onChange } = this.#dependencies;
    const { toolName, alias, revision } = release;
    const key = { tenantId, toolName, alias };
    const isChanged = await changeExclusively(database, async (transaction) => {
      const current = await findRelease(transaction, key);
      const versions = await findPrevious(transaction, key);
      // Another server or a person has changed the release meanwhile, or there is nothing to go back to.
      if (current?.revision !== revision || versions === undefined) return false;
      if (versions.some((one) => one.version === version)) return false;
      // A version that the alias ran before may have been deleted since.
      for (const one of versions)
        if ((await findVersion(transaction, key, one.version))?.state !== "ready") return false;
      const change = {
        versions,
        reason: "automatic_rollback",
        changedBy: "server",
        rollback: current.rollback,
      } as const;
      await storeRelease(transaction, key, change);
      await touchTenant(transaction, tenantId);
      const details = { versions, failedVersion: version, ...count };
      await appendAudit(transaction, {
        actor: SERVER_ACTOR,
        tenantId,
        action: "release.rolled_back",
        target: `${toolName}:${alias}`,
        details,
      });
      await emitEvents(transaction, [
        { tenantId, type: "release.rolled_back", data: { tool: toolName, alias, ...details } },
      ]);
      return true;
    });
    if (isChanged) onChange();
  }
}
