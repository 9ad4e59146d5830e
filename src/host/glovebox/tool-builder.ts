// Builds a tool from its source, in JavaScript or Python, and extracts its definition: everything that registering it takes. Does not
// register it.
import { basename, dirname, extname, resolve } from "node:path";
import type { Bundler } from "../../bundler/bundler.ts";
import { ownerOfTool } from "../../bundler/cache/artifact-owners.ts";
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import { createStackMapper } from "../../bundler/compile/source-map.ts";
import {
  type BundleLimits,
  DEFAULT_BUNDLE_LIMITS,
  type ToolBundle,
  type ToolSource,
} from "../../bundler/tool-bundle.ts";
import type { CapabilityRequests } from "../../sandbox/contract/capability-requests.ts";
import type { ExtractedToolDefinition, ToolDefinition } from "../../sandbox/contract/definition.ts";
import type { EngineFeature } from "../../sandbox/contract/engine-features.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS, type PartialLimits } from "../../sandbox/contract/limits.ts";
import { MISNAMED_SCHEMAS } from "../../sandbox/contract/schema-names.ts";
import { TOOL_NAME_PATTERN, TOOL_NAME_RULE } from "../../sandbox/contract/tool-name.ts";
import type { Config } from "../config/options.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import type { ToolInput } from "../config/tool-options.ts";
import type { DefinitionExtractor, ExtractionOptions } from "../executors/extract-definition.ts";
import type { SandboxTool } from "../executors/sandbox.ts";
import type { PythonHost } from "../python/python-host.ts";
import { locatePythonTool, type PythonSource, toPythonBundle } from "../python/python-source.ts";
import { PYTHON_DEFAULT_LIMITS, withRuntimeFeatures } from "../python/python-tool.ts";
import type { TenantPolicies, TenantPolicy } from "../tenants/tenant-policies.ts";

/** Data of a built tool that its registration needs. */
export interface BuildableRegistration {
  readonly definition: ToolDefinition;
  /** Probable mistakes of the tool's author. */
  readonly warnings?: readonly string[] | undefined;
  /** Capabilities that the author requests. */
  readonly requested?: CapabilityRequests | undefined;
  readonly authorLimits: PartialLimits | undefined;
  readonly executable: ToolExecutable;
}

/** The parts of a tool that a worker process runs. */
export type ToolExecutable = Pick<SandboxTool, "bundle" | "codeCache" | "modules" | "stackMapper" | "python">;

export interface BuiltTool extends BuildableRegistration {
  readonly warnings: readonly string[];
  readonly bundle: ToolBundle;
  readonly files: readonly string[];
  readonly bundleMs: number;
  readonly extractMs: number;
  readonly cached: boolean;
}

/** File names that say nothing about the tool: `{ path: "tools/add/tool.ts" }` is named after its folder. */
const GENERIC_FILE_NAMES = new Set(["tool", "index", "main"]);

function nameFromSource(source: ToolSource, bundle: ToolBundle): string {
  if ("source" in source) return `tool_${bundle.sha256.slice(0, 8)}`;
  const path = "path" in source ? resolve(source.path) : bundle.entry;
  const file = basename(path, extname(path));
  const name = GENERIC_FILE_NAMES.has(file) ? basename(dirname(path)) : file;
  return /[A-Za-z0-9]/.test(name) ? name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-") : `tool_${bundle.sha256.slice(0, 8)}`;
}

export interface ToolBuilderDependencies {
  readonly config: Config;
  readonly bundler: Bundler;
  readonly cache: Pick<BundleCache, "claim">;
  readonly extractor: DefinitionExtractor;
  readonly python: PythonHost;
  readonly tenants: TenantPolicies;
  /** Returns who keeps the worker process that extracts a definition; undefined for a tool of several tenants. */
  readonly ownerOf: (tenantId: string | undefined) => string | undefined;
  /** Returns the engine features of a JavaScript tool, given those granted to it by name. */
  readonly featuresOf: (granted: readonly EngineFeature[]) => readonly EngineFeature[];
  /** Throws if the operating system does not limit the memory of one of these features. */
  readonly checkFeatures: (features: readonly EngineFeature[]) => void;
  /** Throws once Glovebox is closed. */
  readonly throwIfClosed: () => void;
}

/** Whom a tool is built for, and the engine features granted to it. */
export interface BuildContext {
  readonly tenantId: string | undefined;
  /** Features that were granted by name. */
  readonly features: readonly EngineFeature[];
  /** Bundle to use instead of building the input's source. */
  readonly prebuilt?: ToolBundle | undefined;
}

/** A {@link BuildContext} with the tenant's policy. */
interface BuildWithPolicy extends Omit<BuildContext, "prebuilt"> {
  readonly policy: TenantPolicy;
}

export class ToolBuilder {
  readonly #dependencies: ToolBuilderDependencies;

  constructor(dependencies: ToolBuilderDependencies) {
    this.#dependencies = dependencies;
  }

  async #policyOf(tenantId: string | undefined): Promise<TenantPolicy> {
    const { tenants } = this.#dependencies;
    return tenantId === undefined ? tenants.default : await tenants.whenKnown(tenantId);
  }

  /** Returns how the definition is extracted. The process for a tool of several tenants belongs to none of them, and ends afterwards. */
  #extractionOptionsOf({ tenantId, policy, features }: BuildWithPolicy, isFirstParty: boolean): ExtractionOptions {
    const owner = this.#dependencies.ownerOf(tenantId);
    const { limits, weight, coarseTime } = policy;
    // First-party tools are known to terminate, however busy the machine is, so they get the longest timeouts.
    const own = isFirstParty ? { ...limits, timeoutMs: LIMITS.timeoutMs.max, cpuMs: LIMITS.cpuMs.max } : limits;
    // Builds have their own account in the queue, so that they and the tenant's calls do not use up each other's concurrency slots.
    const account = tenantId === undefined ? "" : `build\n${tenantId}`;
    return { owner, account, weight, limits: own, features, coarseTime };
  }

  /** Returns the lowest configured limits for the source and its bundle. The bundler adds its own defaults. */
  #sizeLimits(policy: TenantPolicy, toolLimits: PartialLimits | undefined): Partial<BundleLimits> {
    const configured = [this.#dependencies.config.limits, policy.configuredLimits, toolLimits];
    const lowest = (name: "sourceBytes" | "bundleBytes"): number =>
      Math.min(...configured.map((limits) => limits?.[name] ?? Number.POSITIVE_INFINITY));
    return { sourceBytes: lowest("sourceBytes"), outputBytes: lowest("bundleBytes") };
  }

  /** @throws {ToolError} as `Glovebox.addTool` does */
  async build(input: ToolInput, { tenantId, features, prebuilt }: BuildContext): Promise<BuiltTool> {
    const { name: _name, defaultName: _defaultName, overrides, language, ...source } = input;
    if ("mode" in source && source.mode === "script" && language !== undefined && language !== "javascript") {
      throw new ToolError(
        "PARAM_INVALID",
        `A script (mode: "script") is JavaScript, got the language ${JSON.stringify(language)}`,
      );
    }
    const policy = await this.#policyOf(tenantId);
    const build = { tenantId, policy, features };
    // The bundle is written to the cache while the definition is extracted.
    let stored: Promise<void> | undefined;
    const onStoring = (write: Promise<void>): void => {
      stored = write;
    };
    const sizes = this.#sizeLimits(policy, overrides?.limits);
    const python = locatePythonTool(source, language, this.#pythonSourceBytes(sizes));
    if (python !== undefined) return await this.#buildPython(input, python, build);
    const { bundle, durationMs, cached, files } =
      prebuilt === undefined
        ? await this.#dependencies.bundler.bundle(source, { limits: sizes, owner: ownerOfTool(tenantId), onStoring })
        : { bundle: prebuilt, durationMs: 0, cached: true, files: [] };
    const bundled = performance.now();
    const fullBuild = { ...build, features: this.#dependencies.featuresOf(features) };
    const extraction = this.#extractionOptionsOf(fullBuild, prebuilt !== undefined);
    const stackMapper = createStackMapper(bundle.sourceMap);
    const extracted = await this.#unlessClosed(this.#dependencies.extractor.extract(bundle, stackMapper, extraction));
    await stored;
    const { definition } = extracted;
    const executable = { bundle, stackMapper, codeCache: extracted.codeCache, modules: extracted.modules };
    const extractMs = performance.now() - bundled;
    const completed = toDefinition(input, definition, bundle);
    const warnings = schemaWarnings(definition, overrides, "inputSchema", "outputSchema");
    const { capabilities: requested, limits: authorLimits } = definition;
    return {
      definition: completed,
      warnings,
      requested,
      authorLimits,
      bundle,
      executable,
      bundleMs: durationMs,
      extractMs,
      cached,
      files,
    };
  }

  /** Reports that Glovebox was closed if that is why the process ended. */
  async #unlessClosed<Value>(extracted: Promise<Value>): Promise<Value> {
    try {
      return await extracted;
    } catch (thrown) {
      this.#dependencies.throwIfClosed();
      throw thrown;
    }
  }

  #pythonSourceBytes({ sourceBytes = Number.POSITIVE_INFINITY }: Partial<BundleLimits>): number {
    return Math.min(
      sourceBytes,
      this.#dependencies.config.bundler.limits?.sourceBytes ?? DEFAULT_BUNDLE_LIMITS.sourceBytes,
    );
  }

  async #buildPython(input: ToolInput, source: PythonSource, build: BuildWithPolicy): Promise<BuiltTool> {
    const began = performance.now();
    this.#dependencies.checkFeatures(withRuntimeFeatures([]));
    const bundle = toPythonBundle(source);
    await this.#dependencies.cache.claim(ownerOfTool(build.tenantId), bundle.sha256);
    const executable = await this.#dependencies.python.toolOf(source);
    const { configuredLimits } = build.policy;
    const limits = resolveLimits(
      [this.#dependencies.config.limits, configuredLimits],
      undefined,
      PYTHON_DEFAULT_LIMITS,
    );
    const extraction = { ...this.#extractionOptionsOf(build, false), limits };
    const extracted = await this.#unlessClosed(
      this.#dependencies.python.extractDefinition(source, executable, extraction),
    );
    const definition = toDefinition(input, extracted, bundle);
    const { capabilities: requested, limits: authorLimits } = extracted;
    const extractMs = performance.now() - began;
    const warnings = schemaWarnings(extracted, input.overrides, "input_schema", "output_schema");
    return {
      definition,
      warnings,
      requested,
      authorLimits,
      bundle,
      executable,
      bundleMs: 0,
      extractMs,
      cached: false,
      files: source.paths,
    };
  }
}

/**
 * Merges the extracted definition with the host's overrides.
 * @throws {ToolError} PARAM_INVALID for an invalid name
 */
function toDefinition(
  input: ToolInput,
  { misnamed: _misnamed, ...extracted }: ExtractedToolDefinition,
  bundle: ToolBundle,
): ToolDefinition {
  const { name, defaultName, overrides, language: _language, ...source } = input;
  const chosen = name ?? overrides?.name ?? extracted.name ?? defaultName ?? nameFromSource(source, bundle);
  if (!TOOL_NAME_PATTERN.test(chosen)) {
    throw new ToolError(
      "PARAM_INVALID",
      `Expected a tool name of ${TOOL_NAME_RULE}, got ${JSON.stringify(chosen.slice(0, 200))}`,
    );
  }
  const replaced = Object.entries(overrides ?? {}).filter(([, value]) => value !== undefined);
  return { ...extracted, ...Object.fromEntries(replaced), name: chosen } as ToolDefinition;
}

/** Returns a warning for each schema that the tool exports under a name that is not read, unless the host overrides that schema. */
function schemaWarnings(
  { misnamed = [] }: ExtractedToolDefinition,
  overrides: ToolInput["overrides"],
  inputName: string,
  outputName: string,
): readonly string[] {
  return misnamed.flatMap((name) => {
    const meant = MISNAMED_SCHEMAS[name.toLowerCase()];
    if (overrides?.[meant ?? "inputSchema"] !== undefined) return [];
    if (meant === undefined) {
      return [
        `The tool exports ${JSON.stringify(name)}, a definition in the form of another framework, which is ignored, so its input is not validated. Export its parameters as "${inputName}" and its description as "description"`,
      ];
    }
    const [what, right] = meant === "inputSchema" ? ["input", inputName] : ["output", outputName];
    return [
      `The tool exports ${JSON.stringify(name)}, which is ignored, so its ${what} is not validated. Export the schema as "${right}"`,
    ];
  });
}
