// glovebox top: shows the running calls, the tenants and the worker processes of a server, and again every second.
import type { GloveboxClient, Overview, Workers } from "../../client/index.ts";
import { toVisibleLine } from "../../host/util/visible-text.ts";
import { connect, withServerErrors } from "../remote/connection.ts";
import { isJsonWanted } from "../remote/table.ts";
import type { Io } from "../terminal/process-io.ts";
import type { Arguments } from "../usage.ts";

const INTERVAL_MS = 1_000;
const MIB = 1024 * 1024;
const MAX_ROWS = 20;
/** Moves to the upper left corner and clears the screen. */
const CLEAR = "\u001b[H\u001b[2J";

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
const ms = (value: number | null): string => (value === null ? "–" : `${Math.round(value)} ms`);

function toRows(rows: readonly (readonly (string | number)[])[]): string {
  const texts = rows.map((row) => row.map((cell) => toVisibleLine(String(cell)).slice(0, 40)));
  const widths = texts[0]?.map((_, index) => Math.max(...texts.map((row) => row[index]?.length ?? 0))) ?? [];
  return texts
    .map((row) =>
      row
        .map((cell, index) => cell.padEnd(widths[index] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/** Returns the screen as text. */
export function toScreen({ workers, overview }: Snapshot): string {
  const { total, tools, queued, problems } = overview;
  const share = total.calls === 0 ? 0 : Math.round((total.failed / total.calls) * 1_000) / 10;
  const parts = [
    `Glovebox ${workers.version}, up ${Math.round(workers.uptimeSeconds)} s, memory ${mib(workers.rssBytes)}, ${workers.workers.length} worker processes`,
    `Last minute: ${total.calls} calls, ${share} % failed, median ${ms(total.p50)}, 99 % ${ms(total.p99)}. Running ${workers.running.length}, queued ${queued}`,
    "",
    toRows([
      ["TENANT", "TOOL", "CALLS", "FAILED", "MEDIAN", "99 %"],
      ...tools
        .slice(0, MAX_ROWS)
        .map((row) => [row.tenantId, row.tool, row.calls, row.failed, ms(row.p50), ms(row.p99)]),
    ]),
    "",
    toRows([
      ["RUNNING", "TENANT", "TOOL", "FOR", "ID"],
      ...workers.running.slice(0, MAX_ROWS).map((row) => [row.state, row.tenantId, row.tool, ms(row.ageMs), row.id]),
    ]),
    "",
    toRows([["PROCESS", "MEMORY"], ...workers.workers.slice(0, MAX_ROWS).map((row) => [row.pid, mib(row.rssBytes)])]),
  ];
  if (problems.length > 0)
    parts.push(
      "",
      ...problems
        .slice(0, 5)
        .map(
          ({ kind, tenantId, target }) => `! ${kind.replaceAll("_", " ")}: ${toVisibleLine(`${tenantId} ${target}`)}`,
        ),
    );
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
    while (!io.stop.aborted) {
      io.stdout.print(`${CLEAR}${toScreen(await readSnapshot(client))}`);
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
    }
    return 0;
  });
}
