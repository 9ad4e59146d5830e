// The environment variables of a server.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ENVIRONMENT_NAMES, readEnvironment } from "../../src/server/config/environment.ts";
import { parseServerOptions, ServerOptionsSchema } from "../../src/server/config/server-options.ts";
import { toShownConfig } from "../../src/server/config/shown-config.ts";

const OIDC = { issuer: "https://i.example", clientId: "c", clientSecret: "hidden", publicUrl: "https://p.example" };

/** A text for each option, and the value that it means. */
const VALUES: { readonly [option: string]: readonly [string, unknown] } = {
  host: ["0.0.0.0", "0.0.0.0"],
  port: ["7171", 7171],
  allowHosts: ["a.example, b.example", ["a.example", "b.example"]],
  replicaUrl: ["http://one:1", "http://one:1"],
  database: ["postgres://u:hidden@h/db", "postgres://u:hidden@h/db"],
  dataDir: ["data", "data"],
  masterKey: [`hidden${"A".repeat(37)}=`, `hidden${"A".repeat(37)}=`],
  masterKeyFile: ["key", "key"],
  masterKeyCommand: ['["vault", "a,hidden"]', ["vault", "a,hidden"]],
  embedOrigins: ["https://a.example", ["https://a.example"]],
  maxBodyBytes: ["2048", 2048],
  drainMs: ["1", 1],
  maxStreamsPerTenant: ["2", 2],
  maxStreamsPerKey: ["3", 3],
  maxStreamMs: ["4000", 4000],
  stopDelayMs: ["5", 5],
  logLevel: ["warn", "warn"],
  webhookAddresses: ["10.0.0.0/8,10.1.1.1", ["10.0.0.0/8", "10.1.1.1"]],
  jwt: ['{"issuer":"https://i.example","audience":"a"}', { issuer: "https://i.example", audience: "a" }],
  oidc: [JSON.stringify(OIDC), OIDC],
  telemetry: ["true", true],
  packages: ['{"allow":["zod"]}', { allow: ["zod"] }],
  vacuumFull: ["true", true],
  limits: ['{"timeoutMs":1000}', { timeoutMs: 1000 }],
  natsUrl: ["nats://hidden@h:4222", "nats://hidden@h:4222"],
  natsCredentials: ["file", "file"],
  natsTlsCa: ["ca", "ca"],
  natsReplicas: ["3", 3],
  executorSilenceMs: ["2000", 2000],
  maxWorkers: ["7", 7],
  warmProcesses: ["2", 2],
  warmPythonProcesses: ["0", 0],
};

test.for(Object.keys(ServerOptionsSchema.shape))("%s has a variable", (option) => {
  const name = ENVIRONMENT_NAMES[option] ?? "";
  expect(name).toMatch(/^GLOVEBOX(_[A-Z]+)+$/);
  const [text, value] = VALUES[option] ?? ["", undefined];
  const read = readEnvironment({ [name]: text });
  expect(read).toEqual({ [option]: value });
  const config = parseServerOptions(read);
  expect(config).toMatchObject({ [option]: value });
  expect(JSON.stringify(toShownConfig(config))).not.toContain("hidden");
});

test.for([
  [
    { GLOVEBOX_VACUM_FULL: "true" },
    "environment.GLOVEBOX_VACUM_FULL: Unknown variable. Did you mean GLOVEBOX_VACUUM_FULL?",
  ],
  [{ GLOVEBOX_ALLOWED_HOSTS: "a" }, "Did you mean GLOVEBOX_ALLOW_HOSTS?"],
  [{ GLOVEBOX_SOMETHING_ELSE_ENTIRELY: "1" }, "environment.GLOVEBOX_SOMETHING_ELSE_ENTIRELY: Unknown variable"],
  [{ GLOVEBOX_OIDC: '{"clientSecret":"hidden"' }, "environment.GLOVEBOX_OIDC: Expected JSON"],
  [{ GLOVEBOX_EMBED_ORIGINS: "[https://a" }, "environment.GLOVEBOX_EMBED_ORIGINS: Expected JSON"],
] as const)("%j is an error", ([env, message]) => {
  const read = () => readEnvironment(env);
  expect(read).toThrow(message);
  expect(read).not.toThrow("hidden");
});

test.for([
  [{ GLOVEBOX_VACUUM_FULL: "yes" }, "vacuumFull"],
  [{ GLOVEBOX_PORT: "tcp://10.0.0.1:7070" }, "port"],
  [{ GLOVEBOX_OIDC: "[]" }, "oidc"],
  [{ GLOVEBOX_LIMITS: '{"timeout":1}' }, "limits.timeout"],
  [{ GLOVEBOX_MASTER_KEY: "too-short" }, "masterKey: Expected 32 bytes in base64 or hexadecimal"],
] as const)("%j does not match the schema", ([env, message]) => {
  expect(() => parseServerOptions(readEnvironment(env))).toThrow(`options.${message}`);
});

test("a variable turns telemetry off although there is a receiver", () => {
  const receiver = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };
  expect(readEnvironment(receiver)).toEqual({ telemetry: true });
  expect(readEnvironment({ ...receiver, GLOVEBOX_TELEMETRY: "false" })).toEqual({ telemetry: false });
});

test("variables of other programs, of services and without a value are left alone", () => {
  const services = {
    GLOVEBOX_DB_SERVICE_HOST: "10.0.0.1",
    GLOVEBOX_DB_SERVICE_PORT_SQL: "5432",
    GLOVEBOX_DB_PORT: "tcp://10.0.0.1",
    GLOVEBOX_DB_PORT_5432_TCP_ADDR: "10.0.0.1",
    GLOVEBOX_UNKNOWN: "",
    MY_GLOVEBOX_NAME: "x",
  };
  expect(readEnvironment(services)).toEqual({});
});

test("every variable that another part of the product reads is accepted", () => {
  const root = join(import.meta.dirname, "../..");
  const folders = ["src/cli", "src/client", "src/console", "src/executor", "deploy/helm/glovebox/templates"];
  const names = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .flatMap(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8").match(/GLOVEBOX_[A-Z_]+/g) ?? []),
  );
  expect(names.length).toBeGreaterThan(10);
  const own = new Set<string>(Object.values(ENVIRONMENT_NAMES));
  const others = [...new Set(names)].filter((name) => !own.has(name));
  expect(readEnvironment(Object.fromEntries(others.map((name) => [name, "x"])))).toEqual({});
});
