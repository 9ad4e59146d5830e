// The first schema: tenants, keys, tool versions, releases, calls and the audit log.
import { type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

export async function up(db: Kysely<unknown>, { bytes, integer, tableOptions }: ColumnTypes): Promise<void> {
  await db.schema
    .createTable("tenants")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("policy", "text", (column) => column.notNull())
    .addColumn("revision", integer, (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .addColumn("updated_at", integer, (column) => column.notNull())
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("api_keys")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("tenant_id", "text", (column) => column.references("tenants.id").onDelete("cascade"))
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("hash", "text", (column) => column.notNull().unique())
    .addColumn("prefix", "text", (column) => column.notNull())
    .addColumn("scopes", "text", (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .addColumn("expires_at", integer)
    .addColumn("last_used_at", integer)
    .addColumn("revoked_at", integer)
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("api_keys_by_tenant").on("api_keys").column("tenant_id").execute();
  await db.schema
    .createTable("blobs")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("hash", "text", (column) => column.notNull())
    .addColumn("bytes", bytes, (column) => column.notNull())
    .addColumn("size", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("blobs_key", ["tenant_id", "hash"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("tool_versions")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("version", integer, (column) => column.notNull())
    .addColumn("content_hash", "text", (column) => column.notNull())
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("language", "text", (column) => column.notNull())
    .addColumn("bundle_hash", "text", (column) => column.notNull())
    .addColumn("definition", "text", (column) => column.notNull())
    .addColumn("settings", "text", (column) => column.notNull())
    .addColumn("created_by", "text", (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .addColumn("decided_by", "text")
    .addColumn("decided_at", integer)
    .addPrimaryKeyConstraint("tool_versions_key", ["tenant_id", "tool_name", "version"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("version_files")
    .addColumn("tenant_id", "text", (column) => column.notNull())
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("version", integer, (column) => column.notNull())
    .addColumn("kind", "text", (column) => column.notNull())
    .addColumn("blob_hash", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("version_files_key", ["tenant_id", "tool_name", "version", "kind"])
    .addForeignKeyConstraint(
      "version_files_version",
      ["tenant_id", "tool_name", "version"],
      "tool_versions",
      ["tenant_id", "tool_name", "version"],
      (constraint) => constraint.onDelete("cascade"),
    )
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("releases")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("alias", "text", (column) => column.notNull())
    .addColumn("versions", "text", (column) => column.notNull())
    .addColumn("rollback", "text")
    .addColumn("revision", integer, (column) => column.notNull())
    .addColumn("changed_by", "text", (column) => column.notNull())
    .addColumn("updated_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("releases_key", ["tenant_id", "tool_name", "alias"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("release_history")
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("alias", "text", (column) => column.notNull())
    .addColumn("revision", integer, (column) => column.notNull())
    .addColumn("versions", "text", (column) => column.notNull())
    .addColumn("reason", "text", (column) => column.notNull())
    .addColumn("changed_by", "text", (column) => column.notNull())
    .addColumn("created_at", integer, (column) => column.notNull())
    .addPrimaryKeyConstraint("release_history_key", ["tenant_id", "tool_name", "alias", "revision"])
    .modifyEnd(tableOptions)
    .execute();
  await db.schema
    .createTable("calls")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("tenant_id", "text", (column) => column.notNull().references("tenants.id").onDelete("cascade"))
    .addColumn("tool_name", "text", (column) => column.notNull())
    .addColumn("tool_version", integer)
    .addColumn("alias", "text", (column) => column.notNull())
    .addColumn("mode", "text", (column) => column.notNull())
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("effects", "text", (column) => column.notNull())
    .addColumn("key_id", "text", (column) => column.notNull())
    .addColumn("session_id", "text")
    .addColumn("idempotency_key", "text")
    .addColumn("request_hash", "text")
    .addColumn("timeout_ms", integer)
    .addColumn("input", "text")
    .addColumn("output", "text")
    .addColumn("error", "text")
    .addColumn("logs", "text")
    .addColumn("usage", "text")
    .addColumn("calls", "text")
    .addColumn("created_at", integer, (column) => column.notNull())
    .addColumn("started_at", integer)
    .addColumn("ended_at", integer)
    .addColumn("run_at", integer)
    .addColumn("lease_owner", "text")
    .addColumn("lease_until", integer)
    .addColumn("fence", integer, (column) => column.notNull())
    .addColumn("attempts", integer, (column) => column.notNull())
    .addColumn("cancel_requested", integer, (column) => column.notNull())
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("calls_by_tenant").on("calls").columns(["tenant_id", "id"]).execute();
  // Partial, so that finished calls, which are nearly all, cost the queue nothing.
  await db.schema
    .createIndex("calls_open")
    .on("calls")
    .columns(["state", "run_at"])
    .where(sql.ref("state"), "in", sql`('queued', 'running')`)
    .execute();
  await db.schema
    .createIndex("calls_by_idempotency_key")
    .unique()
    .on("calls")
    .columns(["tenant_id", "idempotency_key"])
    .where(sql.ref("idempotency_key"), "is not", null)
    .execute();
  await db.schema
    .createTable("audit")
    .addColumn("sequence", integer, (column) => column.primaryKey())
    .addColumn("at", integer, (column) => column.notNull())
    .addColumn("actor", "text", (column) => column.notNull())
    .addColumn("tenant_id", "text")
    .addColumn("action", "text", (column) => column.notNull())
    .addColumn("target", "text", (column) => column.notNull())
    .addColumn("ip", "text")
    .addColumn("request_id", "text")
    .addColumn("details", "text", (column) => column.notNull())
    .addColumn("previous_hash", "text", (column) => column.notNull())
    .addColumn("hash", "text", (column) => column.notNull())
    .modifyEnd(tableOptions)
    .execute();
  await db.schema.createIndex("audit_by_tenant").on("audit").columns(["tenant_id", "sequence"]).execute();
}
