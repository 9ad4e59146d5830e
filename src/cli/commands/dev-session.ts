// One session of glovebox dev: builds and runs the tool, prints the outcome, waits for a change, and repeats. Errors are printed too.
import { statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { ToolInspection } from "../../host/config/tool-options.ts";
import type { ToolResult } from "../../host/contract/tool-call.ts";
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import type { InspectorHub } from "../../host/inspector/inspector-hub.ts";
import type { LogEntry } from "../../host/observability/call-log.ts";
import { ignoreOutcome } from "../../host/util/host-callback.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { CallFlags } from "../shared/call-options.ts";
import { readInput } from "../shared/input.ts";
import { printError, printLog, printOutput, printWarnings } from "../shared/print.ts";
import { createShowCode } from "../shared/source-lines.ts";
import { Watcher } from "../shared/watcher.ts";
import { styled } from "../terminal/output.ts";
import type { Io } from "../terminal/process-io.ts";
import { UsageError } from "../usage.ts";

export interface DevOptions extends Omit<CallFlags, "limits"> {
  readonly path: string;
  /** The inspector of its calls. */
  readonly hub?: InspectorHub | undefined;
}

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;

/** Returns the folder to watch: the tool's own, or the parent folder of a missing or unreadable tool. */
function folderOf(path: string): string {
  try {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return resolve(path);
  } catch {
    // The build reports the error.
  }
  return dirname(resolve(path));
}

export class DevSession {
  readonly #glovebox: Glovebox;
  readonly #options: DevOptions;
  readonly #io: Io;
  /** Source files of the last successful build. */
  #files: readonly string[] = [];
  #registered: string | undefined;
  #runs = 0;
  #call = new AbortController();
  #wake: () => void = () => {};
  #isAwake = false;
  #isStopped = false;

  constructor(glovebox: Glovebox, options: DevOptions, io: Io) {
    this.#glovebox = glovebox;
    this.#options = options;
    this.#io = io;
  }

  /** Runs the tool again. A running call is cancelled. */
  rerun(): void {
    this.#isAwake = true;
    this.#call.abort();
    this.#wake();
  }

  /** Ends the session and its running call. */
  stop(): void {
    this.#isStopped = true;
    this.rerun();
    // Ends a build or an evaluation of the top level that still runs.
    ignoreOutcome(() => this.#glovebox.close());
  }

  /** Resolves when the session was stopped. */
  async run(): Promise<void> {
    using watcher = new Watcher(() => this.rerun());
    // Watches the whole folder until a build knows the relevant files, so that changes during the build count.
    watcher.watch({ files: [], folder: folderOf(this.#options.path) }, new Map());
    while (!this.#isStopped) {
      this.#isAwake = false;
      this.#call = new AbortController();
      const before = watcher.snapshot();
      const isBuilt = await this.#runOnce();
      if (this.#isStopped) return;
      const { path, input } = this.#options;
      const files = [...this.#files, ...(input.file === undefined ? [] : [resolve(input.file)])];
      // The next run reads the files after a change that has stopped this one, so that it is not reported a second time.
      const known = this.#isAwake ? new Map() : before;
      watcher.watch({ files, ...(isBuilt ? {} : { folder: folderOf(path) }) }, known);
      await this.#waitForChange();
    }
  }

  #waitForChange(): Promise<void> {
    if (this.#isAwake) return Promise.resolve();
    this.#print("dim", `Waiting for changes${this.#io.stdin.isTTY ? "; r: run again, q: quit" : ""}`);
    return new Promise((done) => {
      this.#wake = done;
    });
  }

  /** Runs the tool once. Returns false if there is no bundle, so that the relevant files are not known. */
  async #runOnce(): Promise<boolean> {
    const { path, tenant } = this.#options;
    this.#runs += 1;
    this.#print("cyan", `${new Date().toTimeString().slice(0, 8)} ${path}`);
    let tool: ToolInspection | undefined;
    try {
      tool = await this.#glovebox.inspectTool({ path }, { ...tenant.scope, grant: this.#options.grant });
      this.#files = tool.files;
      printWarnings(tool.warnings, this.#io.stderr);
      this.#printResult(await this.#execute(tool), tool);
    } catch (thrown) {
      if (this.#isStopped) return false;
      // A file changed while the input was read.
      if (this.#call.signal.aborted) return tool !== undefined;
      if (thrown instanceof UsageError) this.#print("red", toVisibleLine(thrown.message));
      else if (thrown instanceof ToolError) {
        printError(thrown.toData(path), this.#io.stderr, createShowCode(path, tool?.bundle.sourceMap));
      } else throw thrown;
    }
    return tool !== undefined;
  }

  async #execute(tool: ToolInspection): Promise<ToolResult> {
    const { path, tenant, input, logSourceLocations, hub } = this.#options;
    const args = await readInput(input, tool.definition.inputSchema, this.#io, this.#call.signal);
    if (this.#registered !== undefined) this.#glovebox.removeTool(this.#registered, tenant.scope);
    const { name } = await this.#glovebox.addTool(
      { path, name: tool.definition.name },
      { ...tenant.scope, grant: this.#options.grant },
    );
    this.#registered = name;
    hub?.setSourceMap(tool.bundle.sourceMap);
    const onLog = (entry: LogEntry): void => {
      printLog(entry, this.#io.stderr);
      hub?.log(entry);
    };
    return await this.#glovebox.execute(
      { id: `dev-${this.#runs}`, toolName: name, arguments: args },
      { ...tenant.scope, logSourceLocations, signal: this.#call.signal, onLog },
    );
  }

  #printResult(result: ToolResult, tool: ToolInspection): void {
    if (this.#isStopped) return;
    const { path } = this.#options;
    const { usage } = result;
    if (result.success) printOutput(result, this.#io.stdout);
    // The user or a file change cancelled the call, so there is nothing to report.
    else if (result.error.code === "CANCELLED") return;
    else printError(result.error, this.#io.stderr, createShowCode(path, tool.bundle.sourceMap));
    if (usage.logsDropped > 0)
      this.#print("yellow", `${usage.logsDropped} log lines were dropped: the call's log was full`);
    const build = tool.cached ? "bundle cached" : `bundle ${ms(tool.bundleMs)}`;
    this.#print("dim", `${build}, start ${ms(usage.startMs)}, execute ${ms(usage.executeMs)}`);
  }

  #print(format: Parameters<typeof styled>[0], text: string): void {
    this.#io.stderr.print(styled(format, text), "\n");
  }
}
