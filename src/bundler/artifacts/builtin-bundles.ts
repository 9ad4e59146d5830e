// Loads the first-party tools that a host can add by name. The published package contains them as bundles because their dependencies are
// not installed there. A source checkout builds them from tools/.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { freezeBundle } from "../bundle-tool.ts";
import { Bundler } from "../bundler.ts";
import { type BundleCache, createBundleCache } from "../cache/bundle-cache.ts";
import type { ToolBundle } from "../tool-bundle.ts";

/** Folders of tools/ except `echo`, which is an example of how to write a tool. */
const BUNDLED_TOOL_NAMES = [
  "csv-stats",
  "http-get",
  "json-query",
  "markdown-to-html",
  "pdf-invoice",
  "run-js",
] as const;
export type BundledToolName = (typeof BUNDLED_TOOL_NAMES)[number];

/** All first-party tools. `python_exec` has no bundle: its source arrives with each call. */
export const BUILTIN_TOOL_NAMES = [...BUNDLED_TOOL_NAMES, "python_exec"] as const;
/** Name of a first-party tool, for the option `tools.builtinTools`. */
export type BuiltinToolName = (typeof BUILTIN_TOOL_NAMES)[number];

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
const RUNS_FROM_SOURCE = import.meta.url.endsWith(".ts");
const PACKED_FOLDER = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "tools");

async function build(names: readonly BundledToolName[], cache: BundleCache): Promise<readonly ToolBundle[]> {
  // The options that a host sets for its own tools do not apply here.
  await using bundler = new Bundler({ cache, root: ROOT });
  return await Promise.all(
    names.map(async (name) => (await bundler.bundle({ path: join(ROOT, "tools", name) })).bundle),
  );
}

/** Writes one JSON file per tool into `folder`. */
export async function writeBuiltinBundles(folder: string): Promise<void> {
  const bundles = await build(BUNDLED_TOOL_NAMES, createBundleCache());
  await mkdir(folder, { recursive: true });
  for (const [index, name] of BUNDLED_TOOL_NAMES.entries()) {
    await writeFile(join(folder, `${name}.json`), JSON.stringify(bundles[index]));
  }
}

/**
 * Returns the bundles in the order of `names`.
 * @param cache where a source checkout keeps the bundles that it has built
 * @throws {ToolError} INTERNAL when the installation is broken
 */
export async function loadBuiltinBundles(
  names: readonly BundledToolName[],
  cache: BundleCache,
): Promise<readonly ToolBundle[]> {
  try {
    if (RUNS_FROM_SOURCE) return await build(names, cache);
    return await Promise.all(
      names.map(async (name) =>
        freezeBundle(JSON.parse(await readFile(join(PACKED_FOLDER, `${name}.json`), "utf8")) as ToolBundle),
      ),
    );
  } catch (cause) {
    throw new ToolError("INTERNAL", "The first-party tools are missing or cannot be built. Reinstall Glovebox", {
      cause,
    });
  }
}
