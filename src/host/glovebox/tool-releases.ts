// Registers releases: several stored versions of a tool under one name, whose code is loaded when a version first runs.
import { createHash } from "node:crypto";
import * as z from "zod";
import { ownerOfTool } from "../../bundler/cache/artifact-owners.ts";
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import { createStackMapper } from "../../bundler/compile/source-map.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type ToolDefinition, ToolDefinitionSchema } from "../../sandbox/contract/definition.ts";
import { ToolError, type ToolErrorOptions } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { ISOLATE_LIFETIMES, type IsolateLifetime } from "../../sandbox/protocol/message-fields.ts";
import { parseOptions } from "../config/option-errors.ts";
import type { Config } from "../config/options.ts";
import type { ToolExecutor } from "../executors/executor.ts";
import type { DefinitionExtractor } from "../executors/extract-definition.ts";
import { createLazyExecutor } from "../executors/lazy-executor.ts";
import { createSandboxExecutor } from "../executors/sandbox.ts";
import { toCanonicalJson } from "../json/canonical-json.ts";
import { digestOfContent } from "../pipeline/tool-digest.ts";
import type { PythonHost } from "../python/python-host.ts";
import { locatePythonTool } from "../python/python-source.ts";
import { PYTHON_DEFAULT_LIMITS } from "../python/python-tool.ts";
import { toRegisteredTool } from "../routing/registered-tool.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import { ToolRelease, type WeightedVersion } from "../routing/tool-release.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { OpenSessions } from "../sessions/session-state.ts";
import { createSessionToolExecutor } from "../sessions/tool-sessions.ts";
import { runCallback } from "../util/host-callback.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { ToolExecutable } from "./tool-builder.ts";
import type { EnvironmentResolver, Grants } from "./tool-environment.ts";

/** The code of a stored version: the bundle of a JavaScript tool, or the files of a Python tool. */
export type StoredCode =
  | ToolBundle
  | { readonly files: { readonly [path: string]: string }; readonly entry?: string | undefined };

/** One version of a released tool, as the host has stored it. `inspectTool` returns its definition, code and hash. */
export interface ReleaseVersion {
  /** Name of the version, 1 to 128 characters. A call can name it in `context.toolVersion`, and its result contains it. */
  readonly version: string;
  /**
   * Share of the calls relative to the other versions, 0 to 1,000,000. A version with weight 0 runs only if a call names it.
   */
  readonly weight: number;
  /** Definition of the tool. Its name must be the name of the release. */
  readonly definition: ToolDefinition;
  /** `sha256` of the bundle. Loaded code with another hash is not run. */
  readonly sha256: string;
  /** Returns the code. Called when the version first runs; a call whose code cannot be loaded fails with INTERNAL. */
  readonly load: () => StoredCode | Promise<StoredCode>;
  /** @default "javascript" */
  readonly language?: "javascript" | "python" | undefined;
  /** Names of capabilities and engine features to grant. `log` is always granted. @default [] */
  readonly grant?: readonly string[] | undefined;
  /** Limits of this version. The author's limits in the definition can only lower them. */
  readonly limits?: PartialLimits | undefined;
  /** How long an isolate lives. Default: the option `isolateLifetime` of `createGlovebox`. */
  readonly isolateLifetime?: IsolateLifetime | undefined;
}

/** Longest time in ms that the host may take to load the code of a version. */
const LOAD_MS = 30_000;
const MAX_VERSIONS = 100;
const VersionNameSchema = z.string().min(1).max(128);
const ReleaseVersionSchema = strictObject({
  version: VersionNameSchema,
  weight: z.number().min(0).max(1_000_000),
  definition: ToolDefinitionSchema,
  sha256: z.string().regex(/^[0-9a-f]{64}$/, "Expected a SHA-256 in hexadecimal"),
  load: z.custom<ReleaseVersion["load"]>((value) => typeof value === "function", "Expected a function"),
  language: z.enum(["javascript", "python"]).default("javascript"),
  grant: z.array(z.string()).default([]),
  limits: PartialLimitsSchema.optional(),
  isolateLifetime: z.enum(ISOLATE_LIFETIMES).optional(),
});
type ParsedVersion = z.infer<typeof ReleaseVersionSchema>;
const ReleaseSchema = z
  .array(ReleaseVersionSchema)
  .min(1)
  .max(MAX_VERSIONS)
  .refine((versions) => new Set(versions.map(({ version }) => version)).size === versions.length, {
    error: "Expected versions with different names",
  });

/** @throws {ToolError} PARAM_INVALID */
export function parseReleaseVersions(toolName: string, versions: unknown): readonly ParsedVersion[] {
  const parsed = parseOptions(ReleaseSchema, versions, "versions");
  for (const [index, { definition }] of parsed.entries()) {
    if (definition.name === toolName) continue;
    const got = JSON.stringify(definition.name);
    throw new ToolError(
      "PARAM_INVALID",
      `versions.${index}.definition.name: Expected ${JSON.stringify(toolName)}, got ${got}`,
    );
  }
  return parsed;
}

export interface ToolReleasesDependencies {
  readonly config: Config;
  readonly router: ToolRouter;
  readonly environments: EnvironmentResolver;
  readonly extractor: DefinitionExtractor;
  readonly cache: Pick<BundleCache, "claim">;
  readonly pool: CallPool;
  readonly python: PythonHost;
  readonly openSessions: OpenSessions;
}

const isBundle = (code: StoredCode): code is ToolBundle => "code" in code && typeof code.code === "string";

export class ToolReleases {
  readonly #dependencies: ToolReleasesDependencies;
  /** Identifies equal versions, so that a new release keeps the executors, and with them the warm isolates, of those that it contains too. */
  readonly #keys = new WeakMap<RegisteredTool, string>();

  constructor(dependencies: ToolReleasesDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Registers a release, or replaces the one of this name in one step.
   * @throws {ToolError} as `Glovebox.setRelease`
   */
  set(toolName: string, versions: readonly ParsedVersion[], tenantId: string | undefined): void {
    const { router } = this.#dependencies;
    const found = router.registry.get(toolName, tenantId);
    const before = found?.tenantId === tenantId ? found : undefined;
    if (before !== undefined && before.release === undefined) {
      const rule = "Remove that tool first, or choose another name";
      throw new ToolError(
        "NAME_TAKEN",
        `The name ${JSON.stringify(toolName)} is taken by a tool that is not a release. ${rule}`,
      );
    }
    const weighted = versions.map((version): WeightedVersion => {
      const key = keyOf(version);
      const known = before?.release?.get(version.version);
      const isSame = known !== undefined && this.#keys.get(known) === key;
      const tool = isSame ? known : this.#toTool(version, tenantId);
      this.#keys.set(tool, key);
      return { version: version.version, weight: version.weight, tool };
    });
    const release = new ToolRelease(weighted);
    router.setRelease({ ...release.main, release, addedAt: before?.addedAt ?? Date.now() });
  }

  #toTool(version: ParsedVersion, tenantId: string | undefined): RegisteredTool {
    const { config, environments } = this.#dependencies;
    const { definition, sha256, grant, limits: hostLimits } = version;
    const isPython = version.language === "python";
    const granted = environments.grant(grant, {});
    const features = environments.featuresOf(granted.features, version.language);
    const grants = { granted: granted.granted, features };
    const source = isPython ? ("python" as const) : ("sandbox" as const);
    const isolateLifetime = version.isolateLifetime ?? config.isolateLifetime;
    const sourceId = `${source}:${definition.name}`;
    const executor = createLazyExecutor({ source, sourceId, wants: "text" }, () =>
      this.#load(version, grants, { tenantId, isolateLifetime, sourceId }),
    );
    return toRegisteredTool(definition, executor, {
      ...(tenantId === undefined ? {} : { tenantId }),
      ...(isPython ? { defaultLimits: PYTHON_DEFAULT_LIMITS } : {}),
      hostLimits,
      authorLimits: definition.limits,
      contentDigest: digestOfContent({
        bundle: { sha256 },
        python: isPython ? { toolKey: sha256 } : undefined,
        granted: grants.granted,
        features,
      }),
      contentHash: sha256,
      granted: [...granted.granted.keys(), ...granted.features].filter((name) => name !== "log").sort(),
    });
  }

  async #load(
    version: ParsedVersion,
    grants: Grants,
    placed: {
      readonly tenantId: string | undefined;
      readonly isolateLifetime: IsolateLifetime;
      readonly sourceId: string;
    },
  ): Promise<ToolExecutor> {
    const { pool, environments, openSessions } = this.#dependencies;
    const { definition } = version;
    const executable = await this.#executableOf(version, grants, placed.tenantId);
    const tool = {
      ...executable,
      ...environments.of(definition, grants, definition.capabilities ?? {}),
      isolateLifetime: placed.isolateLifetime,
      sourceId: placed.sourceId,
    };
    return placed.isolateLifetime === "session"
      ? createSessionToolExecutor(tool, definition.name, pool, openSessions)
      : createSandboxExecutor(tool, pool);
  }

  async #executableOf(
    { definition, version, load, language, sha256 }: ParsedVersion,
    { features }: Grants,
    tenantId: string | undefined,
  ): Promise<ToolExecutable> {
    const { cache, extractor, python } = this.#dependencies;
    const fail = (why: string, options: ToolErrorOptions = {}): ToolError =>
      new ToolError("INTERNAL", `Version ${version} of the tool ${JSON.stringify(definition.name)} ${why}`, options);
    const outcome = await runCallback(load, { timeoutMs: LOAD_MS });
    if ("failed" in outcome) {
      throw fail("could not be loaded", { details: { reason: "code_not_loaded" }, cause: outcome.cause });
    }
    const code = outcome.answer as StoredCode;
    if (typeof code !== "object" || code === null) throw fail("could not be loaded: load() returned no code");
    await cache.claim(ownerOfTool(tenantId), sha256);
    if (language === "python") {
      const source = isBundle(code) ? undefined : locatePythonTool(code, "python", Number.POSITIVE_INFINITY);
      if (source === undefined) throw fail("could not be loaded: load() returned no files");
      if (source.sha256 !== sha256) throw fail("could not be loaded: its files do not match its hash");
      return await python.toolOf(source);
    }
    if (!isBundle(code)) throw fail("could not be loaded: load() returned no bundle");
    if (createHash("sha256").update(code.code).digest("hex") !== sha256) {
      throw fail("could not be loaded: its bundle does not match its hash");
    }
    const known = await extractor.find(code, features);
    return { bundle: { sha256, code: code.code }, stackMapper: createStackMapper(code.sourceMap), ...known };
  }
}

/** Returns the same text for versions that run the same code with the same settings. */
function keyOf({ weight: _weight, load: _load, ...version }: ParsedVersion): string {
  return toCanonicalJson(JSON.parse(JSON.stringify(version)));
}
