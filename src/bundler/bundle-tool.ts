// Turns a tool's source into an immutable, content-addressed ToolBundle, built in a child process that can be killed. bundler.ts adds the
// cache.
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { ToolError } from "../sandbox/contract/errors.ts";
import { CELL_VERSION } from "./cells/cell.ts";
import { runBuild } from "./compile/child/build-child.ts";
import type {
  BuildDependency,
  BuildIssue,
  BuildRequest,
  BuildResponse,
  BuildSuccess,
} from "./compile/child/build-messages.ts";
import { locateTool, type StoreOptions, type ToolLocation } from "./locate/tool-location.ts";
import type { BundleLimits, CellLanguage, ToolBundle, ToolSource } from "./tool-bundle.ts";

export interface BundleOptions extends StoreOptions {
  /** Names of the packages that the tool itself may import, together with their dependencies. @default every package of the store */
  readonly allowPackages?: readonly string[] | undefined;
  readonly limits: BundleLimits;
  /** Language of a session cell. The source is then the text of that cell, in memory. */
  readonly cell?: CellLanguage | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A bundle together with all files that it was built from. A cache uses them to decide whether the bundle is still valid. */
export interface BuiltBundle {
  readonly bundle: ToolBundle;
  readonly dependencies: readonly BuildDependency[];
  readonly absent: readonly string[];
}

/** Number of issues that the message lists. `details.problems` lists all of them. */
const ISSUES_IN_MESSAGE = 3;

function formatIssue({ file, line, column, message, hint }: BuildIssue): string {
  const location = file === undefined ? "" : `${[file, line, column].filter((part) => part !== undefined).join(":")}: `;
  return `${location}${message}${hint === undefined ? "" : `; ${hint}`}`;
}

function toToolError(issues: readonly BuildIssue[]): ToolError {
  const lines = issues.slice(0, ISSUES_IN_MESSAGE).map(formatIssue);
  const left = issues.length - lines.length;
  const message = [...lines, ...(left > 0 ? [`and ${left} more`] : [])].join("\n");
  const plain = issues.map((issue) => {
    const entries = Object.entries(issue).filter((entry): entry is [string, string | number] => entry[1] !== undefined);
    return Object.fromEntries(entries);
  });
  const [first] = issues.filter(({ file }) => file !== undefined);
  const { file, line, column } = first ?? {};
  return new ToolError("BUNDLE_FAILED", message, {
    details: {
      problems: plain,
      ...(file === undefined ? {} : { file }),
      ...(line === undefined ? {} : { line }),
      ...(column === undefined ? {} : { column }),
    },
  });
}

/** Freezes a bundle, so that no receiver can change it for the next one. */
export function freezeBundle(bundle: ToolBundle): ToolBundle {
  for (const part of [bundle.exports, bundle.packages, bundle.dynamicCode, ...bundle.inputs, bundle.inputs])
    Object.freeze(part);
  return Object.freeze(bundle);
}

function toBundle(built: BuildSuccess, entry: string): ToolBundle {
  const { code, sourceMap, exports, inputs, packages, dynamicCode } = built;
  const sha256 = createHash("sha256").update(code).digest("hex");
  return freezeBundle({ sha256, code, sourceMap, entry, exports, inputs, packages, dynamicCode });
}

/** The file behind `glovebox/tool`, as `.ts` source or built `.js`. */
const GUEST_MODULE = fileURLToPath(
  new URL(`../sandbox/guest/tool.${import.meta.url.endsWith(".ts") ? "ts" : "js"}`, import.meta.url),
);

export function toBuildRequest(location: ToolLocation, options: BundleOptions): BuildRequest {
  return {
    files: location.files,
    entry: location.entry,
    stores: location.stores,
    linked: location.linked,
    ...(location.isScript ? { isScript: true } : {}),
    ...(location.maySetMode ? { maySetMode: true } : {}),
    allowPackages: options.allowPackages ?? null,
    limits: options.limits,
    guestModule: GUEST_MODULE,
    ...(options.cell === undefined ? {} : { cell: { language: options.cell, version: CELL_VERSION } }),
  };
}

/** Runs a build request: in a child process, or in the same process in tests. */
export type RunBuild = (request: BuildRequest, signal?: AbortSignal) => Promise<BuildResponse>;

/** @throws {ToolError} BUNDLE_FAILED, CANCELLED */
export async function buildLocated(
  location: ToolLocation,
  options: BundleOptions,
  run: RunBuild = runBuild,
): Promise<BuiltBundle> {
  const response = await run(toBuildRequest(location, options), options.signal);
  if (!response.ok) throw toToolError(response.problems);
  return {
    bundle: toBundle(response, location.entry),
    dependencies: response.dependencies,
    absent: [...location.absent, ...response.absent],
  };
}

/**
 * Builds a tool. On failure `details.problems` lists each problem as `{ file, line, column, message, lineText, hint }`.
 * @throws {ToolError} BUNDLE_FAILED when the source cannot be built within the policy and the limits; CANCELLED
 */
export async function bundleTool(source: ToolSource, options: BundleOptions): Promise<ToolBundle> {
  const { bundle } = await buildLocated(locateTool(source, options, options.limits), options);
  return bundle;
}
