// The public functions and methods of the server that take options, for the fuzz test of options, with those of its client.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { createServer, type Server } from "../../../src/server/index.ts";
import type { OptionTable, PublicEntry } from "../../support/option-fuzz.ts";
import { clientEntries } from "./client-entries.ts";

/** Passes what the fuzz test generates, whatever its type. */
// biome-ignore lint/suspicious/noExplicitAny: the functions get values of wrong types
const given = (value: unknown): any => value;

const serverOptions: OptionTable = {
  host: "text",
  port: "number",
  allowHosts: "list",
  database: "text",
  dataDir: "text",
  masterKey: "text",
  masterKeyFile: "text",
  masterKeyCommand: "list",
  embedOrigins: "list",
  maxBodyBytes: "number",
  drainMs: "number",
  stopDelayMs: "number",
  logLevel: "text",
  webhookAddresses: "list",
  telemetry: "boolean",
  vacuumFull: "boolean",
  natsUrl: "text",
  natsCredentials: "text",
  natsTlsCa: "text",
  natsReplicas: "number",
  executorSilenceMs: "number",
  replicaUrl: "text",
  maxStreamMs: "number",
  maxStreamsPerKey: "number",
  maxStreamsPerTenant: "number",
  maxWorkers: "number",
  warmProcesses: "number",
  warmPythonProcesses: "number",
  limits: Object.fromEntries(Object.keys(LIMITS).map((name) => [name, "number"])),
  jwt: { issuer: "text", audience: "text", jwksUri: "text", tenantClaim: "text", scopePrefix: "text" },
  oidc: {
    issuer: "text",
    clientId: "text",
    clientSecret: "text",
    publicUrl: "text",
    scopes: "text",
    tenantClaim: "text",
    scopeClaim: "text",
    scopePrefix: "text",
  },
  packages: { allow: "list", registry: "text", timeoutMs: "number", maxBytes: "number" },
};

/** Returns the entries; `close` stops what they have started. */
export function serviceEntries(): { readonly entries: readonly PublicEntry[]; readonly close: () => Promise<void> } {
  let folder: string | undefined;
  let open: Promise<Server> | undefined;
  let serving: Promise<Server> | undefined;
  const dataFolder = async (): Promise<string> => (folder ??= await mkdtemp(join(tmpdir(), "glovebox-options-")));
  const start = async (options: unknown): Promise<Server> => {
    const own = { port: 0, logLevel: "silent", dataDir: join(await dataFolder(), "data") };
    const isPlain = Object.getPrototypeOf(options ?? 1) === Object.prototype;
    return await createServer(given(isPlain ? { ...own, ...(options as object) } : options));
  };
  const entries: readonly PublicEntry[] = [
    ...clientEntries(async () => {
      // It has data of its own: the key of the platform is shown once.
      serving ??= start({ dataDir: join(await dataFolder(), "served"), stopDelayMs: 0 });
      return await serving;
    }),
    {
      name: "createServer(options)",
      where: "options",
      options: serverOptions,
      call: async (options) => await (await start(options)).close({ drainMs: 0 }),
    },
    {
      name: "server.close(options)",
      where: "options",
      options: { drainMs: "number" },
      call: async (options) => {
        // Wrong options close nothing, and a server may be closed twice.
        open ??= start({});
        await (await open).close(given(options));
      },
    },
  ];
  const close = async (): Promise<void> => {
    await (await open)?.close();
    await (await serving)?.close({ drainMs: 0 });
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  };
  return { entries, close };
}
