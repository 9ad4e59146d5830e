// Python's part of a host: the runtime that every Python tool is run by, loaded when the first one comes, and what each tool's executor
// is made of. A box without Python pays nothing for it.
import type { LearnedDefinition } from "../../sandbox/contract/definition.ts";
import type { ExtractionOptions } from "../executors/extract-definition.ts";
import type { SandboxTool } from "../executors/sandbox.ts";
import type { PythonLearner } from "./extract-python-definition.ts";
import { createSessionRun, createToolRuns, SNIPPET_NAME, toSnippetRun } from "./python-run.ts";
import type { PythonSource } from "./python-source.ts";
import { createPythonStackMapper } from "./python-stack.ts";
import type { PythonRuntime, PythonTool } from "./python-tool.ts";

export interface PythonHostParts {
  readonly learner: PythonLearner;
  /** Called once; the pool has processes for Python from then on. */
  readonly loadRuntime: () => Promise<PythonRuntime>;
}

export class PythonHost {
  readonly #parts: PythonHostParts;
  #runtime: Promise<PythonRuntime> | undefined;

  constructor(parts: PythonHostParts) {
    this.#parts = parts;
  }

  /** What a tool of this source runs with. From the first one on processes are kept ready. */
  async toolOf(source: PythonSource): Promise<PythonTool> {
    const files = new Map([[source.entry, source.code], ...Object.entries(source.files)]);
    return await this.#toolOf(files, { lane: source.sha256, toRun: createToolRuns(source) });
  }

  /** What `python_exec` runs with. */
  async snippets(): Promise<PythonTool> {
    return await this.#toolOf(new Map([[SNIPPET_NAME, undefined]]), { lane: "python_exec", toRun: toSnippetRun });
  }

  /** Resolves when a call need not wait for what is made once on a machine. @throws {ToolError} INTERNAL for a broken installation */
  async load(): Promise<void> {
    await this.#open();
  }

  /** What one run of a session runs with; `lane` is the session's, `fileNames` are those of its runs so far. */
  async sessionRun(fileName: string, lane: string, fileNames: ReadonlyMap<string, undefined>): Promise<PythonTool> {
    return await this.#toolOf(fileNames, { lane, toRun: createSessionRun(fileName) });
  }

  async #toolOf(files: ReadonlyMap<string, string | undefined>, python: SandboxTool["python"]): Promise<PythonTool> {
    const { bundle, codeCache, chunks } = await this.#open();
    return { bundle, codeCache, chunks, python, stackMapper: createPythonStackMapper(files) };
  }

  /** @throws {ToolError} INTERNAL for a broken installation */
  #open(): Promise<PythonRuntime> {
    this.#runtime ??= this.#parts.loadRuntime();
    return this.#runtime;
  }

  /** @throws {ToolError} as `PythonLearner.learn` does */
  async learn(source: PythonSource, tool: PythonTool, learning: ExtractionOptions): Promise<LearnedDefinition> {
    const { key } = await this.#open();
    return await this.#parts.learner.learn(key, { source, tool, learning });
  }
}
