// Learns what a Python tool is: its module is run once by the Python runtime, in a process in which nothing has run before, and tells its
// definition. What it says is kept under a hash of the source and of the runtime, for whoever brings the same source.
import type { BundleCache } from "../../bundler/cache/bundle-cache.ts";
import type { LearnedDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type ExtractionOptions, extractDefinition, parseDefinition } from "../executors/extract-definition.ts";
import { pythonPlaceOf } from "../executors/sandbox.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { WorkerToolProfile } from "../workers/worker-process.ts";
import { toDescribeRun } from "./python-run.ts";
import type { PythonSource } from "./python-source.ts";
import { type PythonTool, withRuntimeFeatures } from "./python-tool.ts";

/** What the runtime gives errors of the source itself, which no call could do without. A guest that forges one says its tool cannot be had. */
const SOURCE_FAULT = /^PYTHON_[A-Z_]{1,40}$/;

const MAX_LINE = 1_000;

function lineOf({ entry, code, files }: PythonSource, file: string, line: number): string | undefined {
  const text = file === entry ? code : Object.hasOwn(files, file) ? files[file] : undefined;
  return text?.split(/\r\n|[\n\r]/, line)[line - 1]?.slice(0, MAX_LINE);
}

/** An error of the source, as an error of the bundler: with its place. */
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

export interface PythonLearning {
  readonly source: PythonSource;
  readonly tool: PythonTool;
  readonly learning: ExtractionOptions;
}

/** As its calls will have it, but for what they are granted: a module is nothing that asks a host for something. */
function profileOf({ bundle }: PythonTool, { limits, features, coarseTime }: ExtractionOptions): WorkerToolProfile {
  return {
    sha256: bundle.sha256,
    isolation: "call",
    prewarm: true,
    limits,
    features: [...withRuntimeFeatures(features)],
    coarseTime,
    logPlaces: false,
    granted: [],
    denied: [],
  };
}

export class PythonLearner {
  readonly #pool: WorkerPool;
  readonly #cache: BundleCache;

  constructor(pool: WorkerPool, cache: BundleCache) {
    this.#pool = pool;
    this.#cache = cache;
  }

  /**
   * @param runtimeKey what a definition depends on besides its source
   * @throws {ToolError} BUNDLE_FAILED, TOOL_FAILED, TOOL_TIMEOUT, MEMORY_LIMIT, CPU_LIMIT, SANDBOX_CRASHED, OVERLOADED
   */
  async learn(runtimeKey: string, asked: PythonLearning): Promise<LearnedDefinition> {
    const { sha256 } = asked.source;
    const known = await this.#cache.getCodeCache(sha256, runtimeKey);
    if (known !== undefined) {
      try {
        return parseDefinition(Buffer.from(known).toString());
      } catch {
        // Of another version's making.
      }
    }
    const text = await this.#run(asked);
    const definition = parseDefinition(text.toString());
    await this.#cache.setCodeCache(sha256, runtimeKey, text);
    return definition;
  }

  async #run({ source, tool, learning }: PythonLearning): Promise<Buffer> {
    const { sha256, entry } = source;
    const { owner, account, limits } = learning;
    try {
      const [text] = await extractDefinition(this.#pool, {
        ...{ entry, learning, stackMapper: tool.stackMapper },
        chunks: tool.chunks,
        job: {
          ...pythonPlaceOf(owner ?? `learn:${sha256}`, limits),
          order: { type: "call", tool: profileOf(tool, learning), callId: "describe", tenantId: account },
          bundle: { ...tool.bundle, codeCache: tool.codeCache, chunks: tool.chunks },
          input: toDescribeRun(source, limits),
        },
        lane: sha256,
        // The first process of a machine makes the interpreter's snapshot, for seconds.
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
