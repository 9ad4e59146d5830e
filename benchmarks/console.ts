// The console in Chromium: time until it can be used, frames while long lists scroll, and memory while calls arrive. Build it before with
// `npm run build:console`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import chromium from "@sparticuz/chromium";
import { chromium as driver, type Page } from "playwright-core";
import { openDatabase } from "../src/server/database/open-database.ts";
import { createId } from "../src/server/ids.ts";
import { createServer } from "../src/server/index.ts";
import { insertEndedCalls } from "../src/server/records/calls/call-outcomes.ts";
import type { CallRow } from "../src/server/records/calls/calls.ts";
import { endedRow } from "../test/server/support/call-row.ts";

const CALLS = Number(process.env.CALLS ?? 100_000);
const SPANS = 30_000;
const BATCH = 500;
const TAIL_MS = Number(process.env.TAIL_MS ?? 60_000);
/** Time between two calls of the live tail: an hour of it must not keep the machine busy. */
const PAUSE_MS = Number(process.env.PAUSE_MS ?? 0);
const REPORT_MS = 300_000;
/** Calls that arrive at once, fewer than the list loads in one round, and how often. */
const PUSHED = 1_500;
const PUSHES = 4;

const folder = mkdtempSync(join(tmpdir(), "glovebox-console-"));
const server = await createServer({ dataDir: folder, port: 0, logLevel: "silent" });
const api = async (method: string, path: string, body?: object): Promise<unknown> => {
  const response = await fetch(`${server.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${server.adminKey}`, ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return await response.json();
};
await api("POST", "/v1/tenants", { id: "acme" });
await api("POST", "/v1/tenants/acme/tools", { name: "add", source: "export default ({ a }) => a + 1;" });

const now = Date.now();
const rowOf = (n: number): CallRow => {
  const isFailed = n % 11 === 0;
  const at = now - (CALLS - n) * 30;
  return endedRow(at, {
    tool_name: `tool-${n % 40}`,
    state: isFailed ? "failed" : "succeeded",
    ended_at: at + (n % 200),
    input: `{"n":${n}}`,
    output: isFailed ? null : `{"total":${n}}`,
    error: isFailed ? '{"code":"TOOL_FAILED","message":"There is no such product"}' : null,
  });
};
const database = await openDatabase({ dataDir: folder, url: undefined, onError: console.error });
for (let start = 0; start < CALLS; start += BATCH) {
  await insertEndedCalls(
    database.db,
    Array.from({ length: BATCH }, (_, n) => ({ row: rowOf(start + n) })),
  );
}
const spans = Array.from({ length: SPANS }, (_, n) => ({
  kind: "capability",
  name: "fetch",
  operation: "GET",
  target: `https://api.example.com/items/${n}`,
  status: 200,
  startMs: n / 3,
  durationMs: 5 + (n % 40),
  code: "ok",
  bytesIn: 100,
}));
const large: CallRow = {
  ...rowOf(CALLS),
  id: createId("call", now),
  timeline: JSON.stringify({ spans, calls: [] }),
  ended_at: now + 10_000,
};
await insertEndedCalls(database.db, [{ row: large }]);

const browser = await driver.launch({
  executablePath: await chromium.executablePath(),
  args: chromium.args.filter((arg) => arg !== "--single-process"),
  headless: true,
});
const page = await browser.newPage({ viewport: { width: 1_440, height: 900 }, locale: "en-GB" });
await page.goto(`${server.url}/console`);
await page.getByLabel("API key").fill(server.adminKey as string);
await page.getByRole("button", { name: "Sign in" }).click();
await page.locator("main#content").waitFor();

interface TraceEvent {
  readonly name: string;
  readonly ts: number;
  readonly args?: { readonly chrome_frame_reporter?: { readonly state?: string } };
}
interface Frames {
  /** Frames that the compositor has drawn in a second, by Chromium's own trace. */
  readonly drawn: number;
  /** Share of the frames that were dropped: by the trace, their changes missed their time on the screen. */
  readonly dropped: number;
  /** 95th percentile of the time between two drawn frames in ms. */
  readonly p95: number;
}

/** Scrolls an element down in steps of half a screen in each frame, while Chromium records its trace. */
async function scroll(target: Page, selector: string, ms: number): Promise<Frames> {
  await browser.startTracing(target, {
    categories: ["disabled-by-default-devtools.timeline.frame", "devtools.timeline.frame", "benchmark", "cc"],
  });
  await target.evaluate(`new Promise((resolve) => {
    const list = document.querySelector(${JSON.stringify(selector)});
    list.scrollTop = 0;
    const began = performance.now();
    const step = () => {
      if (performance.now() - began > ${ms}) return resolve();
      list.scrollTop += 400;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  })`);
  const { traceEvents } = JSON.parse(String(await browser.stopTracing())) as { readonly traceEvents: TraceEvent[] };
  const draws = traceEvents.filter(({ name }) => name === "DrawFrame").map(({ ts }) => ts / 1_000);
  const times = draws.toSorted((one, other) => one - other);
  const gaps = times.slice(1).map((at, index) => at - (times[index] ?? at));
  const states = traceEvents.flatMap(({ args }) => args?.chrome_frame_reporter?.state ?? []);
  const dropped = states.filter((state) => state === "STATE_DROPPED").length;
  return {
    drawn: (1_000 * gaps.length) / ((times.at(-1) ?? 0) - (times[0] ?? 0)),
    dropped: states.length === 0 ? 0 : dropped / states.length,
    p95: gaps.toSorted((one, other) => one - other)[Math.floor(gaps.length * 0.95)] ?? 0,
  };
}
const show = ({ drawn, dropped, p95 }: Frames): string =>
  `${round(drawn)} frames drawn a second, 95 % within ${round(p95)} ms, ${round(dropped * 100)} % dropped`;
const round = (value: number): number => Math.round(value * 10) / 10;

for (const path of ["/t/acme", "/t/acme/calls", `/t/acme/calls/${large.id}`]) {
  const began = performance.now();
  await page.goto(`${server.url}/console${path}`);
  await page.locator("main h1").waitFor();
  console.log(`interactive ${path.slice(0, 20)}: ${round(performance.now() - began)} ms`);
}
await page.locator(".timeline-rows .span-row").first().waitFor();
const timeline = await scroll(page, ".timeline-rows", 5_000);
console.log(`timeline of ${SPANS} spans: ${show(timeline)}`);

await page.goto(`${server.url}/console/t/acme/calls`);
await page.locator(".calls .call-row").nth(3).waitFor();
const loaded = `Number(document.querySelector(".page-head [role=status]").textContent.replace(/[^0-9]/g, ""))`;
const fillBegan = performance.now();
while ((await page.evaluate<number>(loaded)) < CALLS && performance.now() - fillBegan < 240_000) {
  await page.evaluate(`{ const list = document.querySelector(".calls"); list.scrollTop = list.scrollHeight; }`);
  await page.waitForTimeout(10);
}
console.log(
  `rows loaded: ${await page.evaluate<number>(loaded)} in ${round((performance.now() - fillBegan) / 1_000)} s`,
);
const list = await scroll(page, ".calls", 5_000);
console.log(`list of calls: ${show(list)}`);

const client = await page.context().newCDPSession(page);
const heap = async (): Promise<number> => {
  await client.send("HeapProfiler.collectGarbage");
  const { usedSize } = await client.send("Runtime.getHeapUsage");
  return usedSize / 1024 / 1024;
};

// New calls arrive while the list holds as many rows as it keeps.
await page.evaluate(`document.querySelector(".calls").scrollTop = 0`);
const full = await heap();
let latest = CALLS;
for (let push = 0; push < PUSHES; push += 1) {
  const pushedAt = Date.now();
  const pushed = Array.from({ length: PUSHED }, () => {
    latest += 1;
    return { row: { ...rowOf(latest), id: createId("call", pushedAt), created_at: pushedAt, ended_at: pushedAt } };
  });
  await insertEndedCalls(database.db, pushed);
  const newest =
    pushed
      .map(({ row }) => row.id)
      .toSorted()
      .at(-1) ?? "";
  await page.locator(`.calls a.call-row[href$="${newest}"]`).waitFor({ timeout: 60_000 });
}
console.log(
  `${PUSHES * PUSHED} calls arrived above ${CALLS} rows: ${await page.evaluate<number>(loaded)} rows kept, heap ${round(full)} MiB before, ${round(await heap())} MiB after`,
);

// New calls arrive while the list is open.
await page.goto(`${server.url}/console/t/acme/calls`);
await page.locator(".calls .call-row").nth(3).waitFor();
const before = await heap();
const until = performance.now() + TAIL_MS;
let made = 0;
let nextReport = performance.now() + REPORT_MS;
while (performance.now() < until) {
  await api("POST", "/v1/tenants/acme/tools/add/calls", { input: { a: made } });
  made += 1;
  if (PAUSE_MS > 0) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  if (performance.now() < nextReport) continue;
  nextReport += REPORT_MS;
  console.log(`  ${made} calls, heap ${round(await heap())} MiB`);
}
console.log(
  `live tail: ${made} calls in ${TAIL_MS / 1_000} s, heap ${round(before)} MiB before, ${round(await heap())} MiB after`,
);
await database[Symbol.asyncDispose]();
await browser.close();
await server.close({ drainMs: 0 });
rmSync(folder, { recursive: true, force: true });
