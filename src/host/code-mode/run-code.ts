// The tool run_code: checks code against the types of the tools, compiles it, and runs it in a fresh isolate whose only capabilities are the
// tools that the code may call, its stored values, and the waits of a durable run.
import type { Bundler } from "../../bundler/bundler.ts";
import { tenantOwner } from "../../bundler/cache/artifact-owners.ts";
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type JsonValue, ToolError, toToolError, unavailable } from "../../sandbox/contract/errors.ts";
import type { Capability } from "../capabilities/capability.ts";
import { createClientRequestCapabilities } from "../capabilities/client-requests.ts";
import { logCapability } from "../capabilities/log.ts";
import { canElicit } from "../contract/client-requests.ts";
import { NO_USAGE, type ToolUsage } from "../contract/tool-call.ts";
import type { Execution } from "../executors/execution.ts";
import type { ToolExecutor } from "../executors/executor.ts";
import { createSandboxExecutor } from "../executors/sandbox.ts";
import type { ToolExecutable } from "../glovebox/tool-builder.ts";
import type { EnvironmentResolver, ToolEnvironment } from "../glovebox/tool-environment.ts";
import type { CallLog } from "../observability/call-log.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { PythonHost } from "../python/python-host.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import { messageWithWaits } from "../runs/run-outcome.ts";
import type { StoredPinnedCode } from "../runs/run-pin.ts";
import { createWaitForCapability } from "../runs/wait-for.ts";
import { CellScripts } from "../sessions/cell-scripts.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { CodeApi, TimeSlicedCodeApi } from "./api/code-api.ts";
import type { ApprovalGate } from "./code-approvals.ts";
import { declarationsFor, withTools } from "./code-hints.ts";
import type { CodeHost } from "./code-host.ts";
import type { CodeRuns } from "./code-runs.ts";
import { createCodeToolsCapability, rulesOf } from "./code-tools.ts";
import type { CodeLanguage, ParsedCodeModeOptions } from "./options.ts";
import { type CodeTools, createNameLookup, pinTools, renamedTools } from "./pinned-tools.ts";
import {
  hintOf,
  isCodeFailure,
  type RunOutput,
  readValue,
  toCalls,
  toErrorFields,
  toLogLines,
  toShownMessage,
  toValueFields,
  usageOf,
} from "./run-result.ts";
import { createResultCapability, type StoredValues } from "./stored-values.ts";
import { toJsonDiagnostic } from "./type-checker/diagnostics.ts";
import type { TypeChecker } from "./type-checker/type-checker.ts";

const FILES = { typescript: "code.ts", javascript: "code.js" } as const;
const NO_CODE_CACHE = new Uint8Array(0);
/** Code is rarely run twice, so the use of platform modules is not tracked. */
const NO_MODULES = { names: [], add() {} } as const;
const ELICIT = createClientRequestCapabilities().filter(({ name }) => name === "elicit");
const RESULT_MEMBERS = ["save", "load", "list", "delete"];

/** What code mode uses of a Glovebox. */
export interface RunCodeDependencies {
  readonly router: ToolRouter;
  readonly pool: CallPool;
  readonly bundler: Bundler;
  readonly python: PythonHost;
  readonly environments: EnvironmentResolver;
  readonly values: StoredValues;
  readonly gate: ApprovalGate | undefined;
  /** Undefined if code is not durable, or if a server starts its runs. */
  readonly runs: () => CodeRuns | undefined;
  readonly hosted: CodeHost | undefined;
  /** Undefined if code is not checked. */
  readonly checker: TypeChecker | undefined;
  readonly options: ParsedCodeModeOptions;
  /** Returns the API of the tools that the tenant's code can call now. */
  readonly apiOf: (tenantId: string) => Promise<TimeSlicedCodeApi>;
}

/** Arguments of run_code, whose input schema has checked them. */
interface RunArguments {
  readonly code: string;
  readonly language?: CodeLanguage | undefined;
  readonly input?: JsonValue | undefined;
}

/**
 * Returns the code that a model meant: models that were trained on other code modes wrap it in a function, or in a block of Markdown. Takes
 * time in proportion to the length of the code.
 */
export function unwrapCode(code: string, language: CodeLanguage): string {
  const fenced = /^\s*```[A-Za-z]*\n([\s\S]*?)\n?```\s*$/.exec(code)?.[1] ?? code;
  if (language === "python") return fenced;
  // One pattern for the whole function would try each run of spaces after a brace in every division.
  const whole = fenced.trim().replace(/;$/, "").trimEnd();
  return /^async\s*\(\s*\)\s*=>\s*\{/.test(whole) && whole.endsWith("}") ? `return (${whole})()` : fenced;
}

/** Creates the executor of run_code. */
export function createRunCodeExecutor(dependencies: RunCodeDependencies): ToolExecutor {
  return {
    source: "sandbox",
    wants: "value",
    execute: async (call, log) => {
      const isStarted = call.context.run !== undefined;
      if (dependencies.hosted !== undefined && !isStarted)
        throw unavailable("needs_run", "Code runs only as a durable run");
      const runs = dependencies.runs();
      if (runs !== undefined && !isStarted) return await runs.start(call);
      const run = (): Promise<Execution> => new CodeRun(dependencies, call, log).run();
      return runs === undefined ? await run() : await runs.whileAttempt(call.callId, run);
    },
  };
}

/** One run of code. */
class CodeRun {
  readonly #dependencies: RunCodeDependencies;
  readonly #call: PreparedCall;
  readonly #log: CallLog;
  readonly #began = performance.now();
  readonly #approvals: { readonly id: string; readonly tool: string }[] = [];
  #nameOf = (toolName: string): string => toolName;
  #checkMs: number | undefined;
  #buildMs: number | undefined;

  constructor(dependencies: RunCodeDependencies, call: PreparedCall, log: CallLog) {
    this.#dependencies = dependencies;
    this.#call = call;
    this.#log = log;
  }

  async run(): Promise<Execution> {
    const { languages } = this.#dependencies.options;
    const given = this.#call.input as unknown as RunArguments;
    const language = given.language ?? (languages[0] as CodeLanguage);
    const code = unwrapCode(given.code, language);
    const api = await this.#dependencies.apiOf(this.#call.tenantId);
    const stored = this.#call.context.run?.storedCode;
    this.#nameOf = createNameLookup(api, stored?.names);
    // A continuation has the code that was checked before.
    const isChecked = this.#call.context.run?.isContinued === true;
    const errors = language === "typescript" && !isChecked ? await this.#check(code, api) : undefined;
    if (errors !== undefined) return this.#end(NO_USAGE, errors);
    let executable: ToolExecutable;
    try {
      const bundle = language === "python" ? undefined : (stored?.bundle ?? (await this.#build(code, language)));
      if (!isChecked) this.#pin(api, bundle);
      executable =
        bundle === undefined ? await this.#dependencies.python.snippetTool() : toExecutable(bundle, language);
    } catch (thrown) {
      const error = toToolError(thrown);
      this.#call.signal.throwIfAborted();
      // A continuation has already run code.
      if (error.code !== "BUNDLE_FAILED" || isChecked) throw error;
      return this.#end(NO_USAGE, toRejected(error));
    }
    const tools = stored === undefined ? api : pinTools(api, stored.names);
    return await this.#execute({ code, language, input: given.input }, tools, executable);
  }

  /** Stores with a run that begins what its continuations run. */
  #pin(api: CodeApi, bundle: StoredPinnedCode["bundle"]): void {
    const { run } = this.#call.context;
    if (run === undefined) return;
    const compiled = bundle === undefined ? {} : { bundle: { code: bundle.code, sourceMap: bundle.sourceMap } };
    run.codeToPin = { ...compiled, names: renamedTools(api) };
  }

  /** Returns the errors of the code; undefined if it has none, or is not checked. */
  async #check(code: string, api: TimeSlicedCodeApi): Promise<Omit<RunOutput, "usage"> | undefined> {
    const { checker } = this.#dependencies;
    if (checker === undefined) return undefined;
    const { tenantId: owner, signal } = this.#call;
    const declarations = await api.declareTypeScript();
    const outcome = await checker
      .check({ code, declarations, owner, signal })
      .catch((thrown: unknown) => toTooComplex(thrown, signal));
    if ("status" in outcome) return outcome;
    const { diagnostics, durationMs } = outcome;
    this.#checkMs = durationMs;
    if (diagnostics.length === 0) return undefined;
    const shown = diagnostics.map((one) => toJsonDiagnostic(withTools(one, code, api)));
    const concerned = await declarationsFor(diagnostics, code, api, signal);
    return { status: "rejected", diagnostics: shown, ...(concerned === "" ? {} : { declarations: concerned }) };
  }

  async #build(code: string, language: keyof typeof FILES): Promise<ToolBundle> {
    const { signal, limits, tenantId } = this.#call;
    const file = FILES[language];
    const sizes = { sourceBytes: limits.sourceBytes, outputBytes: limits.bundleBytes };
    const options = { signal, cell: language, limits: sizes, owner: tenantOwner(tenantId) };
    const { bundle, durationMs } = await this.#dependencies.bundler.bundle(
      { files: { [file]: code }, entry: file },
      options,
    );
    this.#buildMs = durationMs;
    return bundle;
  }

  #environment(api: CodeTools, language: CodeLanguage): ToolEnvironment {
    const { environments, router, values, gate, hosted } = this.#dependencies;
    const { tenantId, callId, signal, context } = this.#call;
    const { run, client } = context;
    // Without anybody who decides while the code waits, the run waits. A server lets the run wait for those whom its tenant trusts to decide.
    const decidesAtOnce = gate?.decidesAtOnce === true || canElicit(client);
    const isDecided = run !== undefined && (hosted !== undefined || !decidesAtOnce);
    const calls = { router, api, gate, hosted, isDecided, approved: run?.approved };
    if (run !== undefined) {
      const rules = rulesOf(calls, { tenantId, callId, signal });
      run.codeCalls = isDecided ? rules : { ...rules, approvalOf: async () => undefined };
    }
    const features = environments.featuresOf([], language === "python" ? "python" : "javascript");
    environments.checkFeatures(features);
    const tools = this.#noting(createCodeToolsCapability(calls));
    const result = createResultCapability(values);
    // Only a run can wait without a process.
    const own = run === undefined ? [] : [createWaitForCapability(), ...ELICIT];
    const granted = new Map<string, Capability>([logCapability, tools, result, ...own].map((one) => [one.name, one]));
    const environment = environments.of({ ...this.#call.definition, prewarm: false }, { granted, features }, {});
    return { ...environment, descriptors: { ...environment.descriptors, result: { members: RESULT_MEMBERS } } };
  }

  /** Notes the calls that wait for approval. */
  #noting(tools: Capability): Capability {
    const { handler } = tools;
    return {
      ...tools,
      handler: async (input, context) => {
        try {
          return await handler(input, context);
        } catch (thrown) {
          const details = Error.isError(thrown) && thrown instanceof ToolError ? thrown.details : undefined;
          const { approvalId: id, tool } = details ?? {};
          if (typeof id === "string" && this.#approvals.every((one) => one.id !== id)) {
            this.#approvals.push({ id, tool: String(tool) });
          }
          throw thrown;
        }
      },
    };
  }

  async #execute(
    {
      code,
      language,
      input,
    }: { readonly code: string; readonly language: CodeLanguage; readonly input: JsonValue | undefined },
    api: CodeTools,
    executable: ToolExecutable,
  ): Promise<Execution> {
    const { pool, options, values } = this.#dependencies;
    const { input: _given, ...call } = this.#call;
    // Python has a builtin function of this name.
    const args = language === "python" ? { code, input: input ?? null } : input === undefined ? {} : { input };
    const tool = { ...this.#environment(api, language), ...executable, isolateLifetime: "call" as const };
    const own = { ...call, input: undefined, inputText: JSON.stringify(args), inputBytes: undefined };
    const execution = await createSandboxExecutor(tool, pool).execute(own, this.#log);
    if ("error" in execution) return this.#failed(execution);
    const { usage } = execution;
    try {
      const value = await readValue(execution, this.#call);
      const scope = { tenantId: call.tenantId, conversation: call.context.sessionId ?? "" };
      return this.#end(usage, { status: "ok", ...(await toValueFields(value, options.maxResultBytes, values, scope)) });
    } catch (thrown) {
      return this.#failed({ usage, error: toToolError(thrown) });
    }
  }

  #failed(execution: Extract<Execution, { error: unknown }>): Execution {
    const { error, usage } = execution;
    // A run that has something to undo fails, so that it is rolled back.
    if (!isCodeFailure(error) || this.#call.context.run?.hasCompensations === true) return execution;
    if (error.code === "BUNDLE_FAILED") return this.#end(usage, toRejected(error));
    if (this.#isNeverRun(error)) return this.#end(usage, toRejected(toSyntaxIssue(error)));
    const status = this.#approvals.length > 0 ? "approval_required" : "failed";
    const message = messageWithWaits(error, this.#call.context.run?.waits ?? []);
    return this.#end(usage, { status, error: { ...toErrorFields(error), message: toShownMessage(message) } });
  }

  /** Whether Python could not compile the code. The error is text of the guest, so what is known here must agree. */
  #isNeverRun({ code, details }: ToolError): boolean {
    const isSyntax = code === "TOOL_FAILED" && details?.errorCode === "PYTHON_SYNTAX";
    return isSyntax && this.#call.chain.begun === 0 && this.#log.entries.length === 0;
  }

  /** Adds log lines, calls and usage. */
  #end(usage: ToolUsage, fields: Omit<RunOutput, "usage">): Execution {
    const { maxLogBytes } = this.#dependencies.options;
    const logs = toLogLines(this.#log.entries, this.#log.dropped, maxLogBytes);
    const calls = toCalls(this.#call.chain, this.#nameOf);
    const hint = fields.hint ?? hintOf(fields, calls);
    const ms = (value: number | undefined): number | undefined => (value === undefined ? undefined : Math.round(value));
    const output: RunOutput = {
      ...fields,
      ...(this.#approvals.length === 0 ? {} : { approvals: this.#approvals }),
      ...(logs.length === 0 ? {} : { logs }),
      ...(calls.length === 0 ? {} : { calls }),
      ...(hint === undefined ? {} : { hint }),
      usage: {
        ...usageOf(usage, performance.now() - this.#began),
        ...(this.#checkMs === undefined ? {} : { checkMs: ms(this.#checkMs) as number }),
        ...(this.#buildMs === undefined ? {} : { buildMs: ms(this.#buildMs) as number }),
      },
    };
    return { usage, outputText: JSON.stringify(output) };
  }
}

function toExecutable(bundle: NonNullable<StoredPinnedCode["bundle"]>, language: CodeLanguage): ToolExecutable {
  const scripts = new CellScripts();
  if (language !== "python") scripts.add(FILES[language], bundle.sourceMap);
  return { bundle, stackMapper: scripts.mapper, codeCache: NO_CODE_CACHE, modules: NO_MODULES };
}

/** Converts a check that has exceeded the limits of the type checker to an error in the code. Throws other errors, and the signal's reason. */
function toTooComplex(thrown: unknown, signal: AbortSignal): Omit<RunOutput, "usage"> {
  signal.throwIfAborted();
  const error = toToolError(thrown);
  if (error.code !== "TOOL_TIMEOUT" && error.code !== "MEMORY_LIMIT") throw error;
  return { status: "rejected", diagnostics: [{ message: error.message, suggestion: "Use simpler types" }] };
}

/** Converts a syntax error of Python to an error of a build. */
function toSyntaxIssue({ message, details }: ToolError): Pick<ToolError, "message" | "details"> {
  const { line = 1, column = 1 } = details ?? {};
  const text = message.replace(/ \([^()]*, line \d+\)$/, "");
  return { message: text, details: { problems: [{ line, column, message: text }] } };
}

/** Converts a failed build to errors in the code. */
function toRejected({ message, details }: Pick<ToolError, "message" | "details">): Omit<RunOutput, "usage"> {
  const problems = Array.isArray(details?.problems) ? details.problems : [];
  const shown = problems.slice(0, 20).flatMap((problem) => {
    if (typeof problem !== "object" || problem === null || Array.isArray(problem)) return [];
    const { line, column, message: text, hint } = problem as { readonly [key: string]: JsonValue };
    const fields = { line, column, message: text, suggestion: hint };
    return [Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as JsonValue];
  });
  return { status: "rejected", diagnostics: shown.length === 0 ? [{ message }] : shown };
}
