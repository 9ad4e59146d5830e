// Keeps a data folder with SQLite to one server. A second one would not see what the first one keeps in memory: it could not cancel its calls,
// would not end them with their tenant, and each would count limits for itself.
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { ToolError } from "../../host/index.ts";

/** An empty SQLite file. The operating system drops its lock when the process ends for whatever reason, unlike a file with a process id. */
export const LOCK_FILE = "server.lock";
const RETRY_MS = 250;
/** SQLite's result code for a file that another connection has locked. */
const SQLITE_BUSY = 5;

export interface LockOptions {
  /** How long to wait for a server that is stopping, in ms. */
  readonly waitMs: number;
  /** Called once, before the wait. */
  readonly onWaiting?: ((message: string) => void) | undefined;
}

function tryLock(path: string): Disposable | undefined {
  const sqlite = process.getBuiltinModule("node:sqlite");
  const database = new sqlite.DatabaseSync(path, { timeout: 0 });
  try {
    database.exec("begin exclusive");
    return { [Symbol.dispose]: () => database.close() };
  } catch (thrown) {
    database.close();
    if ((thrown as { readonly errcode?: unknown }).errcode === SQLITE_BUSY) return undefined;
    throw thrown;
  }
}

/**
 * Locks a data folder until the result is disposed.
 * @throws {ToolError} PARAM_INVALID if another process has the lock for longer than `waitMs`, or the file cannot be written
 */
export async function lockDataFolder(dataDir: string, { waitMs, onWaiting }: LockOptions): Promise<Disposable> {
  const path = join(dataDir, LOCK_FILE);
  const shown = JSON.stringify(dataDir);
  const until = performance.now() + waitMs;
  for (let isFirst = true; ; isFirst = false) {
    let lock: Disposable | undefined;
    try {
      lock = tryLock(path);
    } catch (cause) {
      const { message } = cause as Error;
      throw new ToolError("PARAM_INVALID", `options.dataDir: Cannot lock ${JSON.stringify(path)}: ${message}`, {
        cause,
      });
    }
    if (lock !== undefined) return lock;
    if (performance.now() >= until) {
      const message = `options.dataDir: Another server uses ${shown}. With SQLite, each server needs a data folder of its own. Stop the other one, or choose another folder`;
      throw new ToolError("PARAM_INVALID", message);
    }
    if (isFirst) onWaiting?.(`Another server uses the data folder ${shown}; waiting for its end`);
    await pause(RETRY_MS);
  }
}
