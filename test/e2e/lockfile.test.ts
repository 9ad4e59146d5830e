// `npm ci` installs only what the lock file lists, and fails if an optional package of any platform is missing from it. npm leaves out
// those that the registry in use does not have, so that the lock file must be checked.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

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
