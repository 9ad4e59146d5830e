// First stage of a start: the database, the messages between replicas, and the stores in the database.
import type { pino } from "pino";
import { type Db, type OpenDatabase, openDatabase } from "../database/open-database.ts";
import { DatabaseKvStore } from "../kv/database-kv-store.ts";
import { DatabaseQuotaStore, type QuotaWarning } from "../quotas/database-quota-store.ts";
import { emitEvents } from "../records/events/webhooks.ts";
import { findKeyById, isKeyId } from "../records/tenants/api-keys.ts";
import { checkStoredBytes, StoredBytesSweeper } from "../records/tenants/stored-bytes.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import { openBus } from "../replicas/postgres-bus.ts";
import { ReplicaRequests } from "../replicas/requests.ts";
import { type MasterKey, openMasterKey } from "../secrets/master-key.ts";
import { logErrors, type Startup } from "./startup.ts";

/** Longest time in ms, beyond `stopDelayMs` and `drainMs`, that a start waits for the end of the server before it. */
const CLOSE_MS = 5_000;

export interface Storage {
  readonly database: OpenDatabase;
  readonly bus: ReplicaBus;
  readonly requests: ReplicaRequests;
  readonly masterKey: MasterKey;
  readonly quotas: DatabaseQuotaStore;
  readonly kv: DatabaseKvStore;
  readonly storedBytes: StoredBytesSweeper;
}

/** Reports that a window of a tenant, or of one of its keys, reaches its limit. */
async function reportWarning(db: Db, { tenantId: ownerId, ...data }: QuotaWarning): Promise<void> {
  const key = isKeyId(ownerId) ? await findKeyById(db, ownerId) : undefined;
  // A key of the platform has no tenant that could have a webhook.
  if (key?.tenantId === null) return;
  const event =
    key === undefined ? { tenantId: ownerId, data } : { tenantId: key.tenantId, data: { ...data, keyId: key.id } };
  await emitEvents(db, [{ ...event, type: "quota.warning" }]);
}

function openDatabaseOf({ config, log }: Startup): Promise<OpenDatabase> {
  const onWaiting = (message: string): void => log.warn(message);
  return openDatabase({
    url: config.database,
    dataDir: config.dataDir,
    onError: logErrors(log, "database"),
    onWaiting,
    lock: { waitMs: config.stopDelayMs + config.drainMs + CLOSE_MS, onWaiting },
  });
}

function openQuotas({ db, kind, clock }: OpenDatabase, log: pino.Logger): DatabaseQuotaStore {
  return new DatabaseQuotaStore({
    db,
    kind,
    now: () => clock.now(),
    onWarning: (warning) => void reportWarning(db, warning).catch(logErrors(log, "event")),
  });
}

/** Opens the storage. @throws what the database throws */
export async function openStorage(startup: Startup): Promise<Storage> {
  const { config, log, version, resources } = startup;
  const database = resources.use(await openDatabaseOf(startup));
  const { db } = database;
  const bus = resources.use(await openBus({ db, url: config.database, version, onError: logErrors(log, "replicas") }));
  const requests = resources.use(new ReplicaRequests(bus));
  const masterKey = await openMasterKey(db, config);
  const quotas = openQuotas(database, log);
  const kv = new DatabaseKvStore(database, (transaction, tenantId, bytes) =>
    checkStoredBytes(transaction, tenantId, { what: "The value", bytes }),
  );
  const storedBytes = new StoredBytesSweeper(database, ({ tenantId, ...data }) => {
    emitEvents(db, [{ tenantId, type: "quota.warning", data }]).catch(logErrors(log, "event"));
  });
  return { database, bus, requests, masterKey, quotas, kv, storedBytes };
}
