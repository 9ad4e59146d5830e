// Helpers of the bundler's tests: temporary folders, a bundle run in a real isolate, and process counts.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import * as esbuild from "esbuild";
import ivm from "isolated-vm";
import { afterAll } from "vitest";
import { type BundleOptions, buildLocated, bundleTool } from "../../src/bundler/bundle-tool.ts";
import { compileTool } from "../../src/bundler/compile/compile-tool.ts";
import { locateTool } from "../../src/bundler/locate/tool-location.ts";
import {
  type BundleLimits,
  DEFAULT_BUNDLE_LIMITS,
  type ToolBundle,
  type ToolSource,
} from "../../src/bundler/tool-bundle.ts";
import { ToolError } from "../../src/sandbox/contract/errors.ts";
import { TOOL_SCRIPT_NAME } from "../../src/sandbox/protocol/guest-messages.ts";

export const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));

const folders: string[] = [];
// Tests run concurrently, so a folder is removed after all tests of the file.
afterAll(async () => {
  await esbuild.stop();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

/** Creates a folder with these files and returns its real path. It is removed after the tests. */
export function makeFolder(files: { readonly [path: string]: string } = {}): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "glovebox-bundler-")));
  folders.push(folder);
  writeFiles(folder, files);
  return folder;
}

export function writeFiles(folder: string, files: { readonly [path: string]: string }): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(resolve(folder, path)), { recursive: true });
    writeFileSync(resolve(folder, path), text);
  }
}

/** Returns the files of an npm package in a store. */
export function packageFiles(
  name: string,
  files: { readonly [path: string]: string },
  manifest: object = {},
): { [path: string]: string } {
  const fields = JSON.stringify({ name, version: "1.0.0", ...manifest });
  const paths = Object.entries({ "package.json": fields, ...files });
  return Object.fromEntries(paths.map(([path, text]) => [`node_modules/${name}/${path}`, text]));
}

export type BuildSettings = Omit<BundleOptions, "limits"> & { readonly limits?: Partial<BundleLimits> };

export async function build(source: ToolSource, settings: BuildSettings = {}): Promise<ToolBundle> {
  const limits = { ...DEFAULT_BUNDLE_LIMITS, timeoutMs: 200_000, ...settings.limits };
  return await bundleTool(source, { root: REPOSITORY, ...settings, limits });
}

/** Builds without a child process, whose start takes most of a build's time, for tests of the build itself. */
export async function buildHere(source: ToolSource, settings: BuildSettings = {}): Promise<ToolBundle> {
  const options = { root: REPOSITORY, ...settings, limits: { ...DEFAULT_BUNDLE_LIMITS, ...settings.limits } };
  const location = locateTool(source, options, options.limits);
  const { bundle } = await buildLocated(location, options, (request) => compileTool(request, esbuild.build));
  return bundle;
}

/** Returns the error of a build. Throws if the build succeeds. */
export async function failureOf(building: Promise<unknown>): Promise<ToolError> {
  const outcome = await building.then(
    (value) => new Error(`Expected a failure, got ${JSON.stringify(value).slice(0, 500)}`),
    (error: unknown) => error,
  );
  if (outcome instanceof ToolError) return outcome;
  throw outcome;
}

export interface Evaluated {
  readonly names: readonly string[];
  readonly value: unknown;
}

/** Runs a bundle as the sandbox does, in a bare isolate, and calls its default export if that is a function. */
export async function evaluate(bundle: ToolBundle): Promise<Evaluated> {
  const isolate = new ivm.Isolate({ memoryLimit: 64 });
  try {
    const context = await isolate.createContext();
    const script = await isolate.compileScript(bundle.code, { filename: TOOL_SCRIPT_NAME });
    const load = await script.run(context, { reference: true });
    await context.global.set("load", load.derefInto());
    const run = `(async () => {
      let registered;
      await load((namespace) => { registered = namespace; }, (chunk, name) => ({ builtin: name, chunk }));
      const main = registered.default;
      const value = typeof main === "function" ? await main({}) : typeof main?.execute === "function" ? await main.execute({}) : main;
      return JSON.stringify({ names: Object.keys(registered).sort(), value });
    })()`;
    return JSON.parse(await context.eval(run, { promise: true, copy: true, timeout: 60_000 })) as Evaluated;
  } finally {
    isolate.dispose();
  }
}

export async function resultOf(source: ToolSource, settings?: BuildSettings): Promise<unknown> {
  return (await evaluate(await buildHere(source, settings))).value;
}

/** Returns all processes below this one by walking /proc. */
export function descendants(): readonly number[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "utf8")
        .replace(/^.*\) /s, "")
        .split(" ");
      if (fields[0] !== "Z") parents.set(Number(name), Number(fields[1]));
    } catch {
      // The process ended in the meantime.
    }
  }
  const isBelow = (pid: number | undefined): boolean =>
    pid !== undefined && pid !== 0 && (pid === process.pid || isBelow(parents.get(pid)));
  return [...parents.keys()].filter((pid) => pid !== process.pid && isBelow(pid));
}

/** Returns the live processes of a process group. */
export function groupMembers(group: number): readonly number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .filter((entry) => {
      try {
        const fields = readFileSync(`/proc/${entry}/stat`, "utf8")
          .replace(/^.*\) /s, "")
          .split(" ");
        return Number(fields[2]) === group && fields[0] !== "Z";
      } catch {
        return false;
      }
    })
    .map(Number);
}
