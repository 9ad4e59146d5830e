// Entry of the thread that rewrites the SQLite file, so that the server's event loop does not wait for it.
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";

const { path, busyMs } = workerData as { readonly path: string; readonly busyMs: number };
const database = new DatabaseSync(path, { timeout: busyMs });
database.exec("pragma secure_delete = on; pragma temp_store = memory; vacuum");
// Does not fail if another process reads from the log, such as a backup: the log keeps its bytes then.
const { busy } = database.prepare("pragma wal_checkpoint(truncate)").get() as { readonly busy: number };
database.close();
parentPort?.postMessage(busy === 0);
