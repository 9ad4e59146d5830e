// From a tool's source to all that is needed to register it: built and learned, in whichever language it is. Registers nothing.
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
import {
  type CapabilityRequests,
  type LearnedDefinition,
  TOOL_NAME_PATTERN,
  TOOL_NAME_RULE,
  type ToolDefinition,
} from "../../sandbox/contract/definition.ts";
import type { EngineFeature } from "../../sandbox/contract/engine-features.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { LIMITS, type PartialLimits } from "../../sandbox/contract/limits.ts";
import { MISNAMED_SCHEMAS } from "../../sandbox/contract/schema-names.ts";
import type { Config, ToolInput } from "../config/options.ts";
import { resolveLimits } from "../config/resolve-limits.ts";
import type { ExtractionOptions, Learner } from "../executors/extract-definition.ts";
import type { SandboxTool } from "../executors/sandbox.ts";
import type { PythonHost } from "../python/python-host.ts";
import { locatePythonTool, type PythonSource, toPythonBundle } from "../python/python-source.ts";
import { PYTHON_DEFAULT_LIMITS, withRuntimeFeatures } from "../python/python-tool.ts";
import type { TenantPolicies, TenantPolicy } from "../tenants/tenant-policies.ts";

/** A tool as far as it has to be known to be registered. */
export interface BuildableRegistration {
  readonly definition: ToolDefinition;
  /** What is probably a mistake of its author's. */
  readonly warnings?: readonly string[] | undefined;
  /** What its author asks for, and states for it. */
  readonly asked?: CapabilityRequests | undefined;
  readonly authorLimits: PartialLimits | undefined;
  readonly runs: ToolExecutable;
}

/** What of a tool is run. */
export type ToolExecutable = Pick<SandboxTool, "bundle" | "codeCache" | "chunks" | "stackMapper" | "python">;

export interface BuiltTool extends BuildableRegistration {
  readonly warnings: readonly string[];
  readonly bundle: ToolBundle;
  readonly files: readonly string[];
  readonly bundleMs: number;
  readonly learnMs: number;
  readonly cached: boolean;
}

/** `{ path: "tools/add/tool.ts" }` is named after its folder when the file's own name says nothing. */
const GENERIC_FILE_NAMES = new Set(["tool", "index", "main"]);

function nameFromSource(source: ToolSource, bundle: ToolBundle): string {
  if ("source" in source) return `tool_${bundle.sha256.slice(0, 8)}`;
  const path = "path" in source ? resolve(source.path) : bundle.entry;
  const file = basename(path, extname(path));
  const name = GENERIC_FILE_NAMES.has(file) ? basename(dirname(path)) : file;
  return /[A-Za-z0-9]/.test(name) ? name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-") : `tool_${bundle.sha256.slice(0, 8)}`;
}

export interface ToolBuilderParts {
  readonly config: Config;
  readonly bundler: Bundler;
  readonly cache: Pick<BundleCache, "claim">;
  readonly learner: Learner;
  readonly python: PythonHost;
  readonly tenants: TenantPolicies;
  /** Whose process learns a tenant's tool. */
  readonly ownerOf: (tenantId: string) => string;
  /** Features of a tool in JavaScript, given those that were granted to it. */
  readonly featuresOf: (granted: readonly EngineFeature[]) => readonly EngineFeature[];
  /** Throws where the operating system does not limit what these pass. */
  readonly refuseUnlimited: (features: readonly EngineFeature[]) => void;
  /** Throws once the host is closed. */
  readonly refuseWhenClosed: () => void;
}

/** For whom a tool is built, and with what of the engine. */
export interface BuildContext {
  readonly tenantId: string | undefined;
  /** Those that were granted by name. */
  readonly features: readonly EngineFeature[];
  /** What is learned in the place of the input's own source. */
  readonly prebuilt?: ToolBundle | undefined;
}

/** The same, with the policy of the tenant. */
interface Build extends Omit<BuildContext, "prebuilt"> {
  readonly policy: TenantPolicy;
}

export class ToolBuilder {
  readonly #parts: ToolBuilderParts;

  constructor(parts: ToolBuilderParts) {
    this.#parts = parts;
  }

  async #policyOf(tenantId: string | undefined): Promise<TenantPolicy> {
    const { tenants } = this.#parts;
    return tenantId === undefined ? tenants.default : await tenants.whenKnown(tenantId);
  }

  /** A global tool's process serves no tenant: it learns, and is ended. */
  #learningFor({ tenantId, policy, features }: Build, isOurs: boolean): ExtractionOptions {
    const owner = tenantId === undefined ? undefined : this.#parts.ownerOf(tenantId);
    const { limits, weight, coarseTime } = policy;
    // What comes with Glovebox is known to end, on however busy a machine.
    const own = isOurs ? { ...limits, timeoutMs: LIMITS.timeoutMs.max, cpuMs: LIMITS.cpuMs.max } : limits;
    // An account of its own: where all of the tenant's slots are taken, a build fails no call, and no call the build.
    const account = tenantId === undefined ? "" : `build\n${tenantId}`;
    return { owner, account, weight, limits: own, features, coarseTime };
  }

  /** Of those that are stated for the source and its bundle, the lowest; the bundler has defaults of its own. */
  #sizeLimits(policy: TenantPolicy, toolLimits: PartialLimits | undefined): Partial<BundleLimits> {
    const stated = [this.#parts.config.limits, policy.stated, toolLimits];
    const lowest = (name: "sourceBytes" | "bundleBytes"): number =>
      Math.min(...stated.map((limits) => limits?.[name] ?? Number.POSITIVE_INFINITY));
    return { sourceBytes: lowest("sourceBytes"), outputBytes: lowest("bundleBytes") };
  }

  /** @throws {ToolError} as `Glovebox.addTool` does */
  async build(input: ToolInput, { tenantId, features, prebuilt }: BuildContext): Promise<BuiltTool> {
    const { name, definition: overrides, language, ...source } = input;
    if ("mode" in source && source.mode === "script" && language !== undefined && language !== "javascript") {
      throw new ToolError(
        "PARAM_INVALID",
        `A script (mode: "script") is JavaScript, got the language ${JSON.stringify(language)}`,
      );
    }
    const policy = await this.#policyOf(tenantId);
    const build = { tenantId, policy, features };
    const sizes = this.#sizeLimits(policy, overrides?.limits);
    const python = locatePythonTool(source, language, this.#pythonSourceBytes(sizes));
    if (python !== undefined) return await this.#buildPython(input, python, build);
    const { bundle, durationMs, cached, files } =
      prebuilt === undefined
        ? await this.#parts.bundler.bundle(source, { limits: sizes, owner: ownerOfTool(tenantId) })
        : { bundle: prebuilt, durationMs: 0, cached: true, files: [] };
    const bundled = performance.now();
    const whole = { ...build, features: this.#parts.featuresOf(features) };
    const learning = this.#learningFor(whole, prebuilt !== undefined);
    const stackMapper = createStackMapper(bundle.sourceMap);
    const learned = await this.#unlessClosed(this.#parts.learner.learn(bundle, stackMapper, learning));
    const { definition } = learned;
    const runs = { bundle, stackMapper, codeCache: learned.codeCache, chunks: learned.chunks };
    const learnMs = performance.now() - bundled;
    const completed = toDefinition(input, definition, bundle);
    const warnings = schemaWarnings(definition, overrides, "inputSchema", "outputSchema");
    const { capabilities: asked, limits: authorLimits } = definition;
    return {
      definition: completed,
      warnings,
      asked,
      authorLimits,
      bundle,
      runs,
      bundleMs: durationMs,
      learnMs,
      cached,
      files,
    };
  }

  /** Its process was ended because all of them were: that is what to say. */
  async #unlessClosed<Value>(learned: Promise<Value>): Promise<Value> {
    try {
      return await learned;
    } catch (thrown) {
      this.#parts.refuseWhenClosed();
      throw thrown;
    }
  }

  #pythonSourceBytes({ sourceBytes = Number.POSITIVE_INFINITY }: Partial<BundleLimits>): number {
    return Math.min(sourceBytes, this.#parts.config.bundler.limits?.sourceBytes ?? DEFAULT_BUNDLE_LIMITS.sourceBytes);
  }

  async #buildPython(input: ToolInput, source: PythonSource, build: Build): Promise<BuiltTool> {
    const began = performance.now();
    this.#parts.refuseUnlimited(withRuntimeFeatures([]));
    const bundle = toPythonBundle(source);
    await this.#parts.cache.claim(ownerOfTool(build.tenantId), bundle.sha256);
    const runs = await this.#parts.python.toolOf(source);
    const { stated } = build.policy;
    const limits = resolveLimits([this.#parts.config.limits, stated], undefined, PYTHON_DEFAULT_LIMITS);
    const learning = { ...this.#learningFor(build, false), limits };
    const learned = await this.#unlessClosed(this.#parts.python.learn(source, runs, learning));
    const definition = toDefinition(input, learned, bundle);
    const { capabilities: asked, limits: authorLimits } = learned;
    const learnMs = performance.now() - began;
    const warnings = schemaWarnings(learned, input.definition, "input_schema", "output_schema");
    return {
      definition,
      warnings,
      asked,
      authorLimits,
      bundle,
      runs,
      bundleMs: 0,
      learnMs,
      cached: false,
      files: source.paths,
    };
  }
}

/** What its source tells of it, and what the host states in its place. @throws {ToolError} PARAM_INVALID for a name that is none */
function toDefinition(
  input: ToolInput,
  { misnamed: _misnamed, ...learned }: LearnedDefinition,
  bundle: ToolBundle,
): ToolDefinition {
  const { name, definition: overrides, language: _language, ...source } = input;
  const chosen = overrides?.name ?? learned.name ?? name ?? nameFromSource(source, bundle);
  if (!TOOL_NAME_PATTERN.test(chosen)) {
    throw new ToolError(
      "PARAM_INVALID",
      `Expected a tool name of ${TOOL_NAME_RULE}, got ${JSON.stringify(chosen.slice(0, 200))}`,
    );
  }
  const stated = Object.entries(overrides ?? {}).filter(([, value]) => value !== undefined);
  return { ...learned, ...Object.fromEntries(stated), name: chosen } as ToolDefinition;
}

/** What a tool's author has called by a name that is not read, with the right one. A schema of the host's takes its place anyway. */
function schemaWarnings(
  { misnamed = [] }: LearnedDefinition,
  overrides: ToolInput["definition"],
  inputName: string,
  outputName: string,
): readonly string[] {
  return misnamed.flatMap((name) => {
    const meant = MISNAMED_SCHEMAS[name.toLowerCase()];
    if (meant === undefined || overrides?.[meant] !== undefined) return [];
    const [what, right] = meant === "inputSchema" ? ["input", inputName] : ["output", outputName];
    return [
      `The tool exports ${JSON.stringify(name)}, which is not read: its ${what} is not validated by it. Export the schema as "${right}"`,
    ];
  });
}
