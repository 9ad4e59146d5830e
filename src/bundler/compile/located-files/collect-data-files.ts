// Collects the data files that the packages of a tool and the tool itself read.
import { join } from "node:path";
import type { Metafile } from "esbuild";
import { loaderOf } from "../../locate/tool-paths.ts";
import { bundledFiles } from "../describe-build.ts";
import type { Build, RunEsbuild } from "../link-tool.ts";
import { DataFiles, type DataOwner } from "./data-files.ts";
import { packageOwner, toolOwner } from "./data-owners.ts";
import { mentionsLocation } from "./module-location.ts";

/** Returns the text of a module as JavaScript, without types and JSX, or undefined if it is invalid. */
async function toJavaScript(path: string, text: string, esbuild: RunEsbuild): Promise<string | undefined> {
  const loader = loaderOf(path);
  if (loader === "js" || loader === "json" || loader === undefined) return text;
  try {
    const { outputFiles } = await esbuild({
      stdin: { contents: text, loader },
      bundle: false,
      write: false,
      tsconfigRaw: {},
      logLevel: "silent",
    });
    return outputFiles?.[0]?.text;
  } catch {
    return undefined;
  }
}

/**
 * Collects the data files that the bundled packages and the tool itself read. The packages' code and all data together must not exceed
 * `packageBytes`.
 */
export async function collectDataFiles(
  build: Build,
  metafile: Metafile | undefined,
  esbuild: RunEsbuild,
): Promise<DataFiles> {
  const { request, store, files, policy, fileManifest } = build;
  const bundled = bundledFiles(build, metafile);
  const codeBytes = bundled.reduce((sum, [, bytes]) => sum + bytes, 0);
  const data = new DataFiles(request.limits.packageBytes - codeBytes);
  const add = async (owner: DataOwner | undefined, module: string, text: string | undefined) => {
    if (owner === undefined || text === undefined || !mentionsLocation(text)) return;
    const code = await toJavaScript(module, text, esbuild);
    if (code !== undefined) data.add(owner, module, code);
  };
  const tool = toolOwner(request.files, files);
  if (tool !== undefined)
    for (const path of [...policy.scanned].sort()) await add(tool, join(tool.folder, path), files.texts.get(path));
  for (const [path] of bundled) await add(packageOwner(store, path), path, policy.locatedTexts.get(path));
  fileManifest.checkBundled(codeBytes + data.bytes);
  return data;
}
