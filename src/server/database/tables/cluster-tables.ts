// Tables that server processes share: replicas, their messages, homes of sessions, slots of concurrent calls, and rules of migrations.
import type { Generated } from "kysely";

/** The server processes that share a Postgres. Times are the database's. */
export interface ReplicasTable {
  id: string;
  /** Version of Glovebox. */
  version: string;
  started_at: number;
  /** When it was last alive. */
  seen_at: number;
  /** Where other replicas reach it: `http://10.0.0.7:7070`. Null if they cannot. */
  url: Generated<string | null>;
}

/** Messages between server processes, for about a minute. */
export interface ReplicaMessagesTable {
  id: Generated<number>;
  /** Id of the replica that sent it. */
  sender: string;
  /** JSON of a {@link ReplicaMessage}. */
  body: string;
  created_at: number;
}

/** Log lines of calls that run, while someone watches them at another replica. */
export interface LiveLogsTable {
  call_id: string;
  /** Random, for each time that the call begins. */
  attempt: string;
  /** 0, 1, 2 … for the lines of an attempt. */
  position: number;
  tenant_id: string;
  /** JSON of the line, without the secrets in it. */
  text: string;
  created_at: number;
}

/** Which releases work with the schema after a migration. */
export interface MigrationRulesTable {
  /** Name of the migration. */
  name: string;
  /** Number of the last migration of the oldest release that works with it. */
  works_with: number;
}

/** Which replica has the isolate of a session of a tool. */
export interface SessionHomesTable {
  tenant_id: string;
  tool_name: string;
  session_id: string;
  replica_id: string;
  /** When the session has ended without a call, at the latest. */
  expires_at: number;
}

/** How many calls of a key a replica may run at the same time. */
export interface KeySlotsTable {
  key_id: string;
  replica_id: string;
  held: number;
  expires_at: number;
}

/** How many calls of a tenant a replica may run at the same time. */
export interface ConcurrencySlotsTable {
  tenant_id: string;
  replica_id: string;
  held: number;
  expires_at: number;
}
