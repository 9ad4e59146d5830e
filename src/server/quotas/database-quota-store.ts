// Keeps the counters of rate limits and quotas in the database, so that they survive a restart and several servers share them. Reports when a
// window reaches 80 % of its limit.
import { sql } from "kysely";
import type { QuotaCharge, QuotaOutcome, QuotaStore, RateCharge, WindowCharge } from "../../host/index.ts";
import { takeToken } from "../../host/tenants/quotas/rate-bucket.ts";
import type { DatabaseKind } from "../database/column-types.ts";
import type { Db } from "../database/open-database.ts";
import type { QuotaCountersTable } from "../database/tables/tenant-tables.ts";
import { isNotInUse } from "../records/tenants/tenants.ts";
import { toQuotaName, WARN_AT } from "./quota-status.ts";

export interface QuotaWarning {
  readonly tenantId: string;
  /** Resource and period, as `GET …/quotas` has them: `calls:month`. */
  readonly name: string;
  readonly used: number;
  readonly limit: number;
}

export interface DatabaseQuotaStoreDependencies {
  readonly db: Db;
  readonly kind: DatabaseKind;
  /** Called once for each window. */
  readonly onWarning?: ((warning: QuotaWarning) => void) | undefined;
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined;
}

type Counter = Pick<QuotaCountersTable, "value" | "ends_at" | "is_warned">;
type Step = Counter | { readonly retryAfterMs: number };

function stepOfRate(charge: RateCharge, known: Counter | undefined, now: number): Step {
  const taken = takeToken(charge, known?.value, now);
  return "fullAt" in taken ? { value: taken.fullAt, ends_at: Math.ceil(taken.fullAt), is_warned: 0 } : taken;
}

function stepOfWindow({ amount, limit, endsAt }: WindowCharge, known: Counter | undefined, now: number): Step {
  const used = known?.value ?? 0;
  if (limit !== undefined && (used >= limit || used + amount > limit))
    return { retryAfterMs: Math.max(1, endsAt - now) };
  const value = used + amount;
  const isWarned = known?.is_warned === 1 || (limit !== undefined && value >= limit * WARN_AT);
  return { value, ends_at: endsAt, is_warned: Number(isWarned) };
}

export class DatabaseQuotaStore implements QuotaStore {
  readonly #dependencies: DatabaseQuotaStoreDependencies;
  readonly #now: () => number;

  constructor(dependencies: DatabaseQuotaStoreDependencies) {
    this.#dependencies = dependencies;
    this.#now = dependencies.now ?? Date.now;
  }

  now(): number {
    return this.#now();
  }

  async consume(charges: readonly QuotaCharge[]): Promise<QuotaOutcome> {
    const warnings: QuotaWarning[] = [];
    const outcome = await this.#dependencies.db.transaction().execute(async (transaction): Promise<QuotaOutcome> => {
      const now = this.#now();
      const known = await this.#readCounters(transaction, charges);
      const changes = new Map<string, { readonly charge: QuotaCharge; readonly step: Counter }>();
      for (const [index, charge] of charges.entries()) {
        const key = JSON.stringify([charge.tenantId, charge.name]);
        const stored = changes.get(key)?.step ?? known.get(key);
        const current = stored !== undefined && stored.ends_at > now ? stored : undefined;
        const step = charge.kind === "rate" ? stepOfRate(charge, current, now) : stepOfWindow(charge, current, now);
        if ("retryAfterMs" in step)
          return { allowed: false, denied: index, retryAfterMs: Math.ceil(step.retryAfterMs) };
        const isNew = step.is_warned === 1 && current?.is_warned !== 1;
        if (charge.kind === "window" && isNew) {
          const { tenantId, name, limit = 0 } = charge;
          warnings.push({ tenantId, name: toQuotaName(name), used: step.value, limit });
        }
        if (charge.kind === "rate" || charge.amount > 0 || isNew) changes.set(key, { charge, step });
      }
      for (const { charge, step } of changes.values()) await store(transaction, charge, step);
      return { allowed: true };
    });
    if (outcome.allowed) for (const warning of warnings) this.#dependencies.onWarning?.(warning);
    return outcome;
  }

  async deleteTenant(tenantId: string): Promise<number> {
    return await this.#dependencies.db.transaction().execute(async (transaction) => {
      const own = transaction.selectFrom("quota_counters").select("name").where("tenant_id", "=", tenantId);
      // In the order in which charges lock them: a call in another process may still be charged.
      if (this.#dependencies.kind === "postgres") await own.orderBy(sql`name collate "C"`).forUpdate().execute();
      const { numDeletedRows } = await transaction
        .deleteFrom("quota_counters")
        .where("tenant_id", "=", tenantId)
        .where(isNotInUse(tenantId))
        .executeTakeFirst();
      return Number(numDeletedRows);
    });
  }

  /** Removes counters that have ended. */
  async sweep(): Promise<void> {
    await this.#dependencies.db.deleteFrom("quota_counters").where("ends_at", "<=", this.#now()).execute();
  }

  /** Returns the current values of a tenant's counters by name. */
  async read(tenantId: string): Promise<ReadonlyMap<string, number>> {
    const rows = await this.#dependencies.db
      .selectFrom("quota_counters")
      .select(["name", "value"])
      .where("tenant_id", "=", tenantId)
      .where("ends_at", ">", this.#now())
      .execute();
    return new Map(rows.map(({ name, value }) => [name, value]));
  }

  /** Reads the counters of charges. With Postgres, their rows are locked until the end of the transaction. */
  async #readCounters(db: Db, charges: readonly QuotaCharge[]): Promise<ReadonlyMap<string, Counter>> {
    const names = new Map(charges.map(({ tenantId, name }) => [JSON.stringify([tenantId, name]), { tenantId, name }]));
    const isShared = this.#dependencies.kind === "postgres";
    const found = new Map<string, Counter>();
    // In one order everywhere, so that two transactions cannot wait for each other.
    for (const [key, { tenantId, name }] of [...names].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      if (isShared) {
        await db
          .insertInto("quota_counters")
          .values({ tenant_id: tenantId, name, value: 0, ends_at: 0, is_warned: 0 })
          .onConflict((conflict) => conflict.doNothing())
          .execute();
      }
      const query = db
        .selectFrom("quota_counters")
        .select(["value", "ends_at", "is_warned"])
        .where("tenant_id", "=", tenantId)
        .where("name", "=", name);
      const row = await (isShared ? query.forUpdate() : query).executeTakeFirst();
      if (row !== undefined) found.set(key, row);
    }
    return found;
  }
}

async function store(db: Db, { tenantId, name }: QuotaCharge, step: Counter): Promise<void> {
  await db
    .insertInto("quota_counters")
    .values({ tenant_id: tenantId, name, ...step })
    .onConflict((conflict) => conflict.columns(["tenant_id", "name"]).doUpdateSet(step))
    .execute();
}
