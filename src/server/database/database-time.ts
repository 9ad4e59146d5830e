// The time of the database in SQL. Processes on several machines agree on it, whatever their own clocks show.
import { type RawBuilder, sql } from "kysely";

/** The time of Postgres in ms since 1970, at this moment and not at the start of the transaction. */
export const databaseNow: RawBuilder<number> = sql<number>`(extract(epoch from clock_timestamp()) * 1000)::bigint`;
