// Exports everything that a tenant owns as lines of JSON. Only the value that is being written is in memory.
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import type { KvStore, KvTenantEntry } from "../capabilities/kv/kv-store.ts";
import { readTenantEntry } from "../capabilities/kv/store-answers.ts";
import type { AddToolOptions } from "../config/tool-options.ts";
import type { RegisteredTool } from "../routing/registry.ts";
import type { RunStores, StoredRun } from "../runs/run-stores.ts";
import type { SessionInfo } from "../sessions/session-state.ts";
import { runCallback } from "../util/host-callback.ts";
import type { TenantPolicy } from "./tenant-policies.ts";
import type { WorkHandle } from "./tenant-work.ts";

/** Timeout in ms for the next entry of a store. */
const ENTRY_TIMEOUT_MS = 60_000;
const FORMAT = 1;

/** Properties of a registered tool that its registration does not have. */
export interface AddedTool {
  readonly bundle: ToolBundle | undefined;
  readonly language: "javascript" | "python";
  readonly addedAt: number;
  readonly options: Pick<AddToolOptions, "grant" | "isolateLifetime" | "arguments">;
  /** Whether the tool is built in and belongs to no tenant. */
  readonly isBuiltin: boolean;
}

export interface TenantExportDependencies {
  readonly tenantId: string;
  readonly policy: TenantPolicy;
  readonly tools: readonly RegisteredTool[];
  readonly addedTool: (tool: RegisteredTool) => AddedTool | undefined;
  readonly sessions: readonly SessionInfo[];
  readonly store: KvStore;
  readonly runStores: Pick<RunStores, "runsOf">;
  /** Throws if the tenant was deleted, or Glovebox was closed. */
  readonly work: Pick<WorkHandle, "check">;
  /** Aborts when Glovebox closes. */
  readonly closing: AbortSignal;
}

const line = (value: unknown): string => `${JSON.stringify(value)}\n`;

/** The policy as it is configured. For a secret it has the hosts, never the value; for a function only that it exists. */
function toPolicyLine({ tenantId, policy }: TenantExportDependencies): string {
  const { configuredLimits, weight, coarseTime, pools, egress, secrets, quota } = policy;
  const { resolve, ...rules } = egress;
  return line({
    type: "tenant",
    format: FORMAT,
    tenantId,
    exportedAt: new Date().toISOString(),
    policy: {
      limits: configuredLimits,
      weight,
      coarseTime,
      ...(pools === undefined ? {} : { pools }),
      egress: { ...rules, ...(resolve === undefined ? {} : { hasResolver: true }) },
      secrets: Object.fromEntries(Object.entries(secrets).map(([name, { hosts }]) => [name, { hosts }])),
      ...(quota === undefined ? {} : { rateLimit: quota.rate, quotas: quota.quotas }),
    },
  });
}

function toToolLine(tool: RegisteredTool, added: AddedTool | undefined): string {
  const { definition, executor, contentDigest, hostLimits, authorLimits } = tool;
  const { bundle, options, language, addedAt } = added ?? {};
  return line({
    type: "tool",
    name: definition.name,
    source: executor.source,
    ...(language === undefined ? {} : { language }),
    definition,
    ...(contentDigest === undefined ? {} : { contentDigest }),
    ...(addedAt === undefined ? {} : { addedAt: new Date(addedAt).toISOString() }),
    ...(options === undefined ? {} : { options }),
    ...(hostLimits === undefined ? {} : { hostLimits }),
    ...(authorLimits === undefined ? {} : { authorLimits }),
    ...(bundle === undefined
      ? {}
      : {
          bundle: {
            sha256: bundle.sha256,
            entry: bundle.entry,
            code: bundle.code,
            // Includes the author's files, as far as the bundle contains them.
            sourceMap: bundle.sourceMap,
            packages: bundle.packages,
          },
        }),
  });
}

/** A durable run. Its input and the entries of its journal are the texts that the store has. */
function toRunLine({ run, journal }: StoredRun): string {
  const { id, kind, toolName, toolVersion, state, input, waits, result, createdAt, expiresAt } = run;
  return line({
    type: "run",
    id,
    kind,
    toolName,
    ...(toolVersion === undefined ? {} : { toolVersion }),
    state,
    input,
    waits,
    ...(result === undefined ? {} : { result }),
    createdAt: new Date(createdAt).toISOString(),
    expiresAt: new Date(expiresAt).toISOString(),
    journal,
  });
}

/** Encodes a value as text or bytes, so that it stays on one line and numbers keep their exact form. */
function toValueLine({ tool, key, kind, data, version, expiresAt }: KvTenantEntry): string {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const slash = tool.indexOf("/");
  return line({
    type: "value",
    scope: tool.slice(0, slash),
    tool: tool.slice(slash + 1),
    key,
    ...(kind === "json" ? { json: bytes.toString() } : { base64: bytes.toString("base64") }),
    version,
    ...(expiresAt === undefined ? {} : { expiresAt: new Date(expiresAt).toISOString() }),
  });
}

/**
 * Returns the next entry of a store, validated.
 * @throws {ToolError} INTERNAL, as a rejection
 */
async function nextOf(entries: AsyncIterator<KvTenantEntry>, signal: AbortSignal): Promise<KvTenantEntry | undefined> {
  const outcome = await runCallback(() => entries.next(), { timeoutMs: ENTRY_TIMEOUT_MS, signal });
  let cause: unknown = "failed" in outcome ? outcome.cause : undefined;
  if ("answer" in outcome) {
    try {
      const { done, value } = outcome.answer as IteratorResult<unknown>;
      return done === true ? undefined : readTenantEntry(value);
    } catch (thrown) {
      cause = thrown;
    }
  }
  const why = "failed" in outcome ? outcome.failed : "gave an invalid entry";
  throw new ToolError("INTERNAL", `The export ended early: the kv store ${why}`, { cause });
}

/** @throws {ToolError} PARAM_INVALID for a store that cannot export a tenant's values */
export function checkExportable(store: KvStore): void {
  if (typeof store.entries === "function") return;
  const missing = "this KvStore has no entries(), so the tenant's values cannot be exported";
  throw new ToolError("PARAM_INVALID", `createGlovebox options.kv: ${missing}`);
}

/** Yields the lines of an export. Tools and sessions are those at its start; runs and values are read when their lines are requested. */
export async function* tenantLines(dependencies: TenantExportDependencies): AsyncGenerator<string, void> {
  const { tools, sessions, store, runStores, tenantId, addedTool, work, closing } = dependencies;
  const counts = { tools: tools.length, sessions: sessions.length, runs: 0, values: 0, valueBytes: 0 };
  yield toPolicyLine(dependencies);
  for (const tool of tools) {
    work.check();
    yield toToolLine(tool, addedTool(tool));
  }
  for (const { tenantId: _tenantId, createdAt, lastUsedAt, ...session } of sessions) {
    work.check();
    const times = { createdAt: new Date(createdAt).toISOString(), lastUsedAt: new Date(lastUsedAt).toISOString() };
    yield line({ type: "session", ...session, ...times });
  }
  work.check();
  for await (const run of runStores.runsOf(tenantId, closing)) {
    work.check();
    counts.runs += 1;
    yield toRunLine(run);
  }
  work.check();
  const entries = store.entries?.(tenantId)[Symbol.asyncIterator]();
  let isOver = entries === undefined;
  try {
    while (entries !== undefined) {
      const entry = await nextOf(entries, closing);
      work.check();
      if (entry === undefined) {
        isOver = true;
        break;
      }
      counts.values += 1;
      counts.valueBytes += entry.data.byteLength;
      yield toValueLine(entry);
    }
  } finally {
    // Closes the store's iterator, also if the reader leaves early.
    if (!isOver) await runCallback(() => entries?.return?.(), { timeoutMs: ENTRY_TIMEOUT_MS, signal: closing });
  }
  yield line({ type: "end", counts });
}
