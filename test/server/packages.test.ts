// Uploads with a package.json and a lockfile: the server installs their packages from a registry, here one on this machine.
import type { ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { packTar } from "modern-tar";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { createServer, type Server } from "../../src/server/index.ts";
import { checkLockfile, checkManifest } from "../../src/server/tools/package-files.ts";
import { PackageInstaller } from "../../src/server/tools/packages.ts";
import { expectShortTurns } from "../support/loop-hold.ts";
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
/** Stands for a URL that is not the registry. */
const elsewhere = createHttpServer();
const tarballs = new Map<string, Tarball>();
let origin: string;
let server: Server;
let api: ReturnType<typeof apiOf>;
let requests = 0;
/** Paths that the registry was requested. */
const fetched: string[] = [];
/** Requests that the registry never answers. */
let slowRequests = 0;
let place: string;
let requestsElsewhere = 0;

async function listen(on: typeof registry): Promise<string> {
  await new Promise<void>((resolve) => on.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(on.address() as AddressInfo).port}`;
}

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
  for (const name of ["inner", "deep"]) {
    tarballs.set(`/${name}/-/${name}-1.0.0.tgz`, await pack({ "package.json": manifest(name), "index.js": "" }));
  }
  registry.on("request", (request, response) => {
    requests += 1;
    const url = request.url ?? "";
    fetched.push(url);
    if (url.startsWith("/slow/")) {
      slowRequests += 1;
      return;
    }
    const found = tarballs.get(url);
    if (tarballs.has(`${url}/-${url}-1.0.0.tgz`)) {
      const version = { version: "1.0.0", dist: { tarball: `${origin}${url}/-${url}-1.0.0.tgz` } };
      response.end(JSON.stringify({ name: url.slice(1), versions: { "1.0.0": version } }));
      return;
    }
    if (found === undefined) response.writeHead(404).end("{}");
    else response.end(found.bytes);
  });
  tarballs.set(
    "/outer/-/outer-1.0.0.tgz",
    await pack({
      "package.json": manifest("outer", { dependencies: { inner: "^1.0.0" }, bundleDependencies: ["inner"] }),
      "index.js": "export { greet } from 'inner';",
      "node_modules/inner/package.json": manifest("inner", { dependencies: { deep: "1.0.0" } }),
      "node_modules/inner/index.js": "export { greet } from 'deep';",
      "node_modules/deep/package.json": manifest("deep"),
      "node_modules/deep/index.js": "export const greet = (name) => 'Bundled ' + name;",
    }),
  );
  origin = await listen(registry);
  elsewhere.on("request", (_request, response) => {
    requestsElsewhere += 1;
    response.end(tarballs.get("/greet/-/greet-1.0.0.tgz")?.bytes);
  });
  place = await listen(elsewhere);
  const store = await stores.create("sqlite");
  server = await createServer({
    ...store.options,
    port: 0,
    logLevel: "silent",
    packages: { allow: ["greet", "@words/*", "outer", "inner", "deep"], registry: origin },
  });
  api = apiOf(server);
  expect((await api("POST", "/v1/tenants", { id: "acme" })).status).toBe(201);
});
afterAll(async () => {
  await server.close({ drainMs: 0 });
  for (const one of [registry, elsewhere]) {
    one.closeAllConnections();
    one.close();
  }
  await stores[Symbol.asyncDispose]();
});

const MANIFEST = { dependencies: { greet: "1.0.0" } };
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
const deploy = (name: string, lock: Json | string = lockOf(), manifest: Json = MANIFEST, tool: string = TOOL) =>
  api<Json>("POST", "/v1/tenants/acme/tools", {
    name,
    entry: "tool.js",
    files: {
      "tool.js": tool,
      "package.json": JSON.stringify(manifest),
      "package-lock.json": typeof lock === "string" ? lock : JSON.stringify(lock),
    },
  });
const INSTALLER = { allow: ["*"], timeoutMs: 60_000, maxBytes: 1024 * 1024 };
function openInstaller(): { readonly installer: PackageInstaller; readonly folder: string } {
  const folder = mkdtempSync(join(tmpdir(), "glovebox-packages-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return { installer: new PackageInstaller({ ...INSTALLER, registry: `${origin}/` }, folder), folder };
}
const filesOf = (manifest: Json) => ({
  "package.json": JSON.stringify(manifest),
  "package-lock.json": JSON.stringify(lockOf()),
});
/** Adds to the entry of the package greet. */
const greetWith = (more: Json): Json =>
  lockOf((packages) => {
    packages["node_modules/greet"] = { ...packages["node_modules/greet"], ...more };
  });

describe("an upload with a lockfile", () => {
  test("is installed, without scripts, and runs with its packages", async () => {
    const deployed = await deploy("greeter");
    expect([deployed.status, deployed.body.error]).toEqual([201, undefined]);
    const { body } = await api<Json>("POST", "/v1/tenants/acme/tools/greeter/calls", { input: { name: "Ada" } });
    expect([body.error, body.output]).toEqual([null, "Hello Ada"]);
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

  test("gets no other package of the registry under an allowed name", async () => {
    const url = "/evil/-/evil-1.0.0.tgz";
    tarballs.set(url, await pack({ "package.json": "{}", "index.js": "export const greet = () => 'evil';" }));
    const before = fetched.length;
    const { status, body } = await deploy(
      "named",
      greetWith({ resolved: `${origin}${url}`, integrity: tarballs.get(url)?.integrity }),
    );
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining("EINTEGRITY")]);
    expect(fetched.slice(before)).not.toContain(url);
  });

  test("is installed from a registry whose URLs have another form", async () => {
    const deployed = await deploy("form", greetWith({ resolved: `${origin}/download/greet/1.0.0/5e1f` }));
    expect([deployed.status, deployed.body.error]).toEqual([201, undefined]);
    const { body } = await api<Json>("POST", "/v1/tenants/acme/tools/form/calls", { input: { name: "Ada" } });
    expect(body.output).toBe("Hello Ada");
  });

  test("is rejected if the manifest requests another package", async () => {
    const { status, body } = await deploy("other", lockOf(), { dependencies: { greet: "2.0.0" } });
    expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining("npm could not install")]);
  });

  test.for<readonly [string, () => { readonly lock?: Json | string; readonly manifest?: Json }]>([
    [
      "an entry that is said to be in another package",
      () => ({ lock: greetWith({ inBundle: true, resolved: `${place}/greet.tgz`, integrity: undefined }) }),
    ],
    [
      "a dependency of another package in the lockfile",
      () => ({ lock: greetWith({ dependencies: { "@words/hello": `${place}/hello.tgz` } }) }),
    ],
    ["a URL in package.json", () => ({ manifest: { dependencies: { greet: `${place}/greet.tgz` } } })],
    ["a repository in package.json", () => ({ manifest: { dependencies: { greet: `git+${place}/greet.git` } } })],
    ["a URL for development", () => ({ manifest: { ...MANIFEST, devDependencies: { greet: `${place}/greet.tgz` } } })],
  ])("is rejected before anything is fetched from %s", async ([, make]) => {
    const { lock, manifest } = make();
    const { status, body } = await deploy("elsewhere", lock, manifest);
    expect([requestsElsewhere, status, JSON.stringify(body)]).toEqual([
      0,
      422,
      expect.stringContaining("PARAM_INVALID"),
    ]);
  });

  test("is read by npm as it was checked, also with conflict markers", async () => {
    const resolved = `${origin}/greet/-/greet-1.0.0.tgz`;
    // JSON takes the last of two fields; npm drops those between the markers.
    const marked = JSON.stringify(lockOf(), undefined, 1).replace(
      `"resolved": "${resolved}",`,
      [`"resolved": "${place}/greet.tgz",`, '"a": "|||||||",', `"resolved": "${resolved}",`]
        .concat(['"b": "<<<<<<<",', '"c": "=======",', '"d": ">>>>>>>",'])
        .join("\n"),
    );
    expect(JSON.parse(marked)).toMatchObject({ packages: { "node_modules/greet": { resolved } } });
    const { status } = await deploy("marked", marked);
    expect([status, requestsElsewhere]).toEqual([201, 0]);
  });

  describe("with a package that contains others", () => {
    const manifest = { dependencies: { outer: "1.0.0" } };
    const bundled = (outer: Json): Json => ({
      ...lockOf(),
      packages: {
        "": { name: "tool", version: "0.0.0", ...manifest },
        "node_modules/outer": {
          version: "1.0.0",
          resolved: `${origin}/outer/-/outer-1.0.0.tgz`,
          integrity: tarballs.get("/outer/-/outer-1.0.0.tgz")?.integrity,
          dependencies: { inner: "^1.0.0" },
          ...outer,
        },
        "node_modules/outer/node_modules/inner": {
          version: "1.0.0",
          inBundle: true,
          dependencies: { deep: "1.0.0" },
        },
        "node_modules/outer/node_modules/deep": { version: "1.0.0", inBundle: true },
      },
    });
    const tool = TOOL.replace("'greet'", "'outer'");

    test("is installed with them", async () => {
      const deployed = await deploy("bundled", bundled({ bundleDependencies: ["inner"] }), manifest, tool);
      expect([deployed.status, deployed.body.error]).toEqual([201, undefined]);
      const { body } = await api<Json>("POST", "/v1/tenants/acme/tools/bundled/calls", { input: { name: "Ada" } });
      expect([body.error, body.output]).toEqual([null, "Bundled Ada"]);
    });

    test("is rejected if npm would fetch them, without a hash", async () => {
      const { status, body } = await deploy("unbundled", bundled({}), manifest, tool);
      expect([status, JSON.stringify(body)]).toEqual([422, expect.stringContaining("EINTEGRITY")]);
    });
  });

  test("is built with the limits of the server and of its tenant", async () => {
    const failure = async (): Promise<string> => JSON.stringify((await deploy("limited")).body);
    const policy = (value: Json) => api("PATCH", "/v1/tenants/acme", { policy: value });
    onTestFinished(async () => void (await policy({})));
    expect((await policy({ limits: { bundleBytes: 10 } })).status).toBe(200);
    expect(await failure()).toMatch(/BUNDLE_FAILED.*10 bytes/);
  });

  test("is one of a few that are built at one time", async () => {
    await deploy("greeter");
    let running = 0;
    let most = 0;
    const onStart = (message: unknown): void => {
      running += 1;
      most = Math.max(most, running);
      (message as { readonly process: ChildProcess }).process.once("exit", () => {
        running -= 1;
      });
    };
    subscribe("child_process", onStart);
    onTestFinished(() => void unsubscribe("child_process", onStart));
    const deployed = await Promise.all(Array.from({ length: 12 }, (_, n) => deploy(`parallel${n}`)));
    expect(deployed.map(({ status }) => status)).toEqual(deployed.map(() => 201));
    expect(most).toBeLessThan(deployed.length);
  });

  test("takes turns with the uploads of other tenants", async () => {
    const { installer } = openInstaller();
    const started: string[] = [];
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const build = (tenantId: string): Promise<void> =>
      installer.build(filesOf(MANIFEST), tenantId, async () => {
        started.push(tenantId);
        await released;
      });
    const builds = Array.from({ length: 10 }, () => build("flood"));
    builds.push(build("other"));
    await vi.waitFor(() => expect(started).toContain("other"), { timeout: 60_000 });
    expect(started.toSorted()).toEqual(["flood", "flood", "other"]);
    release();
    await Promise.all(builds);
    expect(started).toHaveLength(11);
  });

  test("keeps its packages until it is built, although others are installed", async () => {
    const { installer, folder } = openInstaller();
    const later = new Date(Date.now() + 3_600_000);
    for (let n = 10; n < 32; n += 1) {
      const other = join(folder, String(n).repeat(32));
      mkdirSync(other);
      utimesSync(other, later, later);
    }
    // As if another upload had just removed it.
    symlinkSync("missing", join(folder, "32".repeat(32)));
    await installer.build(filesOf(MANIFEST), "acme", async (packagesDir) => {
      const more = { dependencies: { ...MANIFEST.dependencies, "@words/hello": "1.0.0" } };
      await installer.build(filesOf(more), "beta", async (others) => expect(others).not.toBe(packagesDir));
      expect(readdirSync(join(packagesDir, "node_modules"))).toContain("greet");
    });
  });

  test("leaves no process of npm behind when its server stops", async () => {
    await using own = await stores.create("sqlite");
    const packages = { allow: ["slow"], registry: origin };
    await using stopping = await createServer({ ...own.options, port: 0, logLevel: "silent", packages });
    const send = apiOf(stopping);
    await send("POST", "/v1/tenants", { id: "acme" });
    const started: ChildProcess[] = [];
    const onStart = (message: unknown): void => {
      started.push((message as { readonly process: ChildProcess }).process);
    };
    subscribe("child_process", onStart);
    onTestFinished(() => void unsubscribe("child_process", onStart));
    const url = `${origin}/slow/-/slow-1.0.0.tgz`;
    const entry = { version: "1.0.0", resolved: url, integrity: tarballs.get("/greet/-/greet-1.0.0.tgz")?.integrity };
    const lock = { lockfileVersion: 3, packages: { "node_modules/slow": entry } };
    const manifest = { dependencies: { slow: "1.0.0" } };
    const files = { "package.json": JSON.stringify(manifest), "package-lock.json": JSON.stringify(lock) };
    const deploying = send("POST", "/v1/tenants/acme/tools", {
      name: "slow",
      entry: "tool.js",
      files: { "tool.js": TOOL, ...files },
    }).catch(() => undefined);
    await vi.waitFor(() => expect(slowRequests).toBe(1), { timeout: 60_000 });
    const npm = started.find(({ spawnfile }) => spawnfile === "npm");
    const cache = npm?.spawnargs.find((one) => one.startsWith("--cache="))?.slice("--cache=".length) ?? "";
    expect([npm?.exitCode, existsSync(dirname(cache))]).toEqual([null, true]);
    await stopping.close({ drainMs: 0 });
    expect([npm?.signalCode, existsSync(dirname(cache))]).toEqual(["SIGKILL", false]);
    await deploying;
  });

  test("begins no installation after its server has stopped, also if its turn has just come", async () => {
    const { folder } = openInstaller();
    let isStopped = false;
    let startedLate = 0;
    const onStart = (): void => {
      if (isStopped) startedLate += 1;
    };
    subscribe("child_process", onStart);
    onTestFinished(() => void unsubscribe("child_process", onStart));
    const other = filesOf({ dependencies: { ...MANIFEST.dependencies, "@words/hello": "1.0.0" } });
    for (let turns = 0; turns < 16; turns += 1) {
      isStopped = false;
      const installer = new PackageInstaller({ ...INSTALLER, registry: `${origin}/` }, folder);
      let begun = 0;
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      const hold = (): Promise<void> =>
        installer.build(filesOf(MANIFEST), "acme", async () => {
          begun += 1;
          await released;
        });
      const holds = [hold(), hold()];
      await vi.waitFor(() => expect(begun).toBe(2), { timeout: 60_000 });
      const waiting = installer.build(other, "acme", async () => "built").catch(({ code }: { code: string }) => code);
      // Until it waits for one of the others.
      for (let turn = 0; turn < 5; turn += 1) await nextTurn();
      release();
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      await installer[Symbol.asyncDispose]();
      isStopped = true;
      expect([turns, await waiting]).toEqual([turns, "CANCELLED"]);
      await Promise.all(holds);
    }
    expect(startedLate).toBe(0);
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
  const rules = { allow: ["greet", "@words/*"], registry: "https://registry.example.com/npm/" };
  const hash = `sha512-${Buffer.alloc(64, 1).toString("base64")}`;
  const entry = { version: "1.0.0", resolved: "https://registry.example.com/npm/x.tgz", integrity: hash };
  const check = (packages: Json, more: Json = {}) =>
    checkLockfile(JSON.stringify({ lockfileVersion: 3, packages: { "": {}, ...packages }, ...more }), rules);

  test("accepts allowed packages of the registry, also nested and bundled ones", async () => {
    await check({ "node_modules/greet": entry, "node_modules/greet/node_modules/@words/b": entry });
    await check({ "node_modules/greet": entry, "node_modules/greet/node_modules/@words/b": { inBundle: true } });
  });

  test.for([
    ["greet/-/greet-1.0.0.tgz", true],
    ["greet/-/@words/greet-1.0.0.tgz", true],
    ["evil/-/evil-1.0.0.tgz", false],
    ["evil/greet/-/greet-1.0.0.tgz", false],
    ["greet/-/../../evil/-/evil-1.0.0.tgz", false],
    ["greet/-/..%2F..%2Fevil%2F-%2Fevil-1.0.0.tgz", false],
    ["greet/-/greet-1.0.0.tgz?to=/evil/-/evil-1.0.0.tgz", false],
    ["download/greet/1.0.0/5e1f", false],
  ] as const)("keeps a URL only if it is one of the package: %s", async ([path, isKept]) => {
    const resolved = new URL(path, rules.registry).href;
    for (const [folder, more] of [
      ["greet", {}],
      ["@words/own", { name: "greet" }],
    ] as const) {
      const { packages } = JSON.parse(await check({ [`node_modules/${folder}`]: { ...entry, ...more, resolved } }));
      expect(packages[`node_modules/${folder}`].resolved).toBe(isKept ? resolved : undefined);
    }
  });

  test.for<readonly [string, Json, string]>([
    ["a package that is not allowed", { "node_modules/evil": entry }, "does not allow"],
    ["a scope that only begins like an allowed one", { "node_modules/@wordsmith/a": entry }, "does not allow"],
    ["another name for a package", { "node_modules/greet": { ...entry, name: "evil" } }, "does not allow"],
    ["an allowed name for another package", { "node_modules/evil": { ...entry, name: "greet" } }, "does not allow"],
    ["a link", { "node_modules/greet": { ...entry, link: true } }, "Expected a package of the registry"],
    ["a folder as a version", { "node_modules/greet": { ...entry, version: ".." } }, "version: "],
    ["an archive as a version", { "node_modules/greet": { ...entry, version: "1.tgz" } }, "version: "],
    ["no version", { "node_modules/greet": { ...entry, version: undefined } }, "Expected version"],
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
    [
      "a hash that npm cannot read",
      { "node_modules/greet": { ...entry, integrity: "sha512-AAAA" } },
      "Expected integrity",
    ],
    [
      "a weak hash next to an empty one",
      { "node_modules/greet": { ...entry, integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk= sha512-" } },
      "Expected integrity",
    ],
    [
      "a URL that leaves the registry",
      { "node_modules/greet": { ...entry, resolved: "https://registry.example.com/npm/../x.tgz" } },
      "Expected resolved",
    ],
    ["a version that is a URL", { "node_modules/greet": { ...entry, version: "http://example.com/x" } }, "version"],
    ["a name that is a path", { "node_modules/greet": { ...entry, name: "@words/../x" } }, "name of a package"],
    ["a folder in a package", { "node_modules/greet/lib": entry }, "Expected a package of the registry"],
    ["an entry that is not an object", { "node_modules/greet": 1 }, "expected object"],
  ])("rejects %s", async ([, packages, message]) => {
    await expect(check(packages)).rejects.toThrow(message);
  });

  test("rejects old versions, other JSON, and more than 1,000 packages", async () => {
    await expect(check({}, { lockfileVersion: 1 })).rejects.toThrow("lockfileVersion 2 or 3");
    await expect(checkLockfile("[]", rules)).rejects.toThrow("package-lock.json");
    await expect(checkLockfile("{", rules)).rejects.toThrow("Expected JSON");
    const many = (length: number): Json =>
      Object.fromEntries(Array.from({ length }, (_, n) => [`node_modules/@words/p${n}`, entry]));
    expect(await check(many(1_000))).toContain("p999");
    await expect(check(many(1_001))).rejects.toThrow("at most 1001 packages, with the tool itself");
  });
});

describe("a large lockfile", () => {
  const rules = { allow: ["*"], registry: "https://registry.example.com/" };
  const entry = {
    version: "1.0.0",
    resolved: "https://registry.example.com/x.tgz",
    integrity: `sha512-${Buffer.alloc(64, 1).toString("base64")}`,
    dependencies: Object.fromEntries(Array.from({ length: 200 }, (_, n) => [`other${n}`, "^1.0.0"])),
  };
  const lockWith = (packages: string): string => `{"lockfileVersion":3,"packages":${packages}}`;
  const named = (count: number, value: unknown): string =>
    JSON.stringify(Object.fromEntries(Array.from({ length: count }, (_, n) => [`node_modules/p${n}`, value])));

  test.for([
    ["of packages with many dependencies", named(900, entry), undefined],
    ["of very many packages", named(150_000, 0), "at most 1001 packages, with the tool itself"],
    ["of brackets", `${"[".repeat(2_000_000)}${"]".repeat(2_000_000)}`, "package-lock.json"],
    ["of names of systems", named(1, { ...entry, os: Array(900_000).fill(0) }), "os"],
  ] as const)("%s does not block the event loop", async ([, packages, message]) => {
    const outcome = await expectShortTurns(
      () =>
        checkLockfile(lockWith(packages), rules).then(
          () => undefined,
          (error: Error) => error.message,
        ),
      { boundMs: 60, share: 0.3 },
    );
    if (message === undefined) expect(outcome).toBeUndefined();
    else expect(outcome).toContain(message);
  });
});

describe("checkManifest()", () => {
  const rules = { allow: ["greet", "@words/*"], registry: "https://registry.example.com/" };
  const KEYS = ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"];

  test.for([
    "",
    "*",
    "1.0.0",
    "^1.2.3-rc.1+build",
    ">=1 <3 || ~4.x",
    "1.0 - 2.0",
    "latest",
    "npm:greet",
    "npm:@words/a@^2",
  ])("accepts %j", async (spec) => {
    for (const key of KEYS) {
      const manifest = { [key]: { greet: spec } };
      expect(JSON.parse(await checkManifest(JSON.stringify(manifest), rules))).toMatchObject(manifest);
    }
  });

  test.for([
    "http://10.0.0.5/x.tgz",
    "git+https://example.com/x.git",
    "git@example.com:x/y.git",
    "github:x/y",
    "x/y",
    "gist:abc",
    "file:x",
    "FILE:/etc",
    "./x",
    ".",
    "..",
    "~/x",
    "/etc",
    "C:x",
    "\\\\host\\x",
    "x.tgz",
    "x.tar.gz",
    "workspace:*",
    "npm:greet@npm:greet",
    "npm:http://example.com/x.tgz",
    "npm:greet@http://example.com/x.tgz",
  ])("rejects %j", async (spec) => {
    for (const key of KEYS) {
      await expect(checkManifest(JSON.stringify({ [key]: { greet: spec } }), rules)).rejects.toThrow(
        "Expected a version",
      );
    }
  });

  test("rejects aliases of packages that are not allowed, and invalid names", async () => {
    const check = (dependencies: Json) => checkManifest(JSON.stringify({ dependencies }), rules);
    await expect(check({ greet: "npm:evil@1.0.0" })).rejects.toThrow("does not allow");
    for (const name of ["../greet", "http://example.com", ".bin", "@words/../x"]) {
      await expect(check({ [name]: "1.0.0" })).rejects.toThrow("Invalid key");
    }
  });
});
