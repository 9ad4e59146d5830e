// The first-party tools that a host can have by name. The published package carries them as bundles, since what they import is not
// installed there; a checkout builds them from tools/.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { freezeBundle } from "../bundle-tool.ts";
import { Bundler } from "../bundler.ts";
import { type BundleCache, createBundleCache } from "../cache/bundle-cache.ts";
import type { ToolBundle } from "../tool-bundle.ts";

/** Folders of tools/, but for `echo`, which shows how a tool is written. */
const BUNDLED_TOOL_NAMES = [
  "csv-stats",
  "http-get",
  "json-query",
  "markdown-to-html",
  "pdf-invoice",
  "run-js",
] as const;
export type BundledToolName = (typeof BUNDLED_TOOL_NAMES)[number];

/** With those that are no bundle: what `python_exec` runs comes with each call. */
export const BUILTIN_TOOL_NAMES = [...BUNDLED_TOOL_NAMES, "python_exec"] as const;
export type BuiltinToolName = (typeof BUILTIN_TOOL_NAMES)[number];

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const RUNS_FROM_SOURCE = import.meta.url.endsWith(".ts");
const PACKED = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "tools");

async function build(names: readonly BundledToolName[], cache: BundleCache): Promise<readonly ToolBundle[]> {
  // As we ship them, whatever a host lets its own tools import.
  await using bundler = new Bundler({ cache, root: ROOT });
  return await Promise.all(
    names.map(async (name) => (await bundler.bundle({ path: join(ROOT, "tools", name) })).bundle),
  );
}

/** One file for each into `folder`. */
export async function writeBuiltinBundles(folder: string): Promise<void> {
  const bundles = await build(BUNDLED_TOOL_NAMES, createBundleCache());
  await mkdir(folder, { recursive: true });
  for (const [index, name] of BUNDLED_TOOL_NAMES.entries()) {
    await writeFile(join(folder, `${name}.json`), JSON.stringify(bundles[index]));
  }
}

/**
 * In the order of their names. @throws {ToolError} INTERNAL when the installation is broken
 * @param cache where a checkout keeps what it has built
 */
export async function loadBuiltinBundles(
  names: readonly BundledToolName[],
  cache: BundleCache,
): Promise<readonly ToolBundle[]> {
  try {
    if (RUNS_FROM_SOURCE) return await build(names, cache);
    return await Promise.all(
      names.map(async (name) =>
        freezeBundle(JSON.parse(await readFile(join(PACKED, `${name}.json`), "utf8")) as ToolBundle),
      ),
    );
  } catch (cause) {
    throw new ToolError(
      "INTERNAL",
      "The tools that come with Glovebox are missing or cannot be built; install it again",
      {
        cause,
      },
    );
  }
}
