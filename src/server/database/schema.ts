// The tables of the server's database, as kysely reads and writes them. JSON is stored as text and times as ms since 1970, so that SQLite and
// Postgres have one schema.
import type {
  ApprovalsTable,
  CallContentsTable,
  CallsTable,
  RunEntriesTable,
  RunRequestsTable,
  RunsTable,
} from "./tables/call-tables.ts";
import type {
  ConcurrencySlotsTable,
  KeySlotsTable,
  LiveLogsTable,
  MigrationRulesTable,
  ReplicaMessagesTable,
  ReplicasTable,
  SessionHomesTable,
} from "./tables/cluster-tables.ts";
import type { DeliveriesTable, SchedulesTable, TriggersTable, WebhooksTable } from "./tables/event-tables.ts";
import type {
  ApiKeysTable,
  AuditTable,
  ConsoleSessionsTable,
  QuotaCountersTable,
  SecretsTable,
  SettingsTable,
  StoredBytesTable,
  TenantsTable,
  UsageTable,
  UsedSignInsTable,
} from "./tables/tenant-tables.ts";
import type {
  BlobsTable,
  KvEntriesTable,
  KvSpacesTable,
  ReleaseCountsTable,
  ReleaseHistoryTable,
  ReleasesTable,
  ToolVersionsTable,
  VersionFilesTable,
} from "./tables/tool-tables.ts";

export interface DatabaseSchema {
  stored_bytes: StoredBytesTable;
  release_counts: ReleaseCountsTable;
  concurrency_slots: ConcurrencySlotsTable;
  key_slots: KeySlotsTable;
  session_homes: SessionHomesTable;
  migration_rules: MigrationRulesTable;
  live_logs: LiveLogsTable;
  replicas: ReplicasTable;
  replica_messages: ReplicaMessagesTable;
  runs: RunsTable;
  run_entries: RunEntriesTable;
  run_requests: RunRequestsTable;
  console_sessions: ConsoleSessionsTable;
  used_sign_ins: UsedSignInsTable;
  call_contents: CallContentsTable;
  settings: SettingsTable;
  secrets: SecretsTable;
  usage: UsageTable;
  quota_counters: QuotaCountersTable;
  schedules: SchedulesTable;
  webhooks: WebhooksTable;
  deliveries: DeliveriesTable;
  triggers: TriggersTable;
  kv_spaces: KvSpacesTable;
  kv_entries: KvEntriesTable;
  tenants: TenantsTable;
  api_keys: ApiKeysTable;
  tool_versions: ToolVersionsTable;
  blobs: BlobsTable;
  version_files: VersionFilesTable;
  releases: ReleasesTable;
  release_history: ReleaseHistoryTable;
  calls: CallsTable;
  approvals: ApprovalsTable;
  audit: AuditTable;
}

/** New values of some columns of a row. Kysely leaves out those that are undefined. */
export type Changes<Row, Column extends keyof Row> = { readonly [Name in Column]?: Row[Name] | undefined };
