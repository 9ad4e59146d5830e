// What `glovebox config` prints: the configuration without secrets, wherever they are.
import { expect, test } from "vitest";
import { parseServerOptions, type ServerOptions } from "../../src/server/config/server-options.ts";
import { toShownConfig } from "../../src/server/config/shown-config.ts";

const shown = (options: ServerOptions): Record<string, unknown> =>
  toShownConfig(parseServerOptions(options)) as Record<string, unknown>;

test.for<[string, ServerOptions, object]>([
  ["a NATS URL", { natsUrl: "nats://user:hidden@h:4222" }, { natsUrl: "nats://redacted@h:4222" }],
  ["a token of NATS", { natsUrl: "nats://hidden@h:4222" }, { natsUrl: "nats://redacted@h:4222" }],
  ["several NATS servers", { natsUrl: "nats://u:hidden@a:1,b:2" }, { natsUrl: "nats://redacted@a:1,b:2" }],
  ["Postgres", { database: "postgres://u:hidden@h:5432/db" }, { database: "postgres://redacted@h:5432/db" }],
  [
    "a parameter of Postgres",
    { database: "postgres://h/db?user=u&password=hidden&sslmode=require&PGPASS%57ORD=hidden#token=hidden" },
    { database: "postgres://h/db?user=u&password=redacted&sslmode=require&PGPASS%57ORD=redacted#token=redacted" },
  ],
  [
    "a password with reserved characters",
    { database: "postgres://u:hid/den@hidden@h/db" },
    { database: "postgres://redacted@h/db" },
  ],
  [
    "a password with a question mark",
    { database: "postgres://u:hid?hidden@h/db" },
    { database: "postgres://redacted@h/db" },
  ],
  [
    "several Postgres hosts",
    { database: "postgres://u:hidden@a:1,b:2/db" },
    { database: "postgres://redacted@a:1,b:2/db" },
  ],
  [
    "a registry",
    { packages: { allow: ["zod"], registry: "https://:hidden@r.example/@acme/" } },
    { packages: expect.objectContaining({ registry: "https://redacted@r.example/@acme/" }) },
  ],
  [
    "the keys of an issuer",
    { jwt: { issuer: "https://i.example", audience: "a", jwksUri: "https://i.example/keys?api_key=hidden" } },
    { jwt: expect.objectContaining({ jwksUri: "https://i.example/keys?api_key=redacted" }) },
  ],
  [
    "the command of the master key",
    { masterKeyCommand: ["vault", "--token", "hidden"] },
    { masterKeyCommand: ["vault", "redacted", "redacted"] },
  ],
  ["the master key", { masterKey: `hidden${"A".repeat(37)}=` }, { masterKey: "redacted" }],
])("the secret of %s is redacted", ([, options, expected]) => {
  const config = shown(options);
  expect(JSON.stringify(config)).not.toContain("hidden");
  expect(config).toMatchObject(expected);
});

test("what is no secret is shown", () => {
  const options: ServerOptions = {
    database: "postgres://db.example.com:5432/glovebox?sslmode=require",
    port: 1,
    allowHosts: ["tools.example"],
    packages: { allow: ["@acme/*"], registry: "https://r.example/npm/@acme/" },
  };
  expect(shown(options)).toMatchObject(options);
  expect(shown({ dataDir: "data" }).database).toBe("sqlite: data/glovebox.sqlite");
});
