// Measures calls over HTTP against calls in the same process: the time that the server adds, calls per second, and a server with many tools.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { createClient } from "../src/client/index.ts";
import { createGlovebox } from "../src/host/index.ts";
import { createServer } from "../src/server/index.ts";

const WARM_UP = 200;
const ROUNDS = 1_500;
const MANY_TOOLS = 10_000;
const SOURCE = "export default ({ a, b }) => a + b";

const p50 = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const agent = new Agent({ keepAlive: true, maxSockets: 64 });

function post(url: string, key: string, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": body.length,
    };
    request(url, { method: "POST", agent, headers }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    })
      .on("error", reject)
      .end(body);
  });
}

async function perSecond(callers: number, ms: number, run: () => Promise<unknown>): Promise<number> {
  const end = performance.now() + ms;
  let count = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      while (performance.now() < end) {
        await run();
        count += 1;
      }
    }),
  );
  return Math.round((count / ms) * 1_000);
}

let adminKey = "";
const dataDir = mkdtempSync(join(tmpdir(), "glovebox-bench-"));
{
  await using server = await createServer({ port: 0, dataDir, logLevel: "silent" });
  await using glovebox = await createGlovebox({ cache: false, kv: "memory" });
  const key = server.adminKey ?? "";
  adminKey = key;
  const client = createClient({ url: server.url, key });
  await client.createTenant({ id: "bench" });
  for (const isolateLifetime of ["call", "tool"] as const) {
    const name = `add_${isolateLifetime}`;
    await client.tenant("bench").deploy({ name, source: SOURCE, isolateLifetime });
    await glovebox.addTool({ name, source: SOURCE }, { isolateLifetime });
    const url = `${server.url}/v1/tenants/bench/tools/${name}/calls`;
    const overHttp = (): Promise<number> => post(url, key, '{"input":{"a":1,"b":2}}');
    const inProcess = (): Promise<unknown> => glovebox.execute({ id: "c", toolName: name, arguments: { a: 1, b: 2 } });
    const times: { http: number[]; direct: number[] } = { http: [], direct: [] };
    for (let index = 0; index < ROUNDS + WARM_UP; index += 1) {
      const begun = performance.now();
      await overHttp();
      const between = performance.now();
      await inProcess();
      if (index < WARM_UP) continue;
      times.http.push(between - begun);
      times.direct.push(performance.now() - between);
    }
    const [http, direct] = [p50(times.http), p50(times.direct)];
    console.log(
      `${isolateLifetime}: p50 over HTTP ${http.toFixed(2)} ms, in process ${direct.toFixed(2)} ms, added ${(http - direct).toFixed(2)} ms`,
    );
    const [requests, calls] = [await perSecond(16, 5_000, overHttp), await perSecond(16, 5_000, inProcess)];
    console.log(`${isolateLifetime}: ${requests} calls/s over HTTP, ${calls} calls/s in process, 16 callers`);
  }
  const rows = await client.tenant("bench").deploy({ name: "template", source: SOURCE });
  if (rows.version.version !== 1) throw new Error("Expected the first version");
}
{
  const { openDatabase } = await import("../src/server/database/open-database.ts");
  await using database = await openDatabase({ url: undefined, dataDir, onError: console.error });
  const { db } = database;
  const version = await db
    .selectFrom("tool_versions")
    .selectAll()
    .where("tool_name", "=", "template")
    .executeTakeFirstOrThrow();
  const files = await db.selectFrom("version_files").selectAll().where("tool_name", "=", "template").execute();
  const release = await db
    .selectFrom("releases")
    .selectAll()
    .where("tool_name", "=", "template")
    .executeTakeFirstOrThrow();
  await db.transaction().execute(async (transaction) => {
    for (let index = 0; index < MANY_TOOLS; index += 1) {
      const tool_name = `tool_${index}`;
      const definition = JSON.stringify({ ...JSON.parse(version.definition), name: tool_name });
      await transaction
        .insertInto("tool_versions")
        .values({ ...version, tool_name, definition })
        .execute();
      await transaction
        .insertInto("version_files")
        .values(files.map((file) => ({ ...file, tool_name })))
        .execute();
      await transaction
        .insertInto("releases")
        .values({ ...release, tool_name })
        .execute();
    }
  });
}

const MAIN = fileURLToPath(new URL("../src/cli/main.ts", import.meta.url));
const MiB = 1024 * 1024;

/** Starts the server in a process of its own. Resolves with its URL. */
async function spawnServer(): Promise<{ readonly child: ChildProcess; readonly url: string }> {
  const args = [MAIN, "serve", "--port", "0", "--data-dir", dataDir, "--log-level", "silent"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  for await (const chunk of child.stdout) {
    const found = /Listening at (\S+)/.exec(String(chunk))?.[1];
    if (found !== undefined) return { child, url: found };
  }
  throw new Error("The server did not start");
}

const memoryOf = (child: ChildProcess): string => {
  const pages = Number(readFileSync(`/proc/${child.pid}/statm`, "utf8").split(" ")[1]);
  return `${Math.round((pages * 4_096) / MiB)} MiB`;
};

{
  const begun = performance.now();
  const { child, url: base } = await spawnServer();
  console.log(`${MANY_TOOLS} tools: ${(performance.now() - begun).toFixed(0)} ms from the command to its URL`);
  console.log(`resident memory after the start: ${memoryOf(child)}`);
  for (const index of [0, 5_000, 9_999]) {
    const url = `${base}/v1/tenants/bench/tools/tool_${index}/calls`;
    const before = performance.now();
    const status = await post(url, adminKey, '{"input":{"a":1,"b":2}}');
    console.log(`first call of tool_${index}: ${(performance.now() - before).toFixed(0)} ms, status ${status}`);
  }
  console.log(`resident memory after three calls: ${memoryOf(child)}`);
  const times: number[] = [];
  let count = 0;
  for (let cursor: string | null = ""; cursor !== null; ) {
    const before = performance.now();
    const query: string = cursor === "" ? "" : `?cursor=${cursor}`;
    const listed = await fetch(`${base}/v1/tenants/bench/openai/tools${query}`, {
      headers: { authorization: `Bearer ${adminKey}` },
    });
    const { tools, next } = (await listed.json()) as {
      readonly tools: readonly unknown[];
      readonly next: string | null;
    };
    times.push(performance.now() - before);
    count += tools.length;
    cursor = next;
  }
  const total = times.reduce((sum, ms) => sum + ms, 0);
  const page = times.toSorted((one, other) => one - other)[Math.floor(times.length / 2)] ?? 0;
  console.log(
    `list of ${count} tools in ${times.length} pages: ${page.toFixed(1)} ms a page, ${total.toFixed(0)} ms in all`,
  );
  console.log(`resident memory after the list: ${memoryOf(child)}`);
  child.kill();
  await once(child, "exit");
}
agent.destroy();
rmSync(dataDir, { recursive: true, force: true });
