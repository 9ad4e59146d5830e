// Tests BundleCache on a real disk: what it stores and evicts, and that it never fails a caller.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { BuiltBundle } from "../../src/bundler/bundle-tool.ts";
import { type BundleCacheOptions, createBundleCache, engineKeyOf } from "../../src/bundler/cache/bundle-cache.ts";
import { makeFolder, REPOSITORY } from "./workbench.ts";

function built(code: string): BuiltBundle {
  const sha256 = createHash("sha256").update(code).digest("hex");
  const bundle = {
    sha256,
    code,
    sourceMap: "{}",
    entry: "tool.ts",
    exports: ["default"],
    inputs: [],
    packages: [],
    dynamicCode: [],
  };
  return { bundle, dependencies: [], absent: ["/nowhere"] };
}

const KEY = "a".repeat(64);
const OTHER = "b".repeat(64);
/** Creates a cache with an empty memory, which must read the disk. */
const onDisk = (directory: string, options: BundleCacheOptions = {}): ReturnType<typeof createBundleCache> =>
  createBundleCache({ directory, memoryBytes: 0, ...options });
const filesOf = (directory: string): readonly string[] => readdirSync(directory).sort();

describe("BundleCache stores", () => {
  test("bundles in memory, without a folder", async () => {
    const cache = createBundleCache();
    expect(await cache.get(KEY)).toBeUndefined();
    await cache.set(KEY, built("1"));
    expect((await cache.get(KEY))?.bundle.code).toBe("1");
  });

  test("bundles on disk, for the next process, frozen", async () => {
    const directory = join(makeFolder(), "deep/cache");
    await onDisk(directory).set(KEY, built("1"));
    const found = await onDisk(directory).get(KEY);
    expect(found).toEqual(built("1"));
    expect(Object.isFrozen(found?.bundle)).toBe(true);
    expect(statSync(directory).mode & 0o777).toBe(0o700);
    expect(statSync(join(directory, `${KEY}.bundle`)).mode & 0o777).toBe(0o600);
  });

  test("creates its folder at the first write", async () => {
    const directory = join(makeFolder(), "cache");
    expect(await onDisk(directory).get(KEY)).toBeUndefined();
    expect(existsSync(directory)).toBe(false);
  });

  test("the platform modules that a bundle uses, without unknown names", async () => {
    const directory = makeFolder();
    expect(await onDisk(directory).getPlatformModules(KEY)).toEqual([]);
    await onDisk(directory).setPlatformModules(KEY, ["url", "gone" as "url", "streams"]);
    expect(await onDisk(directory).getPlatformModules(KEY)).toEqual(["url", "streams"]);
    expect(await onDisk(directory).getPlatformModules(OTHER)).toEqual([]);
  });

  test("code caches by bundle and engine", async () => {
    const directory = join(makeFolder(), "cache");
    const engine = engineKeyOf(["--no-turboshaft-loop-unrolling"]);
    const bytes = Uint8Array.from([1, 2, 3]);
    await onDisk(directory).setCodeCache(KEY, engine, bytes);
    bytes[0] = 9;
    expect([...((await onDisk(directory).getCodeCache(KEY, engine)) ?? [])]).toEqual([1, 2, 3]);
    expect(await onDisk(directory).getCodeCache(KEY, engineKeyOf([]))).toBeUndefined();
    expect(await onDisk(directory).getCodeCache(OTHER, engine)).toBeUndefined();
    const cache = createBundleCache();
    await cache.setCodeCache(KEY, engine, bytes);
    bytes[0] = 7;
    expect([...((await cache.getCodeCache(KEY, engine)) ?? [])]).toEqual([9, 2, 3]);
  });

  test("copies of code caches, so that a small one does not keep a large buffer alive", async () => {
    const cache = onDisk(join(makeFolder(), "cache"));
    const pooled = Buffer.from([1, 2, 3]);
    expect(pooled.buffer.byteLength).toBeGreaterThan(1_000);
    await cache.setCodeCache(KEY, "e", pooled);
    expect((await cache.getCodeCache(KEY, "e"))?.buffer.byteLength).toBe(3);
  });

  test("entries in memory up to its limit, the most recently used ones", async () => {
    const cache = createBundleCache({ memoryBytes: 10_000 });
    for (const key of ["1", "2", "3"]) await cache.set(key, built(key.repeat(1_000)));
    expect(await cache.get("1")).toBeDefined();
    for (const key of ["4", "5"]) await cache.set(key, built(key.repeat(1_000)));
    const kept = await Promise.all(
      ["1", "2", "3", "4", "5"].map(async (key) => ((await cache.get(key)) === undefined ? "" : key)),
    );
    expect(kept.join("")).toBe("145");
  });
});

describe("BundleCache removes", () => {
  const damage: readonly (readonly [string, (bytes: Buffer) => Uint8Array])[] = [
    ["an empty file", () => Buffer.alloc(0)],
    ["half a file", (bytes) => bytes.subarray(0, bytes.length / 2)],
    ["a file with one bit changed", (bytes) => bytes.fill((bytes.at(-3) ?? 0) ^ 1, bytes.length - 3, bytes.length - 2)],
    ["another version's file", (bytes) => Buffer.concat([Buffer.from("glovebox-cache-0\n"), bytes.subarray(17)])],
    ["a longer file", (bytes) => Buffer.concat([bytes, Buffer.from(" ")])],
    ["anything else", () => Buffer.from("{}")],
  ];
  test.for(damage)("%s", async ([, change]) => {
    const directory = join(makeFolder(), "cache");
    await onDisk(directory).set(KEY, built("1"));
    const path = join(directory, `${KEY}.bundle`);
    writeFileSync(path, change(readFileSync(path)));
    expect(await onDisk(directory).get(KEY)).toBeUndefined();
    expect(existsSync(path)).toBe(false);
    await onDisk(directory).set(KEY, built("1"));
    expect(await onDisk(directory).get(KEY)).toBeDefined();
  });

  test("an entry under the name of another", async () => {
    const directory = join(makeFolder(), "cache");
    await onDisk(directory).set(KEY, built("1"));
    writeFileSync(join(directory, `${OTHER}.bundle`), readFileSync(join(directory, `${KEY}.bundle`)));
    expect(await onDisk(directory).get(OTHER)).toBeUndefined();
  });

  test("an intact entry whose code does not match its hash", async () => {
    const directory = join(makeFolder(), "cache");
    const { bundle, ...rest } = built("1");
    await onDisk(directory).set(KEY, { bundle: { ...bundle, code: "2" }, ...rest });
    expect(await onDisk(directory).get(KEY)).toBeUndefined();
  });

  test("the least recently used entry when the folder is full", async () => {
    const directory = join(makeFolder(), "cache");
    const cache = onDisk(directory, { maxBytes: 20_000 });
    for (const [at, key] of ["1", "2", "3", "4"].entries()) {
      await cache.set(key.repeat(64), built(key.repeat(4_000)));
      utimesSync(join(directory, `${key.repeat(64)}.bundle`), 1_000 + at, 1_000 + at);
    }
    // Reading counts as a use.
    expect(await cache.get("1".repeat(64))).toBeDefined();
    await cache.set("5".repeat(64), built("5".repeat(4_000)));
    expect(filesOf(directory).map((name) => name[0])).toEqual(["1", "4", "5"]);
    expect(filesOf(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0)).toBeLessThan(
      20_000,
    );
  });

  test("an entry that is larger than the limit", async () => {
    const directory = join(makeFolder(), "cache");
    await onDisk(directory, { maxBytes: 1_000 }).set(KEY, built("x".repeat(2_000)));
    expect(existsSync(directory)).toBe(false);
  });

  test("old temporary files, but not those of current writes", async () => {
    const directory = join(makeFolder(), "cache");
    await onDisk(directory).set(KEY, built("1"));
    writeFileSync(join(directory, ".old.tmp"), "x");
    utimesSync(join(directory, ".old.tmp"), 1_000, 1_000);
    writeFileSync(join(directory, ".new.tmp"), "x");
    writeFileSync(join(directory, "other-file.txt"), "x");
    await onDisk(directory).set(OTHER, built("2"));
    expect(filesOf(directory)).toEqual([".new.tmp", `${KEY}.bundle`, `${OTHER}.bundle`, "other-file.txt"].sort());
  });
});

describe("BundleCache never fails a caller", () => {
  test("a folder that is a file is reported as one", async () => {
    const directory = join(makeFolder(), "cache");
    writeFileSync(directory, "");
    expect(await createBundleCache({ directory }).findIssue()).toBe("it is a file");
  });

  test.for<[string, (directory: string) => void]>([
    ["the folder cannot be created", (directory) => writeFileSync(directory, "")],
    ["the folder is a link", (directory) => symlinkSync(makeFolder(), directory)],
    [
      "other users can write to the folder",
      (directory) => {
        mkdirSync(directory);
        chmodSync(directory, 0o777);
      },
    ],
  ])("a cache fails no caller when %s: it keeps to its memory", async ([, prepare]) => {
    const directory = join(makeFolder(), "cache");
    prepare(directory);
    const cache = createBundleCache({ directory });
    await cache.set(KEY, built("1"));
    await cache.setCodeCache(KEY, "e", new Uint8Array(3));
    expect(await cache.get(KEY)).toBeDefined();
    expect(await onDisk(directory).get(KEY)).toBeUndefined();
    if (statSync(directory).isDirectory()) expect(filesOf(directory)).toEqual([]);
  });

  test("a removed cache folder fails no caller: it is created again", async () => {
    const directory = join(makeFolder(), "cache");
    const cache = onDisk(directory);
    await cache.set(KEY, built("1"));
    rmSync(directory, { recursive: true });
    await cache.set(KEY, built("1"));
    expect(await cache.get(KEY)).toBeUndefined();
    await cache.set(KEY, built("1"));
    expect(await cache.get(KEY)).toBeDefined();
  });

  test("a cache entry that is a link fails no caller: it is not followed", async () => {
    const directory = join(makeFolder(), "cache");
    await onDisk(directory).set(KEY, built("1"));
    const elsewhere = join(makeFolder(), "x");
    writeFileSync(elsewhere, readFileSync(join(directory, `${KEY}.bundle`)));
    rmSync(join(directory, `${KEY}.bundle`));
    symlinkSync(elsewhere, join(directory, `${KEY}.bundle`));
    expect(await onDisk(directory).get(KEY)).toBeUndefined();
  });

  test("processes that write and read the same entries concurrently fail no caller", async () => {
    const directory = join(makeFolder(), "cache");
    const script = `
      import { createHash } from "node:crypto";
      import { createBundleCache } from ${JSON.stringify(`${REPOSITORY}/src/bundler/cache/bundle-cache.ts`)};
      const cache = createBundleCache({ directory: ${JSON.stringify(directory)}, memoryBytes: 0, maxBytes: 3_000_000 });
      let seen = 0;
      for (let i = 0; i < 60; i += 1) {
        const key = String(i % 7).repeat(64);
        const code = key.repeat(2_000 + Math.floor(Math.random() * 4_000));
        const sha256 = createHash("sha256").update(code).digest("hex");
        await cache.set(key, { bundle: { sha256, code, sourceMap: "", entry: "", exports: [], inputs: [], packages: [], dynamicCode: [] }, dependencies: [], absent: [] });
        const found = await cache.get(String((i + 3) % 7).repeat(64));
        if (found !== undefined && found.bundle.code.replaceAll(String((i + 3) % 7), "") !== "") throw new Error("mixed up");
        if (found !== undefined) seen += 1;
      }
      if (seen < 20) throw new Error("Expected to find most entries, found " + seen);`;
    const writers = [1, 2, 3].map(() =>
      spawn(process.execPath, ["--input-type=module", "-e", script], { stdio: ["ignore", "ignore", "inherit"] }),
    );
    const codes = await Promise.all(writers.map(async (writer) => (await once(writer, "exit"))[0]));
    expect(codes).toEqual([0, 0, 0]);
    const left = filesOf(directory);
    expect(left.every((name) => name.endsWith(".bundle"))).toBe(true);
    for (const name of left) expect(await onDisk(directory).get(name.slice(0, 64))).toBeDefined();
  });
});

describe("engineKeyOf()", () => {
  test("depends on the flags and is deterministic", () => {
    expect(engineKeyOf(["--jitless"])).not.toBe(engineKeyOf([]));
    expect(engineKeyOf(["--jitless"])).toBe(engineKeyOf(["--jitless"]));
    expect(engineKeyOf(["a", "b"])).not.toBe(engineKeyOf(["a b"]));
  });
});
