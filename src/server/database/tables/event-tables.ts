// Tables of what starts calls or follows from events: schedules, triggers, webhooks and their deliveries.

export interface SchedulesTable {
  id: string;
  tenant_id: string;
  name: string;
  tool_name: string;
  alias: string;
  /** JSON of the input. */
  input: string;
  cron: string;
  time_zone: string;
  overlap: "skip" | "queue";
  catch_up: "none" | "latest" | "all";
  state: "active" | "paused";
  created_by: string;
  /** Time of the next run; null if there is none. */
  next_at: number | null;
  last_at: number | null;
  last_call_id: string | null;
  /** Runs that were skipped because the one before had not ended. */
  skipped: number;
  created_at: number;
  updated_at: number;
}

export interface WebhooksTable {
  id: string;
  tenant_id: string;
  url: string;
  /** JSON array of event types. */
  events: string;
  /** The signing secret, encrypted under the master key. */
  sealed_secret: Uint8Array;
  state: "active" | "disabled";
  created_by: string;
  created_at: number;
  updated_at: number;
}

export type DeliveryState = "waiting" | "sending" | "delivered" | "failed";

export interface DeliveriesTable {
  id: string;
  tenant_id: string;
  webhook_id: string;
  event: string;
  /** JSON of the body. */
  body: string;
  state: DeliveryState;
  attempts: number;
  /** Earliest time of the next attempt. */
  run_at: number;
  lease_until: number | null;
  fence: number;
  /** Status of the latest response; null if there was none. */
  status: number | null;
  error: string | null;
  created_at: number;
  ended_at: number | null;
}

export interface TriggersTable {
  id: string;
  tenant_id: string;
  name: string;
  tool_name: string;
  alias: string;
  /** How a request proves that it is genuine. */
  verification: "standard_webhooks" | "github";
  sealed_secret: Uint8Array;
  state: "active" | "paused";
  created_by: string;
  created_at: number;
  updated_at: number;
}
