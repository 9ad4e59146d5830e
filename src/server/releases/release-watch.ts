// Rolls a release back when too many calls of a version fail, if the release is configured to. Each server counts the calls that it runs.
import type { ErrorCode } from "../../host/index.ts";
import type { OpenDatabase } from "../database/open-database.ts";
import { appendAudit, SERVER_ACTOR } from "../records/audit.ts";
import type { CallRow } from "../records/calls.ts";
import { findPrevious, findRelease, type ReleaseRecord, storeRelease } from "../records/releases.ts";
import { touchTenant } from "../records/tenants.ts";
import { findVersion } from "../records/tool-versions.ts";
import { emitEvents } from "../records/webhooks.ts";
import { changeExclusively } from "../records/write-lock.ts";

/** Failures that say something about the version, and not about its caller, its tenant or the server. */
const VERSION_FAULTS: ReadonlySet<string> = new Set<ErrorCode>([
  ...(["TOOL_FAILED", "TOOL_TIMEOUT", "CPU_LIMIT", "MEMORY_LIMIT", "OUTPUT_INVALID", "OUTPUT_TOO_LARGE"] as const),
  ...(["BUNDLE_FAILED", "CAPABILITY_DENIED", "SANDBOX_CRASHED"] as const),
]);
/** Most versions that are counted at one time. */
const MAX_COUNTS = 10_000;

interface Count {
  calls: number;
  faults: number;
}

export interface ReleaseWatchParts {
  readonly database: OpenDatabase;
  /** Returns a release as it was last read. */
  readonly releaseOf: (tenantId: string, toolName: string, alias: string) => ReleaseRecord | undefined;
  /** Called after a release was rolled back. */
  readonly onChange: () => void;
  readonly onError: (error: unknown) => void;
}

type EndedCall = Pick<CallRow, "tenant_id" | "tool_name" | "alias" | "tool_version" | "error">;

export class ReleaseWatch {
  readonly #parts: ReleaseWatchParts;
  readonly #counts = new Map<string, Count>();

  constructor(parts: ReleaseWatchParts) {
    this.#parts = parts;
  }

  /** Counts a call that has ended. Never throws. */
  observe({ tenant_id: tenantId, tool_name: toolName, alias, tool_version: version, error }: EndedCall): void {
    const release = this.#parts.releaseOf(tenantId, toolName, alias);
    const isReleased = release?.versions.some((one) => one.version === version) === true;
    if (release?.rollback == null || version === null || !isReleased) return;
    const key = JSON.stringify([tenantId, toolName, alias, release.revision, version]);
    const count = this.#counts.get(key) ?? { calls: 0, faults: 0 };
    if (this.#counts.size >= MAX_COUNTS) this.#counts.clear();
    this.#counts.set(key, count);
    count.calls += 1;
    if (error !== null && VERSION_FAULTS.has((JSON.parse(error) as { readonly code: string }).code)) count.faults += 1;
    const { minCalls, errorRate } = release.rollback;
    if (count.calls < minCalls || count.faults / count.calls <= errorRate) return;
    this.#counts.delete(key);
    this.#rollBack(tenantId, release, version, { ...count }).catch(this.#parts.onError);
  }

  async #rollBack(tenantId: string, release: ReleaseRecord, version: number, count: Count): Promise<void> {
    const { database, onChange } = this.#parts;
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
        ...{ actor: SERVER_ACTOR, tenantId, action: "release.rolled_back", target: `${toolName}:${alias}`, details },
      });
      await emitEvents(transaction, [
        { tenantId, type: "release.rolled_back", data: { tool: toolName, alias, ...details } },
      ]);
      return true;
    });
    if (isChanged) onChange();
  }
}
