// What the API shows of a run and its journal, and what is kept of them after the run has ended: no secrets, within the tenant's retention.
import type { JsonValue, RunRecord, RunWait, ToolResult } from "../../host/index.ts";
import { toNewRow } from "../calls/new-call.ts";
import { toOutcome, toStoredInput, toStoredJson } from "../calls/outcome.ts";
import type { Db } from "../database/open-database.ts";
import { insertEndedCalls } from "../records/calls/call-outcomes.ts";
import {
  deleteEntries,
  findRequest,
  listRunEntries,
  type RunRow,
  type RunSummaryRow,
  replaceContent,
  replaceEntry,
} from "../records/calls/runs.ts";
import { emitEvents } from "../records/events/webhooks.ts";
import { findTenant } from "../records/tenants/tenants.ts";

const ENTRIES_PER_PAGE = 500;

const parse = (text: string): JsonValue => JSON.parse(text) as JsonValue;

interface Fields {
  readonly type: string;
  readonly [name: string]: JsonValue;
}
/** Fields of an entry that hold JSON as text. */
const TEXTS = ["input", "envelope"] as const;

/**
 * Returns the JSON text of a field without the secrets in it. A journal has only the beginning of a long input, in which a secret can have any
 * form, so nothing of it is kept or shown.
 */
function redactText(text: string): string {
  let value: JsonValue;
  try {
    value = parse(text);
  } catch {
    return "null";
  }
  return toStoredJson(value);
}

/**
 * Returns an entry of a journal without the secrets in it, in the form in which it was stored. The compiled code of a run, and the list of values to
 * redact, are needed only until the run ends.
 */
function redactEntry(text: string): string {
  const { code: _code, secrets: _secrets, ...fields } = parse(text) as Fields;
  const entry = fields as Fields;
  const texts = TEXTS.flatMap((name) =>
    typeof entry[name] === "string" ? [[name, redactText(entry[name])] as const] : [],
  );
  const { input: _, envelope: __, turns, ...rest } = entry;
  const redacted = JSON.parse(toStoredJson(rest)) as Fields;
  // In the order of the original, so that an unchanged entry is the same text.
  const values: { readonly [name: string]: JsonValue } = { ...redacted, ...Object.fromEntries(texts) };
  return JSON.stringify(
    Object.fromEntries(Object.keys(entry).map((name) => [name, name === "turns" ? turns : values[name]])),
  );
}

/** Returns an entry as the API shows it. */
export function showEntry({
  position,
  text,
  created_at: at,
}: {
  readonly position: number;
  readonly text: string;
  readonly created_at: number | null;
}): object {
  const { type, ...entry } = parse(redactEntry(text)) as Fields;
  const common = { position, at, type };
  if (type === "start") return { ...common, engine: entry.engine ?? null };
  if (type === "turns") return { ...common, turns: (entry.turns as readonly unknown[]).length };
  if (type === "request") {
    const { id, hash: _, input, ...rest } = entry;
    return { ...common, call: id, ...rest, input: parse(String(input)) };
  }
  if (type === "answer") {
    const { ok, value, code, message } = parse(String(entry.envelope)) as { readonly [name: string]: JsonValue };
    const outcome =
      ok === true ? { value: value ?? null } : { error: { code: code ?? null, message: message ?? null } };
    return { ...common, call: entry.id, ...outcome };
  }
  return { ...common, ...entry };
}

const showWaits = (waits: string): JsonValue => parse(toStoredJson(parse(waits)));

/** Returns a run as lists show it. */
export const showSummary = (row: RunSummaryRow): object => ({
  id: row.id,
  tenantId: row.tenant_id,
  kind: row.kind,
  tool: row.tool_name,
  version: row.tool_version === null ? null : Number(row.tool_version),
  state: row.state,
  keyId: row.key_id,
  waits: showWaits(row.waits),
  attempts: row.fence,
  entries: row.entries,
  journalLength: row.journal_length,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  wakeAt: row.wake_at,
  endedAt: row.ended_at,
});

/**
 * Returns a run with its arguments and its outcome.
 * @param result what the tool has returned, for the caller that has waited for it; the stored one has no secrets
 */
export function showRun(row: RunRow, result?: ToolResult | undefined): object {
  const stored = row.result === null ? undefined : (parse(row.result) as unknown as ToolResult);
  const shown = result ?? stored;
  return {
    ...showSummary(row),
    input: parse(toStoredInput(row.input) ?? "null"),
    output: shown?.success === true ? ((shown.output ?? null) as JsonValue) : null,
    error: shown?.success === false ? shown.error : null,
  };
}

function toStoredResult({ kind }: RunRecord, result: ToolResult, keepContent: boolean): string {
  if (!keepContent && result.success) {
    // The status of code says whether it has thrown. It is not content.
    const { status = null } = (kind === "code" ? result.output : {}) as { readonly status?: string };
    const output = kind === "code" ? { status } : null;
    return JSON.stringify({ ...result, output, content: undefined, logs: [] });
  }
  return toStoredJson({ ...result, content: undefined });
}

async function redactJournal(db: Db, run: RunRecord): Promise<void> {
  let after: number | undefined;
  for (;;) {
    const { rows: page, hasMore } = await listRunEntries(db, run, { after, limit: ENTRIES_PER_PAGE });
    for (const { position, text } of page) {
      const redacted = redactEntry(text);
      if (redacted !== text) await replaceEntry(db, run, position, redacted);
    }
    after = page.at(-1)?.position;
    if (!hasMore) return;
  }
}

/** Notifies the tenant's webhooks that a run waits for a person. */
export async function reportWaits(
  transaction: Db,
  { tenantId, id: runId, kind, toolName: tool }: RunRecord,
  waits: readonly RunWait[],
): Promise<void> {
  const shown = waits.map(({ id, kind: what, toolName, until }) => ({ id, kind: what, tool: toolName, until }));
  await emitEvents(transaction, [{ tenantId, type: "run.waiting", data: { runId, kind, tool, waits: shown } }]);
}

/** Adds a run that has ended to the calls of its tenant, and removes the secrets from what is kept of it. */
export async function endRun(transaction: Db, run: RunRecord, result: ToolResult, now: number): Promise<void> {
  const tenant = await findTenant(transaction, run.tenantId);
  // The rows of a tenant that is being deleted are about to be removed.
  if (tenant === undefined) return;
  const { policy } = tenant;
  const { keepContent } = policy.retention;
  const keyId = (await findRequest(transaction, run))?.key_id ?? "";
  const input = parse(run.input);
  const version = run.toolVersion === undefined ? undefined : Number(run.toolVersion);
  const row = {
    ...toNewRow({ toolName: run.toolName, input, version }, { tenantId: run.tenantId, keyId, now }, "run"),
    id: run.id,
    created_at: run.createdAt,
    attempts: run.fence,
    // Its last attempt: the time for which it has waited is not the tool's.
    started_at: Math.max(run.createdAt, now - Math.round(result.durationMs)),
  };
  const outcome = toOutcome(result, input, policy, now);
  await insertEndedCalls(transaction, [{ row: { ...row, ...outcome, tool_version: version ?? outcome.tool_version } }]);
  await replaceContent(transaction, run, {
    input: keepContent ? (toStoredInput(run.input) ?? "{}") : "{}",
    result: toStoredResult(run, result, keepContent),
  });
  if (keepContent) await redactJournal(transaction, run);
  else await deleteEntries(transaction, run);
}
