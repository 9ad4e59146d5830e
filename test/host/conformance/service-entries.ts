// The public functions and methods of the server and of its client that take options, for the fuzz test of options.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ApiError, createClient, GloveboxClient } from "../../../src/client/index.ts";
import { LIMITS } from "../../../src/sandbox/contract/limits.ts";
import { createServer, type Server } from "../../../src/server/index.ts";
import type { OptionTable, PublicEntry } from "../../support/option-fuzz.ts";

/** Passes what the fuzz test generates, whatever its type. */
// biome-ignore lint/suspicious/noExplicitAny: the functions get values of wrong types
const given = (value: unknown): any => value;

const clientOptions: OptionTable = { url: "text", key: "text", retries: "number", fetch: "function" };
// Nothing listens at this port.
const validClient = () => ({ url: "http://127.0.0.1:9", key: "gb_key", retries: 0 });

/** Waits for a request that is right, and therefore reaches no server. */
async function unreachable(action: () => unknown): Promise<void> {
  try {
    await action();
  } catch (thrown) {
    if (!(thrown instanceof ApiError && thrown.code === "NETWORK")) throw thrown;
  }
}

function clientEntries(): readonly PublicEntry[] {
  const client = createClient(validClient());
  const tenant = client.tenant("acme");
  return [
    {
      ...{ name: "createClient(options)", where: "options", options: clientOptions, valid: validClient },
      call: (options) => void createClient(given(options)),
    },
    {
      ...{ name: "new GloveboxClient(options)", where: "options", options: clientOptions, valid: validClient },
      call: (options) => void new GloveboxClient(given(options)),
    },
    {
      ...{ name: "client.request(method, path, options)", where: "options" },
      options: {
        ...{ body: "any", query: "object", headers: "object", signal: "object", isSafe: "boolean", accept: "function" },
      },
      call: (options) => unreachable(() => client.request("GET", "/v1/me", given(options))),
    },
    {
      ...{ name: "tenant.call(tool, call, options)", where: "options" },
      options: { idempotencyKey: "text", signal: "object" },
      call: (options) => unreachable(() => tenant.call("add", {}, given(options))),
    },
    {
      ...{ name: "tenant.batch(calls, options)", where: "options", options: { signal: "object" } },
      call: (options) => unreachable(() => tenant.batch([], given(options))),
    },
    {
      ...{ name: "tenant.callApprovals(filter)", where: "filter", options: { state: "text" } },
      call: (filter) => unreachable(() => tenant.callApprovals(given(filter)).next()),
    },
    {
      ...{ name: "tenant.calls(filter)", where: "filter", options: { tool: "text", state: "text" } },
      call: (filter) => unreachable(() => tenant.calls(given(filter)).next()),
    },
    {
      ...{ name: "tenant.values(tool, filter)", where: "filter", options: { prefix: "text" } },
      call: (filter) => unreachable(() => tenant.values("add", given(filter)).next()),
    },
    {
      ...{ name: "tenant.usage(filter)", where: "filter" },
      options: { from: "number", until: "number", tool: "text" },
      call: (filter) => unreachable(() => tenant.usage(given(filter))),
    },
  ];
}

const serverOptions: OptionTable = {
  ...{ host: "text", port: "number", allowHosts: "list", database: "text", dataDir: "text", masterKey: "text" },
  ...{ masterKeyFile: "text", masterKeyCommand: "list", embedOrigins: "list", maxBodyBytes: "number" },
  ...{
    drainMs: "number",
    stopDelayMs: "number",
    logLevel: "text",
    webhookAddresses: "list",
    telemetry: "boolean",
    vacuumFull: "boolean",
  },
  ...{ natsUrl: "text", natsCredentials: "text", natsTlsCa: "text", natsReplicas: "number" },
  executorSilenceMs: "number",
  ...{ maxWorkers: "number", limits: Object.fromEntries(Object.keys(LIMITS).map((name) => [name, "number"])) },
  jwt: { issuer: "text", audience: "text", jwksUri: "text", tenantClaim: "text", scopePrefix: "text" },
  oidc: {
    ...{ issuer: "text", clientId: "text", clientSecret: "text", publicUrl: "text", request: "text" },
    ...{ tenantClaim: "text", scopeClaim: "text", scopePrefix: "text" },
  },
  packages: { allow: "list", registry: "text", timeoutMs: "number", maxBytes: "number" },
};

/** Returns the entries; `close` stops what they have started. */
export function serviceEntries(): { readonly entries: readonly PublicEntry[]; readonly close: () => Promise<void> } {
  let folder: string | undefined;
  let open: Promise<Server> | undefined;
  const start = async (options: unknown): Promise<Server> => {
    folder ??= await mkdtemp(join(tmpdir(), "glovebox-options-"));
    const own = { port: 0, logLevel: "silent", dataDir: join(folder, "data") };
    const isPlain = Object.getPrototypeOf(options ?? 1) === Object.prototype;
    return await createServer(given(isPlain ? { ...own, ...(options as object) } : options));
  };
  const entries: readonly PublicEntry[] = [
    ...clientEntries(),
    {
      ...{ name: "createServer(options)", where: "options", options: serverOptions },
      call: async (options) => await (await start(options)).close({ drainMs: 0 }),
    },
    {
      ...{ name: "server.close(options)", where: "options", options: { drainMs: "number" } },
      call: async (options) => {
        // Wrong options close nothing, and a server may be closed twice.
        open ??= start({});
        await (await open).close(given(options));
      },
    },
  ];
  const close = async (): Promise<void> => {
    await (await open)?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  };
  return { entries, close };
}
