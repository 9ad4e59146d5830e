// Python support of a host: loads the runtime of all Python tools when the first one is added, and provides what each
// tool's executor needs. A Glovebox instance without Python tools has no cost.
import type { ExtractedToolDefinition } from "../../sandbox/contract/definition.ts";
import type { ExtractionOptions } from "../executors/extract-definition.ts";
import type { PythonCalls } from "../executors/sandbox-tool.ts";
import type { PythonDefinitionExtractor } from "./extract-python-definition.ts";
import { createSessionRun, createToolRuns, SNIPPET_NAME, toSnippetRun } from "./python-run.ts";
import type { PythonSource } from "./python-source.ts";
import { createPythonStackMapper } from "./python-stack.ts";
import type { PythonRuntime, PythonTool } from "./python-tool.ts";

export interface PythonHostDependencies {
  readonly extractor: PythonDefinitionExtractor;
  /** Called once. From then on the pool keeps Python processes. */
  readonly loadRuntime: () => Promise<PythonRuntime>;
}

export class PythonHost {
  readonly #dependencies: PythonHostDependencies;
  #runtime: Promise<PythonRuntime> | undefined;

  constructor(dependencies: PythonHostDependencies) {
    this.#dependencies = dependencies;
  }

  /** Returns the executable of a tool with this source. The first call starts warm processes. */
  async toolOf(source: PythonSource): Promise<PythonTool> {
    const files = new Map([[source.entry, source.code], ...Object.entries(source.files)]);
    return await this.#toolOf(files, { toolKey: source.sha256, ...createToolRuns(source) });
  }

  /** Returns the executable of `python_exec`. */
  async snippetTool(): Promise<PythonTool> {
    return await this.#toolOf(new Map([[SNIPPET_NAME, undefined]]), { toolKey: "python_exec", toRun: toSnippetRun });
  }

  /**
   * Resolves when the caches that are made once on a machine are ready, so that no call waits for them.
   * @throws {ToolError} INTERNAL for a broken installation
   */
  async load(): Promise<void> {
    await this.#open();
  }

  /**
   * Returns the executable of one run of a session.
   * @param lane key of the session
   * @param fileNames files of its runs so far
   */
  async sessionRun(fileName: string, toolKey: string, fileNames: ReadonlyMap<string, undefined>): Promise<PythonTool> {
    return await this.#toolOf(fileNames, { toolKey, toRun: createSessionRun(fileName) });
  }

  async #toolOf(
    files: ReadonlyMap<string, string | undefined>,
    calls: Omit<PythonCalls, "environment" | "version">,
  ): Promise<PythonTool> {
    const { bundle, codeCache, modules, environment, version } = await this.#open();
    const python = { ...calls, environment, version };
    return { bundle, codeCache, modules, python, stackMapper: createPythonStackMapper(files) };
  }

  /** @throws {ToolError} INTERNAL for a broken installation */
  #open(): Promise<PythonRuntime> {
    this.#runtime ??= this.#dependencies.loadRuntime();
    return this.#runtime;
  }

  /**
   * Extracts a tool's definition.
   * @throws {ToolError} see `PythonDefinitionExtractor.extract`
   */
  async extractDefinition(
    source: PythonSource,
    tool: PythonTool,
    options: ExtractionOptions,
  ): Promise<ExtractedToolDefinition> {
    const { key } = await this.#open();
    return await this.#dependencies.extractor.extract(key, { source, tool, options });
  }
}
