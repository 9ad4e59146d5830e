// Paths and secrets that a host configures: what is wrong with them is found when createGlovebox() runs.
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import { createGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "glovebox-paths-"));
  await mkdir(join(folder, "folder"));
  await writeFile(join(folder, "text"), "not a database, and longer than its head");
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** The message of PARAM_INVALID; a Glovebox that starts is closed, and fails the test. */
async function problemOf(options: GloveboxOptions): Promise<string> {
  const error = await failureOf(
    makeGlovebox(options).then(async (glovebox) => {
      await glovebox.close();
      throw new Error("Expected a rejection, got a Glovebox");
    }),
  );
  expect(error.code).toBe("PARAM_INVALID");
  return error.message;
}

describe("a key-value store", () => {
  test.for<[what: string, path: () => string, message: RegExp]>([
    ["a folder", () => join(folder, "folder"), /it is a folder/],
    ["in a folder that is a file", () => join(folder, "text", "kv.db"), /a part of its path is a file/],
    ["below a folder that is a file", () => join(folder, "text", "deep", "kv.db"), /a part of its path is a file/],
    ["where no folder can be made", () => "/proc/glovebox/kv.db", /cannot create a file in its folder \(E[A-Z]+\)/],
    ["where no file can be made", () => "/proc/kv.db", /cannot create a file in its folder \(E[A-Z]+\)/],
    ["a device", () => "/dev/null", /not a regular file/],
    ["a database in memory", () => ":memory:", /use "memory"/],
    ["a URI", () => "file:kv.db?mode=memory", /use "memory"/],
    ["a path with a NUL", () => `${folder}/kv\0.db`, /NUL/],
    ["a text", () => join(folder, "text"), /not a SQLite database/],
  ])("%s", async ([, path, message]) => {
    const problem = await problemOf({ kv: { path: path() } });
    expect(problem).toMatch(/^options\.kv\.path: The key-value store ".*" cannot be opened: /);
    expect(problem).toMatch(message);
  });

  test("a database of another program, of a later release, and one that is damaged", async () => {
    const path = join(folder, "other.db");
    const database = new DatabaseSync(path);
    database.exec("CREATE TABLE customers (name TEXT)");
    database.close();
    expect(await problemOf({ kv: { path } })).toMatch(/a SQLite database of another program/);
    const later = join(folder, "later.db");
    const written = new DatabaseSync(later);
    written.exec("CREATE TABLE entries (a); CREATE TABLE spaces (a); PRAGMA user_version = 7");
    written.close();
    expect(await problemOf({ kv: { path: later } })).toMatch(
      /it has format 7, but this version of Glovebox supports up to 1$/,
    );
    const damaged = join(folder, "damaged.db");
    await writeFile(damaged, Buffer.concat([Buffer.from("SQLite format 3\0"), Buffer.alloc(4_080, 0xff)]));
    expect(await problemOf({ kv: { path: damaged } })).toMatch(/damaged, or not a SQLite database/);
  });

  test("a key-value store that can be opened is not made before a tool uses it, and is opened again", async () => {
    const path = join(folder, "new", "deep", "kv.db");
    for (const count of [1, 2]) {
      const glovebox = await makeGlovebox({ kv: { path } });
      onTestFinished(() => glovebox.close());
      if (count === 1) expect([existsSync(path), await readdir(join(folder, "new", "deep"))]).toEqual([false, []]);
      const source =
        'export default async (_, ctx) => { const n = ((await ctx.kv.get("n")) ?? 0) + 1; await ctx.kv.set("n", n); return n; }';
      await glovebox.addTool({ name: "count", source }, { grant: ["kv"] });
      expect(outputOf(await glovebox.execute({ id: "c1", toolName: "count", arguments: {} }))).toBe(count);
      await glovebox.close();
    }
    // While another process has it open.
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    onTestFinished(() => other.close());
    await (await makeGlovebox({ kv: { path } })).close();
  });
});

describe("a folder", () => {
  const missing = (): string => join(folder, "missing");
  const file = (): string => join(folder, "text");
  test.for<[option: string, of: (path: string) => GloveboxOptions]>([
    ["bundler.packagesDir", (store) => ({ bundler: { packagesDir: store } })],
    ["bundler.root", (root) => ({ bundler: { root } })],
    ["bundler.linkedPackages.1", (path) => ({ bundler: { linkedPackages: [folder, path] } })],
    ["python.packages.dir", (store) => ({ python: { packages: { dir: store, allow: [] } } })],
  ])("%s that does not exist, or is a file", async ([option, of]) => {
    expect(await problemOf(of(missing()))).toBe(
      `options.${option}: Expected a folder, but ${JSON.stringify(missing())} does not exist`,
    );
    expect(await problemOf(of(file()))).toBe(
      `options.${option}: Expected a folder, but ${JSON.stringify(file())} is a file`,
    );
    await (await makeGlovebox(of(folder))).close();
  });
});

describe("a secret", () => {
  const WRONG = ["", "1234567", "x".repeat(8_193), "é".repeat(4_097)];
  test.for(WRONG)("a secret of the wrong length (%#) is rejected, of the host or a tenant", async (value) => {
    const secrets = { api_key: { value, hosts: ["api.test"] } };
    const expected = `Expected 8 to 8192 bytes, got ${Buffer.byteLength(value)}`;
    expect(await problemOf({ secrets })).toBe(`options.secrets.api_key.value: ${expected}`);
    const problem = await problemOf({ tenancy: "multi", tenants: { acme: { secrets } } });
    expect(problem).toContain("options.tenants.acme.secrets.api_key.value");
    expect(problem).toContain(expected);
    if (value !== "") expect(problem).not.toContain(value);
  });

  test("accepts secrets of 8 and of 8,192 bytes, and one that a function gives", async () => {
    const secret = (value: string | (() => string)) => ({ value, hosts: ["api.test"] });
    const glovebox = await makeGlovebox({
      secrets: { a: secret("12345678"), b: secret("x".repeat(8_192)), c: secret(() => "") },
    });
    await glovebox.close();
  });
});

describe("a cache folder that cannot be used", () => {
  test.for<[what: string, directory: () => string]>([
    ["is a file", () => join(folder, "text")],
    ["is in a file", () => join(folder, "text", "cache")],
    ["cannot be made", () => "/proc/glovebox-cache"],
    ["can be written by others", () => join(folder, "open")],
  ])("%s: one warning, and the Glovebox works without", async ([, directory]) => {
    await mkdir(join(folder, "open"), { recursive: true });
    await chmod(join(folder, "open"), 0o777);
    const errors: unknown[] = [];
    const lines: string[] = [];
    const logger = {
      child: () => logger,
      debug: () => {},
      info: () => {},
      error: (_: object, text: string) => lines.push(text),
      trace: () => {},
      fatal: () => {},
      warn: (_: object, text: string) => lines.push(text),
    };
    const glovebox = await makeGlovebox({
      cache: { directory: directory() },
      onError: (error) => errors.push(error),
      logger: logger as never,
    });
    onTestFinished(() => glovebox.close());
    for (const name of ["one", "two"]) await glovebox.addTool({ name, source: "export default () => 42" });
    expect(outputOf(await glovebox.execute({ id: "c1", toolName: "two", arguments: {} }))).toBe(42);
    await glovebox.close();
    expect(errors).toHaveLength(1);
    expect(errors[0]).toBeInstanceOf(ToolError);
    expect((errors[0] as ToolError).message).toMatch(
      /^The cache folder \(options\.cache\.directory\) cannot be used: /,
    );
    expect(lines).toEqual([(errors[0] as ToolError).message]);
  });

  test("is a warning of the process if nothing else receives it", async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): unknown => warnings.push(warning);
    process.on("warning", onWarning);
    onTestFinished(() => void process.off("warning", onWarning));
    await (await createGlovebox({ cache: { directory: join(folder, "text") } })).close();
    const own = (): readonly Error[] => warnings.filter(({ name }) => name === "GloveboxWarning");
    await expect.poll(own).toHaveLength(1);
    expect(own()[0]?.message).toMatch(/^The cache folder \(options\.cache\.directory\) cannot be used: /);
  });

  test("one that can be used gives none, and is left without the file that showed it", async () => {
    const errors: unknown[] = [];
    const directory = join(folder, "cache");
    const glovebox = await makeGlovebox({ cache: { directory }, onError: (error) => errors.push(error) });
    await glovebox.close();
    expect(errors).toEqual([]);
    // An entry may still be on its way.
    const temporary = async () => (await readdir(directory)).filter((name) => name.endsWith(".tmp"));
    await expect.poll(temporary).toEqual([]);
  });
});
