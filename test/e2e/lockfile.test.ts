// `npm ci` installs only what the lock file lists, and fails if an optional package of any platform is missing from it. npm leaves out
// those that the registry in use does not have, so that the lock file must be checked. The tests on Node 24 need what it installs.
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";

interface LockedPackage {
  readonly optionalDependencies?: { readonly [name: string]: string };
  readonly resolved?: string;
}

const readLock = (path: string): { readonly [path: string]: LockedPackage } =>
  JSON.parse(readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), "utf8")).packages;

/** Looks where Node would: in the package's own node_modules, then in each one above it. */
function isLocked(packages: { readonly [path: string]: LockedPackage }, importer: string, name: string): boolean {
  for (let at = importer; ; at = at.slice(0, Math.max(0, at.lastIndexOf("/node_modules/")))) {
    if (packages[`${at === "" ? "" : `${at}/`}node_modules/${name}`] !== undefined) return true;
    if (!at.includes("/node_modules/")) return packages[`node_modules/${name}`] !== undefined;
  }
}

test.for(["package-lock.json", "benchmarks/package-lock.json", "docs/package-lock.json"])(
  "%s lists the packages of every platform",
  (path) => {
    const packages = readLock(path);
    const missing = Object.entries(packages).flatMap(([importer, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies).filter((name) => !isLocked(packages, importer, name)),
    );
    expect(missing, "add them to the lock file by name, version, cpu, os and libc").toEqual([]);
  },
);

test.for(["package-lock.json", "benchmarks/package-lock.json", "docs/package-lock.json"])(
  "%s names no registry",
  (path) => {
    const hosts = Object.values(readLock(path)).filter(({ resolved }) => resolved?.includes("://"));
    expect(hosts).toEqual([]);
  },
);

test.for<readonly [string, string | undefined]>([
  ["no file that runs", undefined],
  ["v26.1.0", "v26.1.0"],
])("test:node24 fails with a message if Node 24 is not installed: %s", ([got, version]) => {
  const root = mkdtempSync(join(tmpdir(), "node24-"));
  onTestFinished(() => rmSync(root, { recursive: true, force: true }));
  const script = join(root, "test/support/node24.ts");
  mkdirSync(dirname(script), { recursive: true });
  copyFileSync(fileURLToPath(new URL("../support/node24.ts", import.meta.url)), script);
  if (version !== undefined) {
    const node = join(root, ".ci/node24/node_modules/node/bin/node");
    mkdirSync(dirname(node), { recursive: true });
    writeFileSync(node, `#!/bin/sh\necho ${version}\n`);
    chmodSync(node, 0o755);
  }
  const { status, stderr } = spawnSync(process.execPath, [script, "run"], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining(`got ${got}. Run npm ci`) });
});
