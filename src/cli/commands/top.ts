// glovebox top: shows the running calls, the tenants and the worker processes of a server, and again every second.
import type { GloveboxClient, Overview, Workers } from "../../client/index.ts";
import { isTemporary } from "../../client/requests/api-error.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { connect, withServerErrors } from "../remote/connection.ts";
import { isJsonWanted } from "../remote/table.ts";
import type { Io } from "../terminal/process-io.ts";
import type { Arguments } from "../usage.ts";

const INTERVAL_MS = 1_000;
const MIB = 1024 * 1024;
/** Rows of each table: a terminal shows the first lines only. */
const MAX_TOOLS = 10;
const MAX_ROWS = 20;
const MAX_NAME = 40;

interface Snapshot {
  readonly workers: Workers;
  readonly overview: Overview;
}

async function readSnapshot(client: GloveboxClient): Promise<Snapshot> {
  const [workers, overview] = await Promise.all([
    client.request<Workers>("GET", "/v1/workers"),
    client.request<Overview>("GET", "/v1/overview", { query: { ms: 60_000, buckets: 1 } }),
  ]);
  return { workers, overview };
}

const mib = (bytes: number | null): string => (bytes === null ? "–" : `${Math.round(bytes / MIB)} MiB`);
const shorten = (text: string): string => (text.length > MAX_NAME ? `${text.slice(0, MAX_NAME - 1)}…` : text);
const count = (number: number, one: string, many: string): string => `${number} ${number === 1 ? one : many}`;

/** Units of the time since the start, in seconds, each until two of the next one. */
const UNITS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
] as const;

function upFor(seconds: number): string {
  const [size, unit] = UNITS.find(([unitSeconds]) => seconds >= 2 * unitSeconds) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
}
const ms = (value: number | null): string => (value === null ? "–" : `${Math.round(value)} ms`);

/** @param numbers columns that are aligned on the right */
function toRows(rows: readonly (readonly (string | number)[])[], numbers: readonly number[]): string {
  const texts = rows.map((row) => row.map((cell) => shorten(toVisibleLine(String(cell)))));
  const widths = texts[0]?.map((_, index) => Math.max(...texts.map((row) => row[index]?.length ?? 0))) ?? [];
  return texts
    .map((row) =>
      row
        .map((cell, index) => {
          const width = widths[index] ?? 0;
          return numbers.includes(index) ? cell.padStart(width) : cell.padEnd(width);
        })
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Returns the screen as text. */
export function toScreen({ workers, overview }: Snapshot): string {
  const { total, tools, queued, problems } = overview;
  const { running, runningTotal } = workers;
  const share = total.calls === 0 ? 0 : Math.round((total.failed / total.calls) * 1_000) / 10;
  const parts = [
    `Glovebox ${workers.version}, up ${upFor(workers.uptimeSeconds)}, memory ${mib(workers.rssBytes)}, ${count(workers.workers.length, "worker process", "worker processes")}`,
    `Last minute: ${count(total.calls, "call", "calls")}, ${share} % failed, p50 ${ms(total.p50)}, p95 ${ms(total.p95)}, p99 ${ms(total.p99)}`,
    `Now: ${runningTotal} running, ${queued} queued`,
  ];
  // What is wrong comes before the tables, which a small terminal cuts off.
  for (const { kind, tenantId, target } of problems.slice(0, 5))
    parts.push(`! ${kind.replaceAll("_", " ")}: ${toVisibleLine(`${tenantId ?? "platform"} ${target}`)}`);
  if (tools.length > 0) {
    const rows = tools
      .slice(0, MAX_TOOLS)
      .map((row) => [row.tenantId, row.tool, row.calls, row.failed, ms(row.p50), ms(row.p95), ms(row.p99)]);
    parts.push("", toRows([["TENANT", "TOOL", "CALLS", "FAILED", "P50", "P95", "P99"], ...rows], [2, 3, 4, 5, 6]));
  }
  if (running.length > 0) {
    const rows = running.slice(0, MAX_ROWS).map((row) => [row.state, row.tenantId, row.tool, ms(row.ageMs), row.id]);
    parts.push("", toRows([["STATE", "TENANT", "TOOL", "FOR", "CALL"], ...rows], [3]));
  }
  const processes = workers.workers
    .slice(0, MAX_ROWS)
    .map(({ pid, language, use, state, tenantIds, isolates, rssBytes }) => {
      const { running: active, warm, sessions } = isolates;
      return [pid, language, state, tenantIds.join(" ") || use, active, warm, sessions, mib(rssBytes)];
    });
  const head = ["PROCESS", "LANGUAGE", "STATE", "TENANT", "RUNNING", "WARM", "SESSIONS", "MEMORY"];
  parts.push("", toRows([head, ...processes], [0, 4, 5, 6, 7]));
  return `${parts.join("\n")}\n`;
}

/** Shows the screen until it is stopped; in a pipe or with `--json`, prints one line of JSON. */
export async function topCommand(given: Arguments, io: Io): Promise<number> {
  return await withServerErrors(async () => {
    const client = connect(io);
    if (isJsonWanted(given)) {
      io.stdout.print(`${JSON.stringify(await readSnapshot(client))}\n`);
      return 0;
    }
    // The first answer shows that the server and the key are right. After that, a server may restart.
    let screen = toScreen(await readSnapshot(client));
    while (!io.stop.aborted) {
      io.stdout.repaint(screen);
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, INTERVAL_MS);
        io.stop.addEventListener(
          "abort",
          () => {
            clearTimeout(timer);
            resolve();
          },
          { once: true },
        );
      });
      screen = await readSnapshot(client).then(toScreen, (error: unknown) => {
        // To stop ends the request too.
        if (io.stop.aborted) return screen;
        if (!isTemporary(error)) throw error;
        const why =
          error.status === 0 ? "The server does not answer" : `The server answers with ${error.status} ${error.code}`;
        return `${why}. Trying again every second; Ctrl-C ends.\n\n${screen.replace(/^The server .*\n\n/, "")}`;
      });
    }
    return 0;
  });
}
