// Chooses the build of a package that has several. The default is the one for Node. The one for browsers is used if the build for Node
// needs modules that no tool has, such as sockets and processes.
import type { BuildOptions, Metafile } from "esbuild";
import { findBuiltin } from "../../sandbox/contract/node-builtins.ts";
import type { PackageMetadata } from "./package-store.ts";

/** Options with which esbuild resolves packages by default: `exports` with the conditions node, import or require, and default. */
export const NODE_ENTRY_POINTS = {
  platform: "neutral",
  mainFields: ["module", "main"],
  conditions: ["node"],
} as const satisfies BuildOptions;

/**
 * Options with which esbuild resolves packages that CommonJS code requires: `main` only. The file behind `module` has a default export where
 * that code expects the value of `module.exports`. Packages with `exports` choose by the kind of the import.
 */
export const COMMON_JS_ENTRY_POINTS = { ...NODE_ENTRY_POINTS, mainFields: ["main"] } as const satisfies BuildOptions;

/** Options with which esbuild resolves packages that use their browser build. */
export const BROWSER_ENTRY_POINTS = {
  platform: "browser",
  mainFields: ["browser", "module", "main"],
  conditions: ["worker", "browser"],
} as const satisfies BuildOptions;

/** Built-ins that fail in every tool. */
const FAILING_BUILTINS: ReadonlySet<string> = new Set([
  "child_process",
  "cluster",
  "dgram",
  "dns",
  "dns/promises",
  "http2",
  "net",
  "tls",
]);
/** Built-ins over fetch. A build for browsers may replace them, but they are no reason to choose it: its results differ from those in Node. */
const SLOWER_BUILTINS: ReadonlySet<string> = new Set(["http", "https"]);

/**
 * Packages whose build for Node works although they import a built-in that fails. The browser build is a stub that uses browser globals, throws, or
 * needs a page or XMLHttpRequest, or there is none. That of node-fetch 2 is the global fetch, whose bodies are not the streams and buffers that
 * its importers read. A client of the AWS SDK never reaches what fails in its handler and its credential provider.
 */
const NODE_ONLY: ReadonlySet<string> = new Set([
  "@aws-sdk/credential-provider-process",
  "@azure/data-tables",
  "@mapbox/mapbox-sdk",
  "@smithy/node-http-handler",
  "axios",
  "axios-cookiejar-support",
  "box-node-sdk",
  "cross-fetch",
  "form-data",
  "isomorphic-dompurify",
  "less",
  "node-fetch",
  "node-mailjet",
  "request",
  "superagent",
  "ws",
]);

/** Packages that load native code. What needs it fails in every tool, as with a failing built-in. */
const NATIVE_LOADERS: ReadonlySet<string> = new Set(["bindings", "node-gyp-build", "node-gyp-build-optional-packages"]);

/** What a build for browsers connects with instead of node:http. */
const CONNECTS =
  /\bfetch\s*\(|\b(?:globalThis|window|self|global)\.fetch\b|\btypeof fetch\b|\b(?:WebSocket|EventSource)\b/;
/** What a build for browsers connects with that no tool has. */
const NEEDS_PAGE = /\bXMLHttpRequest\b/;

/**
 * Packages whose build for Node uses `eval` or `Function`, and whose browser build does not. That of grammy does the same over fetch, in 158 KB
 * instead of 1,447 KB.
 */
const BROWSER_ONLY: ReadonlySet<string> = new Set(["depd", "grammy", "jsonpath"]);

/** Tells whether a build for browsers has a reason to replace this built-in: it fails in tools, or is made over fetch. */
export const isBetterReplaced = (builtin: string): boolean =>
  FAILING_BUILTINS.has(builtin) || SLOWER_BUILTINS.has(builtin);

interface PackageNeeds {
  readonly metadata: PackageMetadata;
  readonly dependencies: Set<string>;
  /** Whether its build for browsers is better here. */
  prefersBrowserBuild: boolean;
  /** Whether its build for Node cannot work. */
  failsInNodeBuild: boolean;
}

const hasOtherBuild = ({ metadata }: PackageNeeds): boolean =>
  metadata.hasBrowserBuild && !NODE_ONLY.has(metadata.name ?? "");

/** Collects the imports of the packages in the output, keyed by package folder. */
function collectNeeds(metafile: Metafile, packageOf: (input: string) => PackageMetadata | undefined) {
  const packages = new Map<string, PackageNeeds>();
  const inOutput = new Set(Object.values(metafile.outputs).flatMap(({ inputs }) => Object.keys(inputs)));
  for (const input of inOutput) {
    const metadata = packageOf(input);
    if (metadata === undefined) continue;
    const failsInNodeBuild = NATIVE_LOADERS.has(metadata.name ?? "");
    const prefersBrowserBuild = failsInNodeBuild || BROWSER_ONLY.has(metadata.name ?? "");
    const needs = packages.get(metadata.folder) ?? {
      metadata,
      dependencies: new Set(),
      prefersBrowserBuild,
      failsInNodeBuild,
    };
    packages.set(metadata.folder, needs);
    for (const { path } of metafile.inputs[input]?.imports ?? []) {
      const dependency = packageOf(path);
      if (dependency !== undefined) needs.dependencies.add(dependency.folder);
      const builtin = path.startsWith("node:") ? (findBuiltin(path) ?? "") : "";
      needs.failsInNodeBuild ||= FAILING_BUILTINS.has(builtin);
      needs.prefersBrowserBuild ||= needs.failsInNodeBuild;
    }
  }
  return packages;
}

/**
 * Tells whether the importers of a package use their browser builds, too: if it uses its own, which is written for those, or cannot work.
 */
function concernsImporters(needs: PackageNeeds | undefined): boolean {
  if (needs === undefined || NODE_ONLY.has(needs.metadata.name ?? "")) return false;
  return needs.prefersBrowserBuild && (needs.failsInNodeBuild || needs.metadata.hasBrowserBuild);
}

/**
 * Returns the folders of the packages in a finished link that use their browser build: they need one of these built-ins, or import a
 * package that has the same reason.
 * @param worse folders of packages whose build for browsers turned out to be worse, so that their importers need no other one either
 */
export function findBrowserPackages(
  metafile: Metafile,
  packageOf: (input: string) => PackageMetadata | undefined,
  worse: ReadonlySet<string> = new Set(),
): ReadonlySet<string> {
  const packages = collectNeeds(metafile, packageOf);
  for (let hasChanged = true; hasChanged; ) {
    hasChanged = false;
    for (const needs of packages.values()) {
      const before = [needs.prefersBrowserBuild, needs.failsInNodeBuild];
      const reasons = [...needs.dependencies.difference(worse)]
        .map((folder) => packages.get(folder))
        .filter(concernsImporters);
      needs.prefersBrowserBuild ||= reasons.length > 0;
      needs.failsInNodeBuild ||= reasons.some(
        (reason) => reason?.failsInNodeBuild === true && !reason.metadata.hasBrowserBuild,
      );
      hasChanged ||= before[0] !== needs.prefersBrowserBuild || before[1] !== needs.failsInNodeBuild;
    }
  }
  const found = [...packages.values()].filter((needs) => needs.prefersBrowserBuild && hasOtherBuild(needs));
  return new Set(found.map(({ metadata }) => metadata.folder));
}

/** Returns the inputs in the output of a link that belong to each package, keyed by package folder. */
function inputsByPackage(metafile: Metafile, packageOf: (input: string) => PackageMetadata | undefined) {
  const inputs = Object.values(metafile.outputs).flatMap((output) => Object.keys(output.inputs));
  return Map.groupBy(new Set(inputs), (input) => packageOf(input)?.folder);
}

/**
 * Returns the folders of packages whose build for browsers is worse than the one for Node: it connects with XMLHttpRequest only.
 * @param before link with the builds for Node of these packages
 * @param after link with their builds for browsers
 */
export function findWorseBuilds(
  folders: ReadonlySet<string>,
  [before, after]: readonly [Metafile, Metafile],
  packageOf: (input: string) => PackageMetadata | undefined,
  readText: (input: string) => string,
): ReadonlySet<string> {
  const needs = collectNeeds(before, packageOf);
  const needsAfter = collectNeeds(after, packageOf);
  const inputs = inputsByPackage(after, packageOf);
  const isWorse = (folder: string): boolean => {
    const { dependencies = new Set<string>(), metadata } = needs.get(folder) ?? {};
    if (BROWSER_ONLY.has(metadata?.name ?? "")) return false;
    const added = [...(needsAfter.get(folder)?.dependencies.difference(dependencies) ?? [])];
    const files = [folder, ...added].flatMap((each) => inputs.get(each) ?? []);
    // Data may contain any name, such as the EventSource of an API.
    const texts = files.filter((file) => !file.endsWith(".json")).map(readText);
    return !texts.some((text) => CONNECTS.test(text)) && texts.some((text) => NEEDS_PAGE.test(text));
  };
  return new Set([...folders].filter(isWorse));
}

/**
 * Returns the folders of the packages in a finished link that CommonJS code requires by name, and that were resolved to their `module`. All
 * importers of such a package use its build for CommonJS, so that it has one instance.
 */
export function findRequiredPackages(
  metafile: Metafile,
  packageOf: (input: string) => PackageMetadata | undefined,
): ReadonlySet<string> {
  const required = Object.values(metafile.inputs).flatMap(({ imports }) =>
    imports.flatMap(({ path, kind, original, external }) => {
      const isByName = original !== undefined && !/^[./]/.test(original);
      if (kind !== "require-call" || !isByName || external === true) return [];
      const metadata = metafile.inputs[path]?.format === "esm" ? packageOf(path) : undefined;
      return metadata?.hasModuleBuild === true ? metadata.folder : [];
    }),
  );
  return new Set(required);
}
