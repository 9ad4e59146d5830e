// The conditions of partial indexes, as queries repeat them. SQLite uses a partial index only for a query that has the condition of the index
// word by word, with values instead of parameters; without it, it reads the whole table, each time that the server looks for work.
import { type RawBuilder, sql } from "kysely";

/** Index `calls_open`. */
export const IS_OPEN_CALL: RawBuilder<boolean> = sql`state in ('queued', 'running')`;
/** Index `calls_queued`. */
export const IS_QUEUED_CALL: RawBuilder<boolean> = sql`state = 'queued'`;
/** Index `calls_recorded`. */
export const IS_RECORDED_CALL: RawBuilder<boolean> = sql`content >= 8`;
/** Index `deliveries_open`. */
export const IS_OPEN_DELIVERY: RawBuilder<boolean> = sql`state in ('waiting', 'sending')`;
/** Index `deliveries_ended`. */
export const IS_ENDED_DELIVERY: RawBuilder<boolean> = sql`ended_at is not null`;
/** Index `approvals_pending`. */
export const IS_PENDING_APPROVAL: RawBuilder<boolean> = sql`state = 'pending'`;
/** Index `runs_open`. */
export const IS_OPEN_RUN: RawBuilder<boolean> = sql`state in ('running', 'suspended')`;
/** Index `run_requests_cancelled`. */
export const IS_CANCELLED_REQUEST: RawBuilder<boolean> = sql`run_requests.cancel_requested = 1`;
/** Index `tool_versions_waiting`. */
export const IS_WAITING_VERSION: RawBuilder<boolean> = sql`state = 'waiting_for_approval'`;
