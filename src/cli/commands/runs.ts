// glovebox runs: lists the durable runs of a tenant, shows one with its journal, starts and cancels runs, and gives them what they wait for.
import type { Run, RunEntry, TenantClient } from "../../client/index.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { COMMAND_SPECS } from "../options/option-table.ts";
import { connectTenant, withServerErrors } from "../remote/connection.ts";
import { isJsonWanted, printItems, take, timeOf } from "../remote/table.ts";
import { readJsonInput } from "../shared/input.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

const LIST_LIMIT = 1_000;
const USAGE = `runs: expected ${COMMAND_SPECS.runs.positionals.expects}`;

const describeWait = ({ id, kind, name, message, until }: Run["waits"][number]): string => {
  const what = name ?? message ?? (until === undefined ? "" : timeOf(until));
  return toVisibleLine(`${kind} ${id}${what === "" ? "" : `: ${what}`}`);
};

async function list(given: Arguments, io: Io, tenant: TenantClient): Promise<void> {
  const filter = given.values as { readonly kind?: Run["kind"]; readonly tool?: string; readonly state?: Run["state"] };
  const { kind, tool, state } = filter;
  printItems(given, io, await take(tenant.runs({ kind, tool, state }), LIST_LIMIT), {
    id: (one) => one.id,
    tool: (one) => (one.version === null ? one.tool : `${one.tool}@${one.version}`),
    state: (one) => one.state,
    "waits for": (one) => one.waits.map(describeWait).join(", "),
    created: (one) => timeOf(one.createdAt),
    ended: (one) => timeOf(one.endedAt),
  });
}

function describeEntry({ type, call, name, input, value, error, ...entry }: RunEntry): string {
  const shown: unknown =
    type === "request" ? input : type === "answer" ? (error ?? value) : type === "event" ? value : entry;
  const what = [call, name].filter((part) => part !== undefined).join(" ");
  return `${what}${what === "" ? "" : " "}${JSON.stringify(shown) ?? ""}`;
}

/** Exits with 1 for a run that has failed or was cancelled. */
function print(given: Arguments, io: Io, run: Run): number {
  if (isJsonWanted(given)) io.stdout.print(`${JSON.stringify(run, null, 2)}\n`);
  else {
    io.stdout.print(`${run.id} ${run.tool} ${run.state}\n`);
    for (const wait of run.waits) io.stdout.print(`waits for ${describeWait(wait)}\n`);
    if (run.state === "succeeded") io.stdout.print(`${JSON.stringify(run.output, null, 2)}\n`);
  }
  const { error } = run as { readonly error: { readonly code: string; readonly message: string } | null };
  if (error !== null) io.stderr.print(`glovebox: ${error.code}: ${toVisibleLine(error.message)}\n`);
  return error === null ? 0 : 1;
}

async function show(given: Arguments, io: Io, tenant: TenantClient, id: string): Promise<void> {
  const run = await tenant.getRun(id);
  const journal = await take(tenant.runJournal(id), LIST_LIMIT);
  if (isJsonWanted(given)) {
    io.stdout.print(`${JSON.stringify({ ...run, journal }, null, 2)}\n`);
    return;
  }
  print(given, io, run);
  printItems(given, io, journal, {
    position: (one) => one.position,
    time: (one) => timeOf(one.at),
    type: (one) => one.type,
    content: describeEntry,
  });
}

/** @throws {UsageError} */
function toWait(text: string | undefined): number {
  if (text !== undefined && /^[1-9]\d{0,9}$/.test(text)) return Number(text);
  throw new UsageError(`${USAGE}. WAIT is the number that show prints`);
}

async function change(
  { values }: Arguments,
  io: Io,
  tenant: TenantClient,
  action: string,
  id: string,
  what?: string,
): Promise<Run> {
  const reason = values.reason as string | undefined;
  if (action === "approve") return await tenant.approveRun(id, toWait(what), reason);
  if (action === "deny") return await tenant.denyRun(id, toWait(what), reason);
  if (action === "answer") {
    const wait = toWait(what);
    const content = await readJsonInput(values, io);
    if (content === undefined)
      throw new UsageError(
        "runs answer: expected --input JSON or --input-file FILE, the answer. To give none: runs decline ID WAIT",
      );
    return await tenant.answerRun(id, wait, { action: "accept", content });
  }
  if (action === "decline") return await tenant.answerRun(id, toWait(what), { action: "decline" });
  if (action === "event" && what !== undefined)
    return await tenant.sendRunEvent(id, what, await readJsonInput(values, io));
  if (action === "cancel" && what === undefined) return await tenant.cancelRun(id);
  if (action !== "start" || what !== undefined) throw new UsageError(USAGE);
  const version = values.version === undefined ? undefined : Number(values.version);
  const approve = values.approve === true ? true : undefined;
  const input = await readJsonInput(values, io);
  return await tenant.startRun(id, { input, version, approve }, { wait: values.async !== true });
}

export async function runsCommand(given: Arguments, io: Io): Promise<number> {
  const [action = "list", id, what] = given.positionals;
  if (action !== "list" && id === undefined) throw new UsageError(USAGE);
  return await withServerErrors(async () => {
    const tenant = await connectTenant(given, io);
    if (id === undefined) await list(given, io, tenant);
    else if (action === "list") throw new UsageError(USAGE);
    else if (action === "show" && what === undefined) await show(given, io, tenant, id);
    else return print(given, io, await change(given, io, tenant, action, id, what));
    return 0;
  });
}
