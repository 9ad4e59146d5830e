// Builds the console and the page of one call for servers that run from source, and for the package, which gets copies.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = (path: string): string => fileURLToPath(new URL(`../../../${path}`, import.meta.url));
const cache = (path: string): string => root(`node_modules/.cache/glovebox/${path}`);

/** Where the configurations of Vite put what they build. */
export const CONSOLE_FOLDERS = { console: cache("console"), trace: cache("trace") } as const;
const CONFIGS = ["src/console/build/vite.config.ts", "src/console/trace/vite.config.ts"] as const;

/** Returns a hash that changes with every file that a build reads. */
export function stateOfSources(): string {
  const hash = createHash("sha256");
  for (const name of ["package.json", "package-lock.json"]) hash.update(readFileSync(root(name)));
  for (const entry of readdirSync(root("src"), { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = join(entry.parentPath, entry.name);
    const { size, mtimeMs } = statSync(file);
    hash.update(`${file}\0${size}\0${mtimeMs}\0`);
  }
  return hash.digest("hex");
}

const stampOf = (name: string): string => cache(`${name}-sources`);

/** Returns whether what was built last under this name is of these sources, and its files are there. */
export function isBuilt(name: "console" | "package", state: string, files: readonly string[]): boolean {
  const stamp = stampOf(name);
  return existsSync(stamp) && readFileSync(stamp, "utf8") === state && files.every((file) => existsSync(file));
}

/** @param state of the sources before the build, because they may have changed since then */
export function recordBuild(name: "console" | "package", state: string): void {
  mkdirSync(cache("."), { recursive: true });
  // A copy of the checkout whose files are hard links keeps its own state.
  rmSync(stampOf(name), { force: true });
  writeFileSync(stampOf(name), state);
}

/** Builds both into {@link CONSOLE_FOLDERS}, unless they are of the same sources. */
export function buildConsole(): void {
  const state = stateOfSources();
  if (isBuilt("console", state, Object.values(CONSOLE_FOLDERS))) return;
  for (const config of CONFIGS) {
    const args = ["build", "--config", root(config), "--logLevel", "warn"];
    execFileSync(process.execPath, [root("node_modules/vite/bin/vite.js"), ...args], {
      stdio: ["ignore", "ignore", "inherit"],
    });
  }
  recordBuild("console", state);
}
