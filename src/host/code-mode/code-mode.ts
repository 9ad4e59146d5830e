// createCodeMode(): gives a model two tools, search_tools and run_code, instead of all tools of a tenant.
import type { ToolDefinition } from "../../sandbox/contract/definition.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { describeKind } from "../../sandbox/contract/plain-object.ts";
import type { CallContext, ToolCall, ToolResult } from "../contract/tool-call.ts";
import type { HostFunction } from "../executors/host-function.ts";
import { Glovebox } from "../glovebox/glovebox.ts";
import type { SecondaryToolList } from "../glovebox/secondary-tool-lists.ts";
import { matchesName } from "../routing/name-wildcard.ts";
import { toRegisteredTool } from "../routing/registered-tool.ts";
import { checkString, type TenantScope } from "../routing/tenant-scope.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { RunScope } from "../runs/claimed-run.ts";
import type { RunStores } from "../runs/run-stores.ts";
import type { Runs } from "../runs/runs.ts";
import { deferFailure } from "../util/defer-failure.ts";
import { type CodeApi, createApiOf, type TimeSlicedCodeApi } from "./api/code-api.ts";
import { ApprovalGate, type WaitingApproval } from "./code-approvals.ts";
import type { CodeHost } from "./code-host.ts";
import { CodeRuns, GET_RUN, GET_RUN_DEFINITION } from "./code-runs.ts";
import {
  type CodeLanguage,
  type CodeModeOptions,
  type ParsedCodeModeOptions,
  parseCodeModeOptions,
} from "./options.ts";
import { createRunCodeExecutor } from "./run-code.ts";
import { runDefinition } from "./run-definition.ts";
import {
  CodeToolSearch,
  parseSearchRequest,
  SEARCH_TOOLS,
  type SearchRequest,
  searchDefinition,
} from "./search-tools.ts";
import { StoredValues } from "./stored-values.ts";
import { TypeChecker } from "./type-checker/type-checker.ts";

/** A run may check, build, and call many tools. */
const DEFAULT_LIMITS: PartialLimits = { timeoutMs: 60_000, cpuMs: 10_000, memoryMiB: 256 };

/** Returns whether TypeScript is checked. @throws {ToolError} TOOL_UNAVAILABLE if it must be, and cannot */
function canCheck({ typeCheck, languages }: ParsedCodeModeOptions, checker: TypeChecker): boolean {
  if (typeCheck === false || !languages.includes("typescript")) return false;
  try {
    checker.findCompiler();
    return true;
  } catch (thrown) {
    if (typeCheck === "auto") return false;
    throw thrown;
  }
}

/**
 * Two tools that stand for all tools of a tenant: `search_tools` and `run_code`. It takes the place of a Glovebox wherever tools are passed
 * on: in the adapters, in an AgentLoop, and in MCP servers. Dispose it before the Glovebox.
 * @example
 * ```typescript
 * import { createGlovebox } from "glovebox";
 * import { createCodeMode } from "glovebox/code-mode";
 *
 * await using glovebox = await createGlovebox({ tools: { builtinTools: true } });
 * await using codeMode = await createCodeMode(glovebox);
 * console.log((await codeMode.listTools()).map(({ name }) => name));
 * ```
 */
export class CodeMode implements AsyncDisposable {
  /** Runs the two tools, and lists nothing else. */
  readonly router: ToolRouter;
  /** Whether TypeScript is type-checked before it runs. */
  readonly isTypeChecked: boolean;
  readonly languages: readonly CodeLanguage[];
  /** @internal The runs that it continues: code of its tenant. */
  readonly runScope: RunScope;
  /** @internal The stores of runs of its Glovebox. */
  readonly runStores: RunStores;
  readonly #host: ToolRouter;
  readonly #options: ParsedCodeModeOptions;
  readonly #list: SecondaryToolList;
  readonly #gate: ApprovalGate | undefined;
  readonly #ownChecker: TypeChecker | undefined;
  #runs: CodeRuns | undefined;
  readonly #isDurable: boolean;
  #search = new CodeToolSearch();
  /** The API of the tools that were listed last: schemas are converted again only when a tool has changed. */
  #latest: TimeSlicedCodeApi | undefined;

  /**
   * @internal use {@link createCodeMode}
   * @param hosted starts and keeps durable runs, instead of the option `runs`
   */
  constructor(glovebox: Glovebox, options: ParsedCodeModeOptions, hosted?: CodeHost) {
    const { tenantId: owner, languages, limits, needsApproval: rule, onApproval, storedValues } = options;
    this.#host = glovebox.router;
    this.runStores = glovebox.runStores;
    this.#options = options;
    this.languages = languages;
    this.#isDurable = options.runs !== undefined || hosted !== undefined;
    // Checks the tenant before anything is opened.
    const scope = { tenantId: owner };
    this.runScope = { kind: "code", tenantId: glovebox.router.tenancy.tenantOf(owner) };
    const checker = options.typeChecker ?? new TypeChecker();
    this.#ownChecker = options.typeChecker === undefined ? checker : undefined;
    this.isTypeChecked = canCheck(options, checker);
    this.#gate = rule === undefined ? undefined : new ApprovalGate({ rule, onApproval });
    // Checks its options before anything is opened, and uses the router only when a run starts.
    if (options.runs !== undefined) this.#runs = new CodeRuns(this, options.runs, glovebox.router.tenancy);
    this.#list = glovebox.openSecondaryToolList((tenantId) => {
      this.#gate?.deleteTenant(tenantId);
      this.#latest = undefined;
      this.#search = new CodeToolSearch();
    });
    const { router, pool, bundler, python, environments, store, kvPending } = this.#list;
    this.router = router;
    const executor = createRunCodeExecutor({
      router: glovebox.router,
      pool,
      bundler,
      python,
      environments,
      gate: this.#gate,
      hosted,
      options,
      runs: () => this.#runs,
      values: new StoredValues({ store, bounds: storedValues, pending: kvPending }),
      checker: this.isTypeChecked ? checker : undefined,
      apiOf: () => this.#api(),
    });
    const { name: _name, ...search } = searchDefinition(languages);
    router.register(SEARCH_TOOLS, search, (input) => this.search(input as unknown as SearchRequest), scope);
    const definition = runDefinition(languages, {
      isChecked: this.isTypeChecked,
      isDurable: this.#isDurable,
    });
    const entry = { tenantId: owner, hostLimits: limits, defaultLimits: DEFAULT_LIMITS };
    router.add(toRegisteredTool(definition, executor, entry));
    if (!this.#isDurable) return;
    const get: HostFunction = (input, { tenantId, sessionId, callId }) => {
      const { id } = input as { readonly id: string };
      return hosted === undefined ? this.#runs?.get(id, tenantId, sessionId) : hosted.getRun(id, callId);
    };
    router.register(GET_RUN, GET_RUN_DEFINITION, get, scope);
  }

  /** Returns the declarations of the tools that code can call now. */
  api(): Promise<CodeApi> {
    return this.#api();
  }

  async #api(): Promise<TimeSlicedCodeApi> {
    const { tools: patterns, tenantId } = this.#options;
    const listed = await this.#host.listTools(tenantId === undefined ? {} : { tenantId });
    const isAllowed = ({ name }: ToolDefinition): boolean =>
      patterns === undefined || patterns.some((pattern) => matchesName(pattern, name));
    const allowed = listed.filter(isAllowed);
    const known = this.#latest?.tools;
    const isSame =
      known?.length === allowed.length && allowed.every((definition, index) => definition === known[index]?.definition);
    if (!isSame || this.#latest === undefined) this.#latest = createApiOf(allowed, { isDurable: this.#isDurable });
    return this.#latest;
  }

  /**
   * Searches the tools, as the tool `search_tools` does.
   * @throws {ToolError} as a rejection: PARAM_INVALID for an unknown or invalid field
   */
  search(request: SearchRequest): Promise<string> {
    return deferFailure(async () => {
      const { maxSearchLength: maxLength } = this.#options;
      const parsed = parseSearchRequest(request, this.languages);
      const { language = this.languages[0] ?? "typescript" } = parsed;
      return await this.#search.search(await this.api(), parsed, { language, maxLength });
    });
  }

  /** Runs one of the two tools, as `glovebox.execute()` runs others. Never rejects. */
  execute(toolCall: ToolCall, context?: CallContext, timeoutMs?: number): Promise<ToolResult> {
    return this.router.execute(toolCall, context, timeoutMs);
  }

  /** The durable runs of code: answers what they wait for. Undefined without the option `runs`. */
  get runs(): Runs | undefined {
    return this.#runs?.runs;
  }

  /** Lists the two tools, and `get_run` if code is durable. */
  listTools(options?: TenantScope): Promise<readonly ToolDefinition[]> {
    return this.router.listTools(options);
  }

  /** Calls of code that wait for approval, because no person could decide while the code ran. */
  get waitingApprovals(): readonly WaitingApproval[] {
    return this.#gate?.waiting ?? [];
  }

  /**
   * Lets a waiting call through, once, when code makes it again: same tool, same version, same arguments. Returns false for an unknown id.
   * @param id `id` of {@link waitingApprovals}
   * @throws {ToolError} PARAM_INVALID for an id that is not a string
   */
  approve(id: string): boolean {
    const approval = checkString(id, "id");
    return this.#gate?.approve(approval) ?? false;
  }

  /**
   * Drops a waiting call. Returns false for an unknown id.
   * @throws {ToolError} PARAM_INVALID for an id that is not a string
   */
  deny(id: string): boolean {
    const approval = checkString(id, "id");
    return this.#gate?.deny(approval) ?? false;
  }

  /** Ends runs and the type checker, unless that was passed in. Closing twice is a no-op. */
  async close(): Promise<void> {
    await this.#runs?.[Symbol.asyncDispose]();
    await Promise.all([this.#list.close(), this.#ownChecker?.[Symbol.asyncDispose]()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Creates the two tools of code mode. A model finds tools with `search_tools({ query, detail })`, and calls them from code with
 * `run_code({ code, language })`: in TypeScript, JavaScript or Python, in a fresh isolate, under the tenant's limits and permissions.
 * @throws {ToolError} PARAM_INVALID for unknown or invalid options, and for a missing or unexpected tenant; TOOL_UNAVAILABLE
 *   (`details.reason: "unsupported"`) if TypeScript is to be checked and the package `typescript` 7 is not installed
 * @example
 * ```ts
 * import { createGlovebox } from "glovebox";
 * import { createCodeMode } from "glovebox/code-mode";
 * await using glovebox = await createGlovebox();
 * await glovebox.addTool({ name: "double", source: "export default ({ n }) => ({ doubled: n * 2 })" });
 * await using codeMode = createCodeMode(glovebox, { language: "javascript" });
 * const code = "const { doubled } = await tools.double({ n: 21 }); return doubled";
 * const result = await codeMode.execute({ id: "c1", toolName: "run_code", arguments: { code } });
 * console.log(result.success && result.output);
 * ```
 */
export function createCodeMode(glovebox: Glovebox, options?: CodeModeOptions): CodeMode {
  if (!(glovebox instanceof Glovebox)) {
    throw new ToolError("PARAM_INVALID", `glovebox: Expected a Glovebox, got ${describeKind(glovebox)}`);
  }
  return new CodeMode(glovebox, parseCodeModeOptions(options));
}
