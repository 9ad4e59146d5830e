// Adds secrets, usage, counters of quotas, schedules, webhooks, triggers, and the values of tools.
import { type CreateTableBuilder, type Kysely, sql } from "kysely";
import type { ColumnTypes } from "../column-types.ts";

type Columns = { readonly [name: string]: string };

/** Adds columns by type; a type that ends in `?` may be null. */
function addColumns<Name extends string>(
  table: CreateTableBuilder<Name, never>,
  columns: Columns,
): CreateTableBuilder<Name, never> {
  let built: CreateTableBuilder<Name, never> = table;
  for (const [name, type] of Object.entries(columns)) {
    const isNullable = type.endsWith("?");
    built = built.addColumn(name as never, sql.raw(type.replace("?", "")), (column) =>
      isNullable ? column : column.notNull(),
    );
  }
  return built;
}

export async function up(db: Kysely<unknown>, { bytes, integer, real, tableOptions }: ColumnTypes): Promise<void> {
  const create = (name: string, columns: Columns, key: readonly string[], hasTenant = true): Promise<void> => {
    const table = addColumns(db.schema.createTable(name) as CreateTableBuilder<string, never>, columns)
      .addPrimaryKeyConstraint(`${name}_key`, key as never)
      .modifyEnd(tableOptions);
    return (
      hasTenant
        ? table.addForeignKeyConstraint(`${name}_tenant`, ["tenant_id"] as never, "tenants", ["id"], (constraint) =>
            constraint.onDelete("cascade"),
          )
        : table
    ).execute();
  };

  await db.schema.alterTable("api_keys").addColumn("rate_limit", "text").execute();
  await db.schema
    .alterTable("calls")
    .addColumn("content", integer, (column) => column.notNull().defaultTo(0))
    .execute();
  await db.schema.alterTable("calls").addColumn("timeline", "text").execute();
  await db.schema
    .createIndex("tool_versions_waiting")
    .on("tool_versions")
    .columns(["tenant_id", "tool_name"])
    .where(sql.ref("state"), "=", sql`'waiting_for_approval'`)
    .execute();
  await db.schema
    .createTable("call_contents")
    .addColumn("call_id", "text", (column) => column.notNull().references("calls.id").onDelete("cascade"))
    .addColumn("tenant_id", "text", (column) => column.notNull())
    .addColumn("kind", "text", (column) => column.notNull())
    .addColumn("text", "text", (column) => column.notNull())
    .addPrimaryKeyConstraint("call_contents_key", ["call_id", "kind"])
    .modifyEnd(tableOptions)
    .execute();
  await create("settings", { name: "text", value: "text" }, ["name"], false);
  await create(
    "secrets",
    {
      tenant_id: "text",
      name: "text",
      sealed: bytes,
      hosts: "text",
      changed_by: "text",
      created_at: integer,
      updated_at: integer,
    },
    ["tenant_id", "name"],
  );
  await create(
    "usage",
    {
      tenant_id: "text",
      tool_name: "text",
      hour: integer,
      outcome: "text",
      calls: integer,
      cpu_ms: real,
      wall_ms: real,
      input_bytes: integer,
      output_bytes: integer,
      egress_bytes_in: integer,
      egress_bytes_out: integer,
    },
    ["tenant_id", "hour", "tool_name", "outcome"],
  );
  // Keys of the platform have counters too, so the tenant is not a reference.
  await create(
    "quota_counters",
    { tenant_id: "text", name: "text", value: real, ends_at: integer, is_warned: integer },
    ["tenant_id", "name"],
    false,
  );
  await db.schema.createIndex("quota_counters_by_end").on("quota_counters").column("ends_at").execute();
  await create(
    "schedules",
    {
      id: "text",
      tenant_id: "text",
      name: "text",
      tool_name: "text",
      alias: "text",
      input: "text",
      cron: "text",
      time_zone: "text",
      overlap: "text",
      catch_up: "text",
      state: "text",
      created_by: "text",
      next_at: `${integer}?`,
      last_at: `${integer}?`,
      last_call_id: "text?",
      skipped: integer,
      created_at: integer,
      updated_at: integer,
    },
    ["id"],
  );
  await db.schema.createIndex("schedules_by_name").unique().on("schedules").columns(["tenant_id", "name"]).execute();
  await db.schema.createIndex("schedules_due").on("schedules").columns(["state", "next_at"]).execute();
  await create(
    "console_sessions",
    {
      id: "text",
      tenant_id: "text?",
      key_id: "text",
      hash: "text",
      ip: "text?",
      user_agent: "text",
      scopes: "text?",
      created_at: integer,
      expires_at: integer,
    },
    ["id"],
  );
  await db.schema.createIndex("console_sessions_by_hash").unique().on("console_sessions").column("hash").execute();
  await db.schema.createIndex("console_sessions_by_key").on("console_sessions").columns(["key_id", "id"]).execute();
  await create(
    "webhooks",
    {
      id: "text",
      tenant_id: "text",
      url: "text",
      events: "text",
      sealed_secret: bytes,
      state: "text",
      created_by: "text",
      created_at: integer,
      updated_at: integer,
    },
    ["id"],
  );
  await db.schema.createIndex("webhooks_by_tenant").on("webhooks").columns(["tenant_id", "id"]).execute();
  await create(
    "deliveries",
    {
      id: "text",
      tenant_id: "text",
      webhook_id: "text",
      event: "text",
      body: "text",
      state: "text",
      attempts: integer,
      run_at: integer,
      lease_until: `${integer}?`,
      fence: integer,
      status: `${integer}?`,
      error: "text?",
      created_at: integer,
      ended_at: `${integer}?`,
    },
    ["id"],
  );
  await db.schema
    .createIndex("deliveries_open")
    .on("deliveries")
    .columns(["state", "run_at"])
    .where(sql.ref("state"), "in", sql`('waiting', 'sending')`)
    .execute();
  await db.schema
    .createIndex("deliveries_by_webhook")
    .on("deliveries")
    .columns(["tenant_id", "webhook_id", "id"])
    .execute();
  await create(
    "triggers",
    {
      id: "text",
      tenant_id: "text",
      name: "text",
      tool_name: "text",
      alias: "text",
      verification: "text",
      sealed_secret: bytes,
      state: "text",
      created_by: "text",
      created_at: integer,
      updated_at: integer,
    },
    ["id"],
  );
  await db.schema.createIndex("triggers_by_name").unique().on("triggers").columns(["tenant_id", "name"]).execute();
  // Values belong to the store of the library, which knows no table of tenants.
  await create(
    "kv_spaces",
    { tenant_id: "text", tool: "text", keys: integer, bytes: integer },
    ["tenant_id", "tool"],
    false,
  );
  await create(
    "kv_entries",
    {
      tenant_id: "text",
      tool: "text",
      key: bytes,
      kind: "text",
      data: bytes,
      version: "text",
      expires_at: `${integer}?`,
      size: integer,
    },
    ["tenant_id", "tool", "key"],
    false,
  );
  await db.schema.createIndex("kv_entries_by_expiry").on("kv_entries").column("expires_at").execute();
}
