// Entry of the thread that rewrites the SQLite file, so that the server's event loop does not wait for it.
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

/** Longest time in ms to wait for other processes that use the file, such as a backup. */
const BUSY_TIMEOUT_MS = 60_000;

const { path } = workerData as { readonly path: string };
const database = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
database.exec("pragma secure_delete = on; pragma temp_store = memory; vacuum; pragma wal_checkpoint(truncate)");
database.close();
parentPort?.postMessage("done");
