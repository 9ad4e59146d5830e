// Queries tool providers for their tools when a tenant lists or calls tools. If a function of a provider throws, returns an invalid value or
// hangs, its tools are omitted from the listing, and no call is delayed beyond its timeout.
import { ToolError, unavailable, withReason } from "../../sandbox/contract/errors.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { NO_USAGE } from "../contract/tool-call.ts";
import type { SourceKind } from "../executors/executor.ts";
import { ignoreOutcome, isThenable, notifySafely, runCallback } from "../util/host-callback.ts";
import type { SourceHealthRegistry } from "./health/source-health.ts";
import type { SourceDiscovery } from "./tool-source.ts";

/** A tool provider with discovery. */
export interface DiscoveredSource {
  readonly source: SourceKind;
  readonly sourceId: string;
  readonly discovery: SourceDiscovery;
}

type Question = "isFor" | "mayHave" | "isKnown";

export class Discoveries {
  readonly #byId = new Map<string, DiscoveredSource>();
  readonly #health: SourceHealthRegistry;
  readonly #onError: ((error: ToolError) => unknown) | undefined;

  constructor(health: SourceHealthRegistry, onError: ((error: ToolError) => unknown) | undefined) {
    this.#health = health;
    this.#onError = onError;
  }

  get size(): number {
    return this.#byId.size;
  }

  add(source: DiscoveredSource): void {
    this.#byId.set(source.sourceId, source);
  }

  delete(sourceId: string): void {
    this.#byId.delete(sourceId);
  }

  /** Returns the providers that a tenant can have tools of, or all providers without a tenant. */
  listFor(tenantId: string | undefined): readonly DiscoveredSource[] {
    const all = [...this.#byId.values()];
    return tenantId === undefined ? all : all.filter((source) => this.#test(source, "isFor", tenantId));
  }

  /** Returns the providers that may have a tool of this name. */
  listWith(toolName: string, tenantId: string): readonly DiscoveredSource[] {
    return this.listFor(tenantId).filter((source) => this.#test(source, "mayHave", toolName));
  }

  /**
   * Queries a provider for its tools, unless its circuit is open.
   * @throws {ToolError} TOOL_UNAVAILABLE, or the signal's reason, as a rejection
   */
  async discover(source: DiscoveredSource, tenantId: string, signal: AbortSignal): Promise<void> {
    if (this.#test(source, "isKnown", tenantId)) return;
    const admission = this.#health.admit(source, tenantId);
    const begun = performance.now();
    const run = (): unknown => source.discovery.discover(tenantId, signal);
    const outcome = await runCallback(run, { timeoutMs: LIMITS.timeoutMs.max, signal });
    if ("answer" in outcome) {
      this.#health.record(source, tenantId, admission, { usage: NO_USAGE, outputText: "" });
      return;
    }
    const isOurs = signal.aborted && (outcome.failed === "aborted" || outcome.cause === signal.reason);
    const error = toSourceError(isOurs ? signal.reason : outcome.cause, source.sourceId);
    const usage = { ...NO_USAGE, executeMs: performance.now() - begun };
    this.#health.record(source, tenantId, admission, { usage, error, isSourceFailure: !isOurs });
    throw error;
  }

  /** Calls a synchronous function of a provider. Anything but `true` counts as false. */
  #test({ discovery, sourceId }: DiscoveredSource, question: Question, about: string): boolean {
    try {
      const answer: unknown = discovery[question](about);
      if (typeof answer === "boolean") return answer;
      if (isThenable(answer)) ignoreOutcome(() => answer);
      this.#report(sourceId, question, new TypeError(`Expected true or false, got a ${typeof answer}`));
    } catch (cause) {
      this.#report(sourceId, question, cause);
    }
    return false;
  }

  #report(sourceId: string, question: Question, cause: unknown): void {
    const message = `discovery.${question}() of the tool provider ${sourceId} failed and counts as false`;
    notifySafely(this.#onError, new ToolError("INTERNAL", message, { cause }));
  }
}

function toSourceError(thrown: unknown, sourceId: string): ToolError {
  if (Error.isError(thrown) && thrown instanceof ToolError) return withReason(thrown, "upstream_unavailable");
  return unavailable("upstream_unavailable", `The tool provider ${sourceId} could not be queried`, { cause: thrown });
}
