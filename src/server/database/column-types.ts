// The differences between SQLite and Postgres in a migration.
import { type RawBuilder, sql } from "kysely";

export type DatabaseKind = "sqlite" | "postgres";

export interface ColumnTypes {
  /** Type of a column of whole numbers of up to 53 bits. */
  readonly integer: "integer" | "bigint";
  /** Type of a primary key that the database counts up. */
  readonly serial: "integer" | "bigserial";
  /** Type of a column of numbers with a fraction. */
  readonly real: "real" | "double precision";
  /** Type of a column of bytes. */
  readonly bytes: "blob" | "bytea";
  /** Options after the column list of a table. SQLite checks the types of values only in tables that are STRICT. */
  readonly tableOptions: RawBuilder<unknown>;
}

export const COLUMN_TYPES: { readonly [Kind in DatabaseKind]: ColumnTypes } = {
  sqlite: { integer: "integer", serial: "integer", real: "real", bytes: "blob", tableOptions: sql`strict` },
  postgres: { integer: "bigint", serial: "bigserial", real: "double precision", bytes: "bytea", tableOptions: sql`` },
};
