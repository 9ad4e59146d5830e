// Type-checks code before it runs: a few warm processes of the compiler, a queue that serves tenants in turns, and limits on time and memory.
import * as z from "zod";
import { ToolError } from "../../../sandbox/contract/errors.ts";
import { describeKind, strictObject } from "../../../sandbox/contract/plain-object.ts";
import { parseOptions } from "../../config/option-errors.ts";
import { deferFailure } from "../../util/defer-failure.ts";
import { type Compiler, findCompiler } from "./compiler.ts";
import { CheckerProcess } from "./compiler-process.ts";
import { type CodeDiagnostic, toDiagnostics } from "./diagnostics.ts";

const OptionsSchema = strictObject({
  timeoutMs: z.int().min(10).max(60_000).default(5_000),
  memoryMiB: z.int().min(64).max(8_192).default(512),
  processes: z.int().min(1).max(16).default(1),
});

/** Options of a {@link TypeChecker}. */
export interface TypeCheckerOptions {
  /**
   * Longest time in ms for one check, 10 to 60,000, without the time in the queue.
   * @default 5_000
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Largest memory of a process in MiB, 64 to 8,192.
   * @default 512
   */
  readonly memoryMiB?: number | undefined;
  /**
   * Processes that may check at the same time, 1 to 16.
   * @default 1
   */
  readonly processes?: number | undefined;
}

/** Argument of {@link TypeChecker.check}. */
export interface CheckRequest {
  /** The code, up to 200,000 UTF-16 code units. */
  readonly code: string;
  /** Text of a declaration file (a module): what the code sees. */
  readonly declarations: string;
  /**
   * `"body"`: the code is the body of an async function, so that it can use `await` and `return`. `"module"`: it is a module.
   * @default "body"
   */
  readonly form?: "body" | "module" | undefined;
  /** Owner of the check: checks of one owner run one after the other, and owners take turns. */
  readonly owner?: string | undefined;
  /** Cancels the check: it rejects with the reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Result of {@link TypeChecker.check}. */
export interface CheckOutcome {
  /** The errors, by place; at most 20. */
  readonly diagnostics: readonly CodeDiagnostic[];
  /** Time in ms of the check, without the time in the queue. */
  readonly durationMs: number;
}

const MAX_CODE = 200_000;
const MAX_DECLARATIONS = 8 * 1024 * 1024;
const CheckRequestSchema = strictObject({
  code: z.string().max(MAX_CODE),
  declarations: z.string().max(MAX_DECLARATIONS),
  form: z.enum(["body", "module"]).default("body"),
  owner: z.string().default(""),
  signal: z
    .custom<AbortSignal>((value) => value instanceof AbortSignal, {
      error: ({ input }) => `Expected an AbortSignal, got ${describeKind(input)}`,
    })
    .optional(),
});

const MAX_WAITING = 256;
const MAX_WAITING_OF_OWNER = 32;
/** A process is replaced after this many checks, to free the memory of its caches. */
const MAX_CHECKS = 2_000;
/** On one line, so that the lines of the code keep their numbers. */
const BEFORE_BODY = "export {}; async function code(): Promise<any> { ";
const AFTER_BODY = "\n}";

interface Job {
  readonly owner: string;
  readonly signal: AbortSignal | undefined;
  readonly start: (process: CheckerProcess) => Promise<void>;
  readonly reject: (reason: unknown) => void;
}

/**
 * Checks TypeScript against a declaration file. Its processes start with the first check and end with the checker.
 * @example
 * ```ts
 * import { TypeChecker } from "glovebox/code-mode";
 * await using checker = new TypeChecker();
 * const { diagnostics } = await checker.check({ code: "return 1 + a", declarations: "declare const a: number;" });
 * ```
 */
export class TypeChecker implements AsyncDisposable {
  readonly #timeoutMs: number;
  readonly #memoryMiB: number;
  readonly #most: number;
  readonly #idle: CheckerProcess[] = [];
  readonly #busy = new Set<CheckerProcess>();
  readonly #waiting: Job[] = [];
  readonly #lastServed = new Map<string, number>();
  #served = 0;
  #compiler: Compiler | undefined;
  #isClosed = false;

  /** @throws {ToolError} PARAM_INVALID for unknown or invalid options */
  constructor(options: TypeCheckerOptions = {}) {
    const { timeoutMs, memoryMiB, processes } = parseOptions(OptionsSchema, options, "options");
    this.#timeoutMs = timeoutMs;
    this.#memoryMiB = memoryMiB;
    this.#most = processes;
  }

  /** Process ids of the compiler, for monitoring. */
  get pids(): readonly number[] {
    return [...this.#idle, ...this.#busy].flatMap(({ pid, isEnded }) => (isEnded ? [] : (pid ?? [])));
  }

  /**
   * Finds the compiler, so that a missing one is known before the first check.
   * @throws {ToolError} TOOL_UNAVAILABLE (`details.reason: "unsupported"`) if TypeScript 7 is not installed
   */
  findCompiler(): void {
    this.#compiler ??= findCompiler();
  }

  /**
   * Checks code. Nothing of it runs.
   * @throws {ToolError} as a rejection: PARAM_INVALID for code that is too long; TOOL_UNAVAILABLE if TypeScript 7 is not installed;
   *   TOOL_TIMEOUT and MEMORY_LIMIT if the check exceeds a limit; OVERLOADED if too many checks wait; the reason of `signal`
   */
  check(request: CheckRequest): Promise<CheckOutcome> {
    return deferFailure(() => this.#check(request));
  }

  async #check(request: CheckRequest): Promise<CheckOutcome> {
    const { code, declarations, form, owner, signal } = parseOptions(CheckRequestSchema, request, "request");
    this.findCompiler();
    const before = form === "body" ? BEFORE_BODY : "";
    const text = form === "body" ? `${before}${code}${AFTER_BODY}` : code;
    return await this.#enqueue(owner, signal, async (process, stop) => {
      const began = performance.now();
      const found = await process.check(text, declarations, stop);
      return { diagnostics: toDiagnostics(found, code, before.length), durationMs: performance.now() - began };
    });
  }

  #enqueue<Value>(
    owner: string,
    signal: AbortSignal | undefined,
    run: (process: CheckerProcess, stop: AbortSignal) => Promise<Value>,
  ): Promise<Value> {
    if (this.#isClosed) throw new ToolError("CANCELLED", "The type checker is closed");
    signal?.throwIfAborted();
    const ofOwner = this.#waiting.filter((job) => job.owner === owner).length;
    if (this.#waiting.length >= MAX_WAITING || ofOwner >= MAX_WAITING_OF_OWNER) {
      throw new ToolError("OVERLOADED", "Too many type checks are waiting");
    }
    const { promise, resolve, reject } = Promise.withResolvers<Value>();
    const start = async (process: CheckerProcess): Promise<void> => {
      const stop = new AbortController();
      const message = `Type checking took longer than ${this.#timeoutMs} ms`;
      const timer = setTimeout(() => stop.abort(new ToolError("TOOL_TIMEOUT", message)), this.#timeoutMs);
      try {
        resolve(await run(process, signal === undefined ? stop.signal : AbortSignal.any([signal, stop.signal])));
      } catch (thrown) {
        reject(thrown);
      } finally {
        clearTimeout(timer);
      }
    };
    const job: Job = { owner, signal, start, reject };
    this.#waiting.push(job);
    const onAbort = (): void => this.#drop(job);
    signal?.addEventListener("abort", onAbort, { once: true });
    this.#next();
    return promise.finally(() => signal?.removeEventListener("abort", onAbort));
  }

  #drop(job: Job): void {
    const at = this.#waiting.indexOf(job);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    job.reject(job.signal?.reason);
  }

  /** Removes the oldest job of the owner that was served longest ago. */
  #take(): Job | undefined {
    let best: Job | undefined;
    for (const job of this.#waiting) {
      const isEarlier = (this.#lastServed.get(job.owner) ?? 0) < (this.#lastServed.get(best?.owner ?? "") ?? 0);
      if (best === undefined || isEarlier) best = job;
    }
    if (best === undefined) return undefined;
    this.#waiting.splice(this.#waiting.indexOf(best), 1);
    this.#served += 1;
    this.#lastServed.set(best.owner, this.#served);
    // Only the order among owners that wait matters.
    if (this.#lastServed.size > MAX_WAITING * 4) this.#lastServed.clear();
    return best;
  }

  #next(): void {
    if (this.#isClosed || this.#busy.size >= this.#most) return;
    const job = this.#take();
    if (job === undefined) return;
    let process: CheckerProcess;
    try {
      process = this.#takeIdle() ?? this.#start();
    } catch (thrown) {
      job.reject(thrown);
      return;
    }
    this.#busy.add(process);
    void job.start(process).finally(() => {
      this.#busy.delete(process);
      if (process.checks >= MAX_CHECKS || this.#isClosed) process[Symbol.dispose]();
      if (!process.isEnded) this.#idle.push(process);
      this.#next();
    });
  }

  /** Removes an idle process. One that has ended meanwhile, such as one that was killed for its memory, is dropped. */
  #takeIdle(): CheckerProcess | undefined {
    let process = this.#idle.pop();
    while (process?.isEnded === true) process = this.#idle.pop();
    return process;
  }

  #start(): CheckerProcess {
    this.#compiler ??= findCompiler();
    return new CheckerProcess({ compiler: this.#compiler, memoryMiB: this.#memoryMiB });
  }

  /** Ends all processes. Pending checks reject with CANCELLED. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true;
    for (const job of this.#waiting.splice(0)) job.reject(new ToolError("CANCELLED", "The type checker was closed"));
    for (const process of [...this.#idle.splice(0), ...this.#busy]) process[Symbol.dispose]();
  }
}
