// A fleet on this machine: a real nats-server with one user for each executor, executors as processes of the command line, and a host that
// uses them.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { USERS_FILE, writeCredentials } from "../../src/executor/credentials.ts";
import { DEFAULT_POOL } from "../../src/host/fleet/protocol/pool-name.ts";
import { createGlovebox, type FleetEvent, type Glovebox, type GloveboxOptions } from "../../src/host/index.ts";
import { CliProcess } from "./cli-process.ts";
import { type NatsServer, startNatsServer } from "./nats-server.ts";

/** Further processes and interpreters of each executor would only wait. */
const FRUGAL = ["--warm-processes", "0", "--warm-python-processes", "0"];

export interface FleetOptions {
  readonly executors: readonly string[];
  /** Pool of an executor. Default: `default`. */
  readonly poolOf?: (id: string) => string;
  readonly host?: GloveboxOptions;
  readonly silenceMs?: number;
  /** Largest message of NATS in bytes. */
  readonly maxPayload?: number;
  readonly onEvent?: (event: FleetEvent) => void;
}

export interface Fleet extends AsyncDisposable {
  readonly nats: NatsServer;
  readonly host: Glovebox;
  /** Path of the credentials file of an executor, or of "control-plane". */
  credentialsOf(name: string): string;
  /** Starts an executor, and waits until the host may send it calls. @param url how it reaches NATS. Default: directly */
  start(id: string, flags?: readonly string[], url?: string): Promise<CliProcess>;
  /** Waits until the host knows an executor, or does not know it any more. */
  until(id: string, isKnown: boolean): Promise<void>;
}

/** Starts NATS and a host. The credentials exist before the executors start. */
export async function openFleet({
  executors,
  poolOf = () => DEFAULT_POOL,
  host: options = {},
  silenceMs = 10_000,
  maxPayload,
  onEvent,
}: FleetOptions): Promise<Fleet> {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-fleet-"));
  const credentials = join(folder, "credentials");
  for (const [pool, ids] of Map.groupBy(executors, poolOf)) await writeCredentials(credentials, ids, pool);
  const nats = await startNatsServer({
    users: join(credentials, USERS_FILE),
    ...(maxPayload === undefined ? {} : { maxPayload }),
  });
  const credentialsOf = (name: string): string => join(credentials, `${name}.json`);
  const host = await createGlovebox({
    kv: "memory",
    cache: { directory: process.env.GLOVEBOX_TEST_CACHE ?? false },
    ...options,
    // The extraction of a definition has the time limit of calls, which a busy machine exceeds.
    limits: { timeoutMs: 300_000, cpuMs: 300_000, queueMs: 300_000, ...options.limits },
    executors: { url: nats.url, credentials: credentialsOf("control-plane"), silenceMs, onEvent },
  });
  const started: CliProcess[] = [];
  const until = async (id: string, isKnown: boolean): Promise<void> => {
    await vi.waitFor(() => {
      if (host.fleet.executors.some((one) => one.id === id) !== isKnown)
        throw new Error(`Expected the executor ${id} to be ${isKnown ? "connected" : "gone"}`);
    });
  };
  return {
    nats,
    host,
    credentialsOf,
    until,
    start: async (id, flags = [], url = nats.url) => {
      const home = mkdtempSync(join(folder, "home-"));
      const args = [
        "executor",
        "--nats",
        url,
        "--credentials",
        credentialsOf(id),
        "--max-workers",
        "4",
        ...FRUGAL,
        ...flags,
      ];
      const executor = new CliProcess(args, home);
      started.push(executor);
      await executor.says("stdout", /is ready/);
      await until(id, true);
      return executor;
    },
    [Symbol.asyncDispose]: async () => {
      await host.close();
      await Promise.all(started.map((one) => one[Symbol.asyncDispose]()));
      await nats[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
