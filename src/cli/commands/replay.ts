// glovebox replay: runs a recorded call of a server again on this machine, offline. glovebox rehearse: tries a version with many recorded calls.
import type { Rehearsal, Replay, TenantClient, ToolVersion } from "../../client/index.ts";
import type { GloveboxOptions } from "../../host/config/glovebox-options.ts";
import { createGlovebox, createInspectedGlovebox } from "../../host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import type { ReleaseVersion, StoredCode } from "../../host/glovebox/tool-releases.ts";
import type { LogEntry } from "../../host/observability/call-log.ts";
import { locatePythonTool } from "../../host/python/python-source.ts";
import { type CallRecording, parseRecording } from "../../host/recording/recording.ts";
import type { ReplayedCall } from "../../host/recording/replay-call.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { LIMITS } from "../../sandbox/contract/limits.ts";
import { connectTenant, withServerErrors } from "../remote/connection.ts";
import { isJsonWanted } from "../remote/table.ts";
import { readJsonInput } from "../shared/input.ts";
import { openGlovebox } from "../shared/open-glovebox.ts";
import { openInspection } from "../shared/open-inspection.ts";
import { printLog } from "../shared/print.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

const UNITS_MS = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

interface Fetched {
  readonly recording: CallRecording;
  readonly version: ToolVersion;
  readonly code: StoredCode & { readonly sourceMap?: string };
}

/** Downloads what a replay needs. After it, no request leaves this machine. */
async function download(tenant: TenantClient, id: string, named: number | undefined): Promise<Fetched> {
  const recording = parseRecording(await tenant.recording(id));
  const number = named ?? Number(recording.toolVersion);
  if (!Number.isInteger(number)) throw new UsageError("--version: expected a version, because the recording has none");
  const [version, code] = await Promise.all([
    tenant.version(recording.toolName, number),
    tenant.bundle(recording.toolName, number),
  ]);
  const fetched = { recording, version, code: code as Fetched["code"] };
  if (named === undefined) checkSameCode(fetched);
  return fetched;
}

/** Returns the hash of the code, which may be that of another version than the recorded one. */
const hashOf = (code: StoredCode): string | undefined =>
  "files" in code ? locatePythonTool(code, "python", Number.POSITIVE_INFINITY)?.sha256 : code.sha256;

/** @throws {UsageError} if the tool was deleted and deployed again, which gives the number of the recorded version to other code */
function checkSameCode({ recording, version, code }: Fetched): void {
  // The recorded bundle of a Python tool is that of the interpreter.
  if (version.language !== "javascript" || hashOf(code) === recording.bundle) return;
  throw new UsageError(
    `--version: the code that the call ran was deleted with its tool, and version ${version.version} is another one now. Name the version to replay the call on`,
  );
}

/** Adds the version as the server runs it. The server has built it, so the code is the recorded code, byte for byte. */
function addVersion(glovebox: Glovebox, { recording, version, code }: Fetched): void {
  const { toolName, tenantId } = recording;
  const { definition, language, grant, isolateLifetime } = version;
  const released = {
    version: String(version.version),
    weight: 1,
    definition,
    language,
    grant,
    load: () => code,
    sha256: hashOf(code),
    ...(isolateLifetime === null ? {} : { isolateLifetime }),
  };
  // The server's definition is data from outside: setRelease parses it.
  glovebox.setRelease(toolName, [released as unknown as ReleaseVersion], { tenantId });
}

const HINTS: { readonly [verdict: string]: string } = {
  not_compared:
    ": the output is the same, but the recording is of an earlier version, which did not record the chunks of streams",
};

/** Returns the lines that show how chunks differ. */
function toChunkLines({ recorded, replayed, first, changes = [] }: NonNullable<Replay["chunks"]>): string[] {
  const counts =
    recorded === replayed ? `${recorded} chunks` : `${recorded} chunks were recorded, the replay has ${replayed}`;
  const where = first === undefined ? "" : `, the first difference is in chunk ${first}`;
  return [`chunks differ: ${counts}${where}`, ...changes.slice(0, MAX_CHANGES).map(toChangeLine)];
}

const toChangeLine = ({ path, kind, before = "", after = "" }: NonNullable<Replay["changes"]>[number]): string =>
  `  ${kind} ${path}: ${before} → ${after}`;

/** Returns the lines that show two errors, with the name and `code` of what the tool threw. */
function toErrorLines({ verdict, recorded, outcome }: ReplayedCall): string[] {
  if (verdict !== "different" || outcome === undefined || !("error" in recorded && "error" in outcome)) return [];
  const toLine = ({ code, message, details }: typeof recorded.error): string =>
    `${[code, details?.errorName, details?.errorCode].filter((part) => part !== undefined).join(" ")}: ${message}`;
  return [`recorded: ${toLine(recorded.error)}`, `replayed: ${toLine(outcome.error)}`];
}

function printReplayed(replayed: ReplayedCall, io: Io): void {
  const { verdict, result, divergence, chunks, missing = [] } = replayed;
  if (result.success) io.stdout.print(`${JSON.stringify(result.output, null, 2)}\n`);
  else io.stderr.print(`glovebox: ${result.error.code}: ${toVisibleLine(result.error.message)}\n`);
  const where = divergence === undefined ? "" : `: expected ${divergence.expected}, got ${divergence.actual}`;
  const lines = [
    ...toErrorLines(replayed),
    ...(chunks === undefined ? [] : toChunkLines(chunks as NonNullable<Replay["chunks"]>)),
    ...missing.slice(0, MAX_CHANGES).map((request) => `not requested any more: ${request}`),
  ];
  for (const line of lines) io.stderr.print(`${toVisibleLine(line)}\n`);
  io.stderr.print(`${verdict}${toVisibleLine(where)}${HINTS[verdict] ?? ""}\n`);
}

/** Changed places that are printed. */
const MAX_CHANGES = 10;

/** Time in ms for the call of a replay without DevTools. */
const REPLAY_TIMEOUT_MS = 60_000;

/** Exits with 0 if the replay has the recorded outcome, and with 1 otherwise. */
export async function replayCommand(given: Arguments, io: Io): Promise<number> {
  const { values, positionals } = given;
  const [id = ""] = positionals;
  const input = await readJsonInput(values, io);
  const edited = input === undefined ? {} : { arguments: input };
  const version = values.version === undefined ? undefined : Number(values.version);
  return await withServerErrors(async () => {
    const fetched = await download(await connectTenant(given, io), id, version);
    const { recording } = fetched;
    await using inspection = await openInspection(given, id, io);
    const hub = inspection?.hub;
    // With DevTools, a person may take as long as the limits allow. A replay waits for nothing, so the longer time only
    // makes up for a machine slower than the one that recorded.
    const limits =
      hub === undefined
        ? { timeoutMs: REPLAY_TIMEOUT_MS }
        : { timeoutMs: LIMITS.timeoutMs.max, cpuMs: LIMITS.cpuMs.max };
    const options: GloveboxOptions = {
      ...({ tenancy: "multi", kv: "memory" } as const),
      limits,
      workers: { warmProcesses: 0, warmPythonProcesses: 0 },
      shutdown: false,
      onWarning: () => {},
    };
    await using glovebox = await openGlovebox(io, () =>
      hub === undefined ? createGlovebox(options) : createInspectedGlovebox(options, hub),
    );
    addVersion(glovebox, fetched);
    if (fetched.code.sourceMap !== undefined) hub?.setSourceMap(fetched.code.sourceMap);
    const onLog = (entry: LogEntry): void => {
      printLog(entry, io.stderr);
      hub?.log(entry);
    };
    const replayed = await glovebox.replay(recording, {
      tenantId: recording.tenantId,
      toolVersion: String(fetched.version.version),
      signal: io.stop,
      onLog,
      ...edited,
    });
    if (isJsonWanted(given)) io.stdout.print(`${JSON.stringify(replayed, null, 2)}\n`);
    else printReplayed(replayed, io);
    return replayed.verdict === "identical" ? 0 : 1;
  });
}

const percent = (before: number, after: number): string =>
  before === 0 ? "" : ` (${after >= before ? "+" : ""}${Math.round((after / before - 1) * 100)} %)`;

function printReport(report: Rehearsal, io: Io): void {
  const { replayed, identical, skipped, groups, resources } = report;
  io.stdout.print(`${identical} of ${replayed} calls identical${skipped === 0 ? "" : `, ${skippedText(report)}`}\n`);
  for (const { verdict, summary, count, callIds, changes = [], chunks } of groups) {
    io.stdout.print(`${count} ${verdict}: ${toVisibleLine(summary)}\n  ${callIds.slice(0, 5).join(" ")}\n`);
    const lines = [
      ...changes.slice(0, MAX_CHANGES).map(toChangeLine),
      ...(chunks === undefined ? [] : toChunkLines(chunks)),
    ];
    for (const line of lines) io.stdout.print(toVisibleLine(line), "\n");
  }
  for (const [name, { before, after }] of Object.entries(resources))
    io.stdout.print(
      `${name} p50 ${before.p50} → ${after.p50}${percent(before.p50, after.p50)}, p95 ${before.p95} → ${after.p95}\n`,
    );
}

/** Returns why recordings were skipped. */
function skippedText({ skipped, skippedFor: { recording, limit, chunks } }: Rehearsal): string {
  const reasons = [
    ...(recording === 0 ? [] : [`${recording} cannot be replayed`]),
    ...(limit === 0 ? [] : [`${limit} could not run, because of a limit of the tenant or of the server`]),
    ...(chunks === 0 ? [] : [`${chunks} cannot be compared, because an earlier version did not record their chunks`]),
  ];
  return `${skipped} skipped: ${reasons.join(", ")}`;
}

/**
 * A gate before a release. Exits with 0 if every call has its recorded outcome, and with 1 otherwise: also if no call was replayed, or if
 * more recordings were skipped than `--max-skipped` allows.
 */
export async function rehearseCommand(given: Arguments, io: Io): Promise<number> {
  const { values, positionals } = given;
  const [tool = ""] = positionals;
  if (values.version === undefined) throw new UsageError("--version: expected the number of the version to rehearse");
  const since = values.since as string | undefined;
  const [, amount = "", unit = "d"] = /^(\d{1,6})([mhd])?$/.exec(since ?? "") ?? [];
  return await withServerErrors(async () => {
    const tenant = await connectTenant(given, io);
    const report = await tenant.rehearse(tool, {
      version: Number(values.version),
      ...(since === undefined ? {} : { since: Date.now() - Number(amount) * UNITS_MS[unit as keyof typeof UNITS_MS] }),
      ...(values.sample === undefined ? {} : { sample: Number(values.sample) }),
    });
    if (isJsonWanted(given)) io.stdout.print(`${JSON.stringify(report, null, 2)}\n`);
    else printReport(report, io);
    if (report.replayed === 0) io.stderr.print("glovebox: no recorded call was replayed\n");
    const isSkippedTooOften = report.skipped > Number(values["max-skipped"] ?? 0);
    if (isSkippedTooOften) io.stderr.print(`glovebox: ${skippedText(report)}. --max-skipped N allows them\n`);
    return report.replayed > 0 && report.identical === report.replayed && !isSkippedTooOften ? 0 : 1;
  });
}
