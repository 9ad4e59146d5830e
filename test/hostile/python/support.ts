// Assertions for attacks in Python, like support.ts of the parent folder: one Glovebox instance, whose other tenants keep working.
import { expect } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { TenantOptions } from "../../../src/host/tenants/tenant-policies.ts";
import type { ErrorCode, JsonValue } from "../../../src/sandbox/contract/errors.ts";
import type { PartialLimits } from "../../../src/sandbox/contract/limits.ts";
import { codeOf, expectPublishable, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";
import { expectInTime, LATE_MS, LagMeter } from "../assertions.ts";

export interface PythonAttack {
  readonly name: string;
  /** A snippet for python_exec; where it calls `begin()` the attack has begun. */
  readonly code: string;
  /** Codes that are right; `ok` where an attack may come to nothing. CANCELLED: it is stopped as soon as it has begun. */
  readonly codes: readonly (ErrorCode | "ok")[];
  readonly input?: JsonValue;
  readonly timeoutMs?: number;
  readonly limits?: PartialLimits;
  /** It tells that it has begun, and is not stopped for that. */
  readonly runsOn?: true;
  readonly output?: JsonValue;
  /** It leaves the interpreter as it was: such attacks are runs of one session. */
  readonly isHarmless?: true;
  /** Checks the result further. */
  readonly check?: (result: ToolResult) => void;
}

/** [what is tried, in Python; what must come of it: the text of its last expression's value, or `raised TYPE: …`] */
export type PythonProbe = readonly [name: string, code: string, answer: RegExp];

/** Runs each of `input`'s texts as a program of its own, and answers with what came of each. */
const TRY_ALL = `
import ast, gc, inspect
async def attempt(code):
    names = {"__name__": "__main__"}
    ran_out = False
    try:
        tree = ast.parse(code)
        last = tree.body[-1]
        if isinstance(last, ast.Expr):
            target = ast.copy_location(ast.Name("_value", ast.Store()), last)
            tree.body[-1] = ast.copy_location(ast.Assign([target], last.value), last)
        made = eval(compile(tree, "tried.py", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if inspect.isawaitable(made):
            await made
        return repr(names.get("_value"))[:500]
    except BaseException as error:
        ran_out = isinstance(error, (MemoryError, RecursionError))
        return f"raised {type(error).__name__}: {error}"[:500]
    finally:
        # Functions and their globals refer to each other. A collection takes a tenth of a second: for what may be left of a bomb only.
        names.clear()
        if ran_out:
            gc.collect()
[await attempt(code) for code in input]
`;

const BEGUN = "the attack has begun";
const PRELUDE = `begin = lambda: print(${JSON.stringify(BEGUN)})\n`;
/** Long enough for it to be in its loop when it is stopped. */
const LOOPING_MS = 50;
/** Timeout in ms of an attack that ends by itself. It is generous because the duration depends on the machine. */
const ENDING_MS = 180_000;
/** Factor by which a deadline, or a limit of CPU time, is extended that passed before the attack had begun. */
const EXTENSION = 4;
/** Longest time in ms from a deadline, or from the request to stop, to the answer. */
const DUE_MS = LATE_MS;

export class PythonArena implements AsyncDisposable {
  readonly glovebox: Glovebox;
  readonly #limits: Map<string, PartialLimits>;

  private constructor(glovebox: Glovebox, limits: Map<string, PartialLimits>) {
    this.glovebox = glovebox;
    this.#limits = limits;
  }

  static async open(): Promise<PythonArena> {
    const limits = new Map<string, PartialLimits>();
    const tenants = (tenantId: string): TenantOptions => ({ limits: limits.get(tenantId) ?? {} });
    const glovebox = await makeGlovebox({
      cache: PYTHON_CACHE,
      tools: { enabled: true, builtinTools: ["python_exec"] },
      limits: { timeoutMs: ENDING_MS, cpuMs: ENDING_MS, memoryMiB: 256 },
      tenancy: "multi",
      tenants,
    });
    return new PythonArena(glovebox, limits);
  }

  run(
    code: string,
    tenantId: string,
    context: Parameters<Glovebox["execute"]>[1] = {},
    input?: JsonValue,
  ): Promise<ToolResult> {
    const args = input === undefined ? { code } : { code, input };
    return this.glovebox.execute({ id: "evil", toolName: "python_exec", arguments: args }, { tenantId, ...context });
  }

  /** Another tenant's call, of JavaScript: it must not notice. */
  async expectServed(): Promise<void> {
    const result = await this.run("sum(input)", "neighbour", {}, [20, 22]);
    expect(outputOf(result)).toBe(42);
  }

  /** Runs each of these programs and returns its result, all in one run. */
  async tryAll(codes: readonly string[], tenantId: string, limits?: PartialLimits): Promise<readonly string[]> {
    if (limits !== undefined) this.#limits.set(tenantId, limits);
    return outputOf(await this.run(TRY_ALL, tenantId, {}, codes)) as readonly string[];
  }

  /** Attacks with the same limits are one tenant's, so that they find its process. */
  #tenantOf({ limits }: PythonAttack): string {
    const tenantId = `evil ${JSON.stringify(limits ?? {})}`;
    if (limits !== undefined) this.#limits.set(tenantId, limits);
    return tenantId;
  }

  /** An attack whose deadline is the subject has to begin before it: on a slow machine it needs a later one. */
  async strike(attack: PythonAttack): Promise<void> {
    const { runsOn, timeoutMs = ENDING_MS, limits } = attack;
    const hasBegun = await this.#strikeOnce(attack);
    if (!runsOn || hasBegun) return;
    const { cpuMs = ENDING_MS } = limits ?? {};
    expect(Math.min(timeoutMs, cpuMs), "Time in which it had not begun").toBeLessThan(ENDING_MS);
    await this.strike({
      ...attack,
      timeoutMs: Math.min(ENDING_MS, timeoutMs * EXTENSION),
      ...(limits?.cpuMs === undefined ? {} : { limits: { ...limits, cpuMs: Math.min(ENDING_MS, cpuMs * EXTENSION) } }),
    });
  }

  /** Returns whether the attack had begun. */
  async #strikeOnce(attack: PythonAttack): Promise<boolean> {
    const { code, codes, input, timeoutMs = ENDING_MS, output, isHarmless, check } = attack;
    const isStopped = codes.includes("CANCELLED");
    const stop = new AbortController();
    let hasBegun = false;
    let stoppedAt = Number.NaN;
    using lag = new LagMeter();
    const onLog = ({ message }: { readonly message: string }): void => {
      if (message !== BEGUN || hasBegun) return;
      hasBegun = true;
      if (!isStopped) return;
      setTimeout(() => {
        stoppedAt = performance.now();
        stop.abort();
      }, LOOPING_MS);
    };
    const started = performance.now();
    const context = { timeoutMs, onLog, signal: stop.signal, ...(isHarmless && { sessionId: "harmless" }) };
    const result = await this.run(PRELUDE + code, this.#tenantOf(attack), context, input);
    const ended = performance.now();
    expect(codes, JSON.stringify(result).slice(0, 400)).toContain(codeOf(result));
    if (isStopped) expect(hasBegun, "It had begun").toBe(true);
    const lateMs = ended - (isStopped ? stoppedAt : started + timeoutMs);
    expectInTime(lateMs, DUE_MS);
    expectPublishable(result);
    if (output !== undefined) expect(outputOf(result)).toEqual(output);
    check?.(result);
    await lag.expectPrompt();
    return hasBegun;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.glovebox.close();
  }
}
