// Extracts a Python tool's definition: the Python runtime runs its module once, in an unused process. The result is
// cached under a hash of the source and of the runtime.
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import type { ExtractedToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import { type ExtractionOptions, extractDefinition, parseDefinition } from "../executors/extract-definition.ts";
import { pythonPlacementOf } from "../executors/process-placement.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import { toDescribeRun } from "./python-run.ts";
import type { PythonSource } from "./python-source.ts";
import { type PythonTool, withRuntimeFeatures } from "./python-tool.ts";

/**
 * Code that the runtime gives to errors of the source itself. A guest that forges one only prevents its own tool from
 * being added.
 */
const SOURCE_FAULT = /^PYTHON_[A-Z_]{1,40}$/;

const MAX_LINE = 1_000;

function lineOf({ entry, code, files }: PythonSource, file: string, line: number): string | undefined {
  const text = file === entry ? code : Object.hasOwn(files, file) ? files[file] : undefined;
  return text?.split(/\r\n|[\n\r]/, line)[line - 1]?.slice(0, MAX_LINE);
}

/** Converts an error of the source to a bundler error with its source location. */
function toBundleError({ message, details, guestStack }: ToolError, source: PythonSource): ToolError {
  const { file, line, column, errorName } = details ?? {};
  const text = typeof errorName === "string" && errorName !== "Error" ? `${errorName}: ${message}` : message;
  const stack = guestStack === undefined ? {} : { guestStack };
  if (typeof file !== "string" || typeof line !== "number" || typeof column !== "number") {
    return new ToolError("BUNDLE_FAILED", text, { details: { problems: [{ message: text }] }, ...stack });
  }
  const place = { file, line, column };
  const lineText = lineOf(source, file, line);
  const problem = { message: text, ...place, ...(lineText === undefined ? {} : { lineText }) };
  return new ToolError("BUNDLE_FAILED", `${file}:${line}:${column}: ${text}`, {
    details: { problems: [problem], ...place },
    ...stack,
  });
}

export interface PythonExtraction {
  readonly source: PythonSource;
  readonly tool: PythonTool;
  readonly options: ExtractionOptions;
}

/** Profile of the tool's calls, but without capabilities: a module cannot call the host when it is loaded. */
function profileOf({ bundle }: PythonTool, { limits, features, coarseTime }: ExtractionOptions): WorkerToolProfile {
  return {
    sha256: bundle.sha256,
    isolateLifetime: "call",
    prewarm: true,
    limits,
    features: [...withRuntimeFeatures(features)],
    coarseTime,
    logSourceLocations: false,
    granted: [],
    denied: [],
  };
}

export class PythonDefinitionExtractor {
  readonly #pool: WorkerPool;
  readonly #cache: BundleCache;

  constructor(pool: WorkerPool, cache: BundleCache) {
    this.#pool = pool;
    this.#cache = cache;
  }

  /**
   * Returns the definition from the cache or by running the module.
   * @param runtimeKey properties of the runtime that a definition depends on
   * @throws {ToolError} BUNDLE_FAILED, TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT, SANDBOX_CRASHED, OVERLOADED
   */
  async extract(runtimeKey: string, extraction: PythonExtraction): Promise<ExtractedToolDefinition> {
    const { sha256 } = extraction.source;
    const cached = await this.#cache.getCodeCache(sha256, runtimeKey);
    if (cached !== undefined) {
      try {
        return parseDefinition(Buffer.from(cached).toString());
      } catch {
        // The entry was written by another version.
      }
    }
    const text = await this.#run(extraction);
    const definition = parseDefinition(text.toString());
    await this.#cache.setCodeCache(sha256, runtimeKey, text);
    return definition;
  }

  async #run({ source, tool, options }: PythonExtraction): Promise<Buffer> {
    const { sha256, entry } = source;
    const { owner, account, limits } = options;
    try {
      const [text] = await extractDefinition(this.#pool, {
        entry,
        options,
        stackMapper: tool.stackMapper,
        modules: tool.modules,
        job: {
          ...pythonPlacementOf(owner ?? `extract:${sha256}`, limits),
          // Not the id of the tenant. Only the top level of the module can see it: main() is not called.
          order: { type: "call", tool: profileOf(tool, options), callId: "describe", tenantId: account },
          bundle: { ...tool.bundle, codeCache: tool.codeCache, modules: tool.modules },
          input: toDescribeRun(source, limits),
        },
        toolKey: sha256,
        // The first Python process of a machine takes seconds to make the interpreter's snapshot.
        clockRunsFrom: "started",
      });
      return text;
    } catch (thrown) {
      const code = thrown instanceof ToolError ? thrown.details?.errorCode : undefined;
      if (typeof code === "string" && SOURCE_FAULT.test(code)) throw toBundleError(thrown as ToolError, source);
      throw thrown;
    }
  }
}
