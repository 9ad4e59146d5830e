// Creates the Glovebox of a server, with the policies of its tenants from the database.
import { join } from "node:path";
import type { pino } from "pino";
import { makeFolderSync } from "../../bundler/locate/make-folder.ts";
import { createGlovebox, type ExecutorsOptions, type Glovebox } from "../../host/index.ts";
import type { ServerConfig } from "../config/server-options.ts";
import type { ServerTelemetry } from "../operation/telemetry.ts";
import { readSecrets } from "../records/tenants/secrets.ts";
import { toTenantOptions } from "../records/tenants/tenant-policy.ts";
import { findTenant } from "../records/tenants/tenants.ts";
import type { Storage } from "./open-storage.ts";
import { logErrors, type Startup } from "./startup.ts";

const toExecutors = (
  { natsCredentials: credentials, natsTlsCa: tlsCa, executorSilenceMs: silenceMs }: ServerConfig,
  url: string,
  log: pino.Logger,
): ExecutorsOptions => ({
  url,
  credentials,
  tlsCa,
  silenceMs,
  onEvent: ({ type, message, executor }) => {
    const level = type === "nats-connected" || type === "executor-returned" ? "info" : "warn";
    log[level]({ event: type, executor }, message);
  },
});

/** @throws {ToolError} as {@link createGlovebox} */
export async function openGlovebox(
  { config, log }: Startup,
  { database, masterKey, quotas, kv }: Storage,
  telemetry: ServerTelemetry | undefined,
): Promise<Glovebox> {
  const packages = join(config.dataDir, "packages");
  makeFolderSync(packages);
  return await createGlovebox({
    tenancy: "multi",
    limits: config.limits,
    // A tenant that the database does not know, or that it is about to delete, has no policy, so its calls are denied.
    tenants: async (tenantId) => {
      const tenant = await findTenant(database.db, tenantId);
      if (tenant === undefined || tenant.state === "deleting") return undefined;
      return toTenantOptions(tenant.policy, await readSecrets(database.db, masterKey, tenantId));
    },
    quotaStore: quotas,
    workers: {
      max: config.maxWorkers,
      warmProcesses: config.warmProcesses,
      warmPythonProcesses: config.warmPythonProcesses,
    },
    ...(config.natsUrl === undefined ? {} : { executors: toExecutors(config, config.natsUrl, log) }),
    kv,
    cache: { directory: join(config.dataDir, "cache") },
    // Code of tenants imports only what it uploads.
    bundler: { root: packages, allowPackages: [] },
    shutdown: false,
    ...(telemetry === undefined ? {} : { telemetry: telemetry.options }),
    onError: logErrors(log, "glovebox"),
    onWarning: (warning) => log.warn(warning, "tool"),
  });
}
