// Uploads with a package.json and a lockfile: the server installs their packages from a registry, here one on this machine.
import { createHash } from "node:crypto";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { packTar } from "modern-tar";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServer, type Server } from "../../src/server/index.ts";
import { checkLockfile } from "../../src/server/tools/packages.ts";
import { apiOf } from "./support/api.ts";
import { TestStores } from "./support/stores.ts";

type Json = { readonly [key: string]: unknown };

interface Tarball {
  readonly bytes: Buffer;
  readonly integrity: string;
}

async function pack(files: { readonly [path: string]: string }): Promise<Tarball> {
  const entries = Object.entries(files).map(([path, body]) => ({
    header: { name: `package/${path}`, size: Buffer.byteLength(body), mode: 0o644 },
    body,
  }));
  const bytes = gzipSync(await packTar(entries));
  return { bytes, integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}` };
}

const stores = new TestStores();
const registry = createHttpServer();
const tarballs = new Map<string, Tarball>();
let origin: string;
let server: Server;
let api: ReturnType<typeof apiOf>;
let requests = 0;

beforeAll(async () => {
  const manifest = (name: string, more: object = {}): string =>
    JSON.stringify({ name, version: "1.0.0", type: "module", main: "index.js", ...more });
  tarballs.set(
    "/greet/-/greet-1.0.0.tgz",
    await pack({
      "package.json": manifest("greet", {
        dependencies: { "@words/hello": "1.0.0" },
        scripts: { install: "touch /tmp/glovebox-installed" },
      }),
      "index.js": "import { hello } from '@words/hello'; export const greet = (name) => hello + ' ' + name;",
    }),
  );
  tarballs.set(
    "/@words/hello/-/hello-1.0.0.tgz",
    await pack({ "package.json": manifest("@words/hello"), "index.js": "export const hello = 'Hello';" }),
  );
  registry.on("request", (request, response) => {
    requests += 1;
    const found = tarballs.get(request.url ?? "");
    if (found === undefined) response.writeHead(404).end("{}");
    else response.end(found.bytes);
  });
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  const store = await stores.create("sqlite");
  server = await createServer({
    ...store.options,
    port: 0,
    logLevel: "silent",
    packages: { allow: ["greet", "@words/*"], registry: origin },
  });
  api = apiOf(server);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  registry.closeAllConnections();
  registry.close();
  await stores[Symbol.asyncDispose]();
});

const MANIFEST: Json = { dependencies: { greet: "1.0.0" } };
function lockOf(change: (packages: { [path: string]: Json }) => void = () => {}): Json {
  const packages: { [path: string]: Json } = {
    "": { name: "tool", version: "0.0.0", ...MANIFEST },
    "node_modules/@words/hello": {
      version: "1.0.0",
      resolved: `${origin}/@words/hello/-/hello-1.0.0.tgz`,
      integrity: tarballs.get("/@words/hello/-/hello-1.0.0.tgz")?.integrity,
    },
    "node_modules/greet": {
      version: "1.0.0",
      resolved: `${origin}/greet/-/greet-1.0.0.tgz`,
      hasInstallScript: true,
      integrity: tarballs.get("/greet/-/greet-1.0.0.tgz")?.integrity,
      dependencies: { "@words/hello": "1.0.0" },
    },
  };
  change(packages);
  return { name: "tool", version: "0.0.0", lockfileVersion: 3, requires: true, packages };
}
const TOOL = "import { greet } from 'greet'; export default ({ name }) => greet(name);";
const deploy = (name: string, lock: Json = lockOf(), manifest: Json = MANIFEST) =>
  api<Json>("POST", "/v1/tenants/acme/tools", {
    name,
    entry: "tool.js",
    files: { "tool.js": TOOL, "package.json": JSON.stringify(manifest), "package-lock.json": JSON.stringify(lock) },
  });

describe("an upload with a lockfile", () => {
  test("is installed, without scripts, and runs with its packages", async () => {
    const deployed = await deploy("greeter");
    expect([deployed.status, deployed.body.error]).toEqual([201, undefined]);
    const { body } = await api<Json>("POST", "/v1/tenants/acme/tools/greeter/calls", { input: { name: "Ada" } });
    expect([body.error, body.output]).toEqual([null, "Hello Ada"]);
    const { existsSync } = await import("node:fs");
    expect(existsSync("/tmp/glovebox-installed")).toBe(false);
  });

  test("is installed once for the same lockfile", async () => {
    await deploy("greeter");
    const before = requests;
    expect((await deploy("again")).status).toBe(201);
    expect(requests).toBe(before);
  });

  test("is rejected if a package is not what the lockfile says", async () => {
    const lock = lockOf((packages) => {
      packages["node_modules/greet"] = {
        ...packages["node_modules/greet"],
        integrity: `sha512-${Buffer.alloc(64).toString("base64")}`,
      };
    });
    const { status, body } = await deploy("forged", lock);
    expect(status).toBe(422);
    expect(JSON.stringify(body)).toMatch(/BUNDLE_FAILED.*npm could not install the packages.*EINTEGRITY|integrity/s);
    expect(JSON.stringify(body)).not.toContain("/tmp");
  });

  test("is rejected if the manifest requests another package", async () => {
    const { status, body } = await deploy("other", lockOf(), { dependencies: { greet: "2.0.0" } });
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining("npm could not install")]);
  });

  test("is rejected where the operator has not allowed packages", async () => {
    const store = await stores.create("sqlite");
    await using plain = await createServer({ ...store.options, port: 0, logLevel: "silent" });
    const send = apiOf(plain);
    await send("POST", "/v1/tenants", { id: "acme" });
    const files = { "tool.js": TOOL, "package.json": "{}", "package-lock.json": "{}" };
    const { status, body } = await send("POST", "/v1/tenants/acme/tools", { name: "x", entry: "tool.js", files });
    expect([status, JSON.stringify(body)]).toEqual([403, expect.stringContaining("options.packages")]);
  });
});

describe("checkLockfile()", () => {
  const rules = { allow: ["greet", "@words/*"], registry: "https://registry.example.com/" };
  const entry = { resolved: "https://registry.example.com/x.tgz", integrity: "sha512-AAAA" };
  const check = (packages: Json, more: Json = {}): void =>
    checkLockfile(JSON.stringify({ lockfileVersion: 3, packages: { "": {}, ...packages }, ...more }), rules);

  test("accepts allowed packages of the registry, also nested and bundled ones", () => {
    check({ "node_modules/greet": entry, "node_modules/greet/node_modules/@words/b": entry });
    check({ "node_modules/greet": entry, "node_modules/greet/node_modules/@words/b": { inBundle: true } });
  });

  test.for<readonly [string, Json, string]>([
    ["a package that is not allowed", { "node_modules/evil": entry }, "does not allow"],
    ["a scope that only begins like an allowed one", { "node_modules/@wordsmith/a": entry }, "does not allow"],
    ["another name for a package", { "node_modules/greet": { ...entry, name: "evil" } }, "does not allow"],
    ["an allowed name for another package", { "node_modules/evil": { ...entry, name: "greet" } }, "does not allow"],
    ["a link", { "node_modules/greet": { ...entry, link: true } }, "Expected a package of the registry"],
    ["a folder of the upload", { "packages/greet": entry }, "Expected a package of the registry"],
    ["a path that leaves the folder", { "node_modules/../greet": entry }, "Expected a package of the registry"],
    [
      "another registry",
      { "node_modules/greet": { ...entry, resolved: "https://registry.example.com.evil.com/x.tgz" } },
      "Expected resolved",
    ],
    ["a git URL", { "node_modules/greet": { ...entry, resolved: "git+ssh://git@example.com/x" } }, "Expected resolved"],
    ["a file", { "node_modules/greet": { ...entry, resolved: "file:../../etc" } }, "Expected resolved"],
    ["no URL", { "node_modules/greet": { integrity: entry.integrity } }, "Expected resolved"],
    ["no hash", { "node_modules/greet": { resolved: entry.resolved } }, "Expected integrity"],
    ["a weak hash", { "node_modules/greet": { ...entry, integrity: "sha1-AAAA" } }, "Expected integrity"],
    ["an entry that is not an object", { "node_modules/greet": 1 }, "Expected an object"],
  ])("rejects %s", ([, packages, message]) => {
    expect(() => check(packages)).toThrow(message);
  });

  test("rejects old versions, other JSON, and too many packages", () => {
    expect(() => check({}, { lockfileVersion: 1 })).toThrow("lockfileVersion 2 or 3");
    expect(() => checkLockfile("[]", rules)).toThrow("package-lock.json");
    expect(() => checkLockfile("{", rules)).toThrow("Expected JSON");
    const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [`node_modules/@words/p${n}`, entry]));
    expect(() => check(many)).toThrow("at most 1000 packages");
  });
});
