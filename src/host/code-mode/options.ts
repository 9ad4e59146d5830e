// Options of createCodeMode(), with their schemas and defaults.
import * as z from "zod";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { PartialLimitsSchema } from "../../sandbox/contract/partial-limits.ts";
import { describeKind, isPlainObject, strictObject } from "../../sandbox/contract/plain-object.ts";
import type { ApprovalDecision, ApprovalRequest, ApprovalRule } from "../agent/loop/agent-approval-rule.ts";
import { parseOptions } from "../config/option-errors.ts";
import { TenantIdSchema } from "../routing/tenant-scope.ts";
import type { RunsOptions } from "../runs/run-options.ts";
import { TypeChecker } from "./type-checker/type-checker.ts";

/** The languages that a code mode can run. */
export const CODE_LANGUAGES = ["typescript", "javascript", "python"] as const;
/** Languages of code. TypeScript is type-checked before it runs. */
export type CodeLanguage = (typeof CODE_LANGUAGES)[number];

/** A call within code that waits for a person's decision. */
export interface CodeApprovalRequest extends ApprovalRequest {
  /** Id of the request: the argument of `codeMode.approve()`. */
  readonly id: string;
  readonly tenantId: string;
  /** Aborts when the code ends. */
  readonly signal: AbortSignal;
}

/** Bounds of the values that `result.save` stores. */
export interface StoredValueOptions {
  /** Largest number of values of a conversation, 0 to 10,000. @default 100 */
  readonly maxValues?: number | undefined;
  /** Largest size of all values of a conversation in bytes. @default 67_108_864 (64 MiB) */
  readonly maxBytes?: number | undefined;
  /** Largest size of one value in bytes. @default 8_388_608 (8 MiB) */
  readonly maxValueBytes?: number | undefined;
  /** Time in ms after which a value is deleted, 1,000 to 30 days. @default 3_600_000 (an hour) */
  readonly ttlMs?: number | undefined;
}

/** Options of {@link createCodeMode}. */
export interface CodeModeOptions {
  /** The tenant whose tools code can call. Required with `tenancy: "multi"`, rejected with `tenancy: "single"`. */
  readonly tenantId?: string | undefined;
  /**
   * Names of the tools that code can call; a `*` at the end of a name matches any suffix.
   * @default all tools of the tenant
   */
  readonly tools?: readonly string[] | undefined;
  /**
   * The languages that `run_code` accepts; the first is the default one.
   * @default ["typescript", "javascript"]
   */
  readonly language?: CodeLanguage | readonly CodeLanguage[] | undefined;
  /**
   * Whether TypeScript is type-checked before it runs, which needs the package `typescript` 7. `"auto"` checks if it is installed.
   * @default true
   */
  readonly typeCheck?: boolean | "auto" | undefined;
  /** A checker that several code modes share. The caller disposes it. Default: one of its own. */
  readonly typeChecker?: TypeChecker | undefined;
  /**
   * Limits of a run. `nestedCalls` limits the calls of tools, and `timeoutMs` includes the type check and the build.
   * @default `timeoutMs` 60,000, `cpuMs` 10,000, `memoryMiB` 256, and those of the host
   */
  readonly limits?: PartialLimits | undefined;
  /**
   * Largest value in bytes of JSON that `run_code` returns to the model, 0 to 1 MiB. A larger one is stored, and the model receives its
   * reference.
   * @default 16_384
   */
  readonly maxResultBytes?: number | undefined;
  /**
   * Largest text of log lines that `run_code` returns to the model, in bytes, 0 to 1 MiB.
   * @default 4_096
   */
  readonly maxLogBytes?: number | undefined;
  /**
   * Largest result of `search_tools` in UTF-16 code units, 1,000 to 1,000,000.
   * @default 24_000
   */
  readonly maxSearchLength?: number | undefined;
  /** Bounds of the values that `result.save` stores. */
  readonly storedValues?: StoredValueOptions | undefined;
  /** Which calls of code wait for approval, by the rule of an AgentLoop. Default: none. */
  readonly needsApproval?: ApprovalRule | undefined;
  /**
   * Decides about a call that needs approval while the code waits; the clock of the run is paused. Default: the MCP client or the
   * `context.client` that called `run_code` is asked, if it supports elicitation; otherwise the call is denied, the run reports it as
   * waiting, and `codeMode.approve(id)` lets it through when the code is run again.
   */
  readonly onApproval?: ((request: CodeApprovalRequest) => ApprovalDecision | Promise<ApprovalDecision>) | undefined;
  /**
   * Makes code durable, with the options of `createRuns`. A call that needs approval and that no one can decide about at once suspends the
   * code: `run_code` returns the id of a run, `codeMode.runs.signal()` takes the decision, and the code goes on. The model has a third tool,
   * `get_run`, which looks the run up.
   */
  readonly runs?: RunsOptions | undefined;
}

const MiB = 1024 * 1024;
const DAY_MS = 24 * 3_600_000;
const LanguageSchema = z.enum(CODE_LANGUAGES);
const isFunction = (value: unknown): boolean => typeof value === "function";

const StoredValuesSchema = strictObject({
  maxValues: z.int().min(0).max(10_000).default(100),
  maxBytes: z
    .int()
    .min(0)
    .max(1024 * MiB)
    .default(64 * MiB),
  maxValueBytes: z
    .int()
    .min(0)
    .max(64 * MiB)
    .default(8 * MiB),
  ttlMs: z
    .int()
    .min(1_000)
    .max(30 * DAY_MS)
    .default(3_600_000),
});
export type StoredValueBounds = z.output<typeof StoredValuesSchema>;

const OptionsSchema = strictObject({
  tenantId: TenantIdSchema.optional(),
  tools: z.array(z.string().min(1).max(256)).max(10_000).optional(),
  language: z
    .union([LanguageSchema, z.array(LanguageSchema).min(1).max(CODE_LANGUAGES.length)])
    .default(["typescript", "javascript"]),
  typeCheck: z.union([z.boolean(), z.literal("auto")]).default(true),
  typeChecker: z
    .custom<TypeChecker>((value) => value instanceof TypeChecker, {
      error: ({ input }) => `Expected a TypeChecker, got ${describeKind(input)}`,
    })
    .optional(),
  limits: PartialLimitsSchema.default({}),
  maxResultBytes: z.int().min(0).max(MiB).default(16_384),
  maxLogBytes: z.int().min(0).max(MiB).default(4_096),
  maxSearchLength: z.int().min(1_000).max(1_000_000).default(24_000),
  storedValues: StoredValuesSchema.prefault({}),
  needsApproval: z
    .union([
      z.literal("destructive"),
      z.array(z.string()),
      z.custom<Extract<ApprovalRule, (...args: never) => unknown>>(isFunction, "Expected a function"),
    ])
    .optional(),
  onApproval: z.custom<NonNullable<CodeModeOptions["onApproval"]>>(isFunction, "Expected a function").optional(),
  runs: z.custom<RunsOptions>(isPlainObject, "Expected an object with the options of createRuns").optional(),
});

export type ParsedCodeModeOptions = Omit<z.output<typeof OptionsSchema>, "language"> & {
  readonly languages: readonly CodeLanguage[];
};

/** @throws {ToolError} PARAM_INVALID for unknown or invalid options, with the path of each */
export function parseCodeModeOptions(options: unknown = {}): ParsedCodeModeOptions {
  const { language, ...parsed } = parseOptions(OptionsSchema, options, "options");
  const languages = [...new Set(typeof language === "string" ? [language] : language)];
  if (parsed.onApproval !== undefined && parsed.needsApproval === undefined) {
    throw new ToolError("PARAM_INVALID", "options.onApproval: expected needsApproval as well, which selects the calls");
  }
  return { ...parsed, languages };
}
