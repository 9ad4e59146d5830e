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
import { type CallRow, insertEndedCalls } from "../src/server/records/calls.ts";

const CALLS = 100_000;
const SPANS = 30_000;
const BATCH = 500;
const TAIL_MS = Number(process.env.TAIL_MS ?? 60_000);

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
const rowOf = (n: number): CallRow => ({
  ...{ id: createId("call", now - (CALLS - n) * 30), tenant_id: "acme", tool_name: `tool-${n % 40}`, tool_version: 1 },
  ...{
    alias: "live",
    mode: "sync",
    state: n % 11 === 0 ? "failed" : "succeeded",
    effects: "complete",
    key_id: "key_x",
  },
  ...{ session_id: null, idempotency_key: null, request_hash: null, timeout_ms: null, input: `{"n":${n}}` },
  ...{
    output: n % 11 === 0 ? null : `{"total":${n}}`,
    content: 0,
    logs: null,
    usage: null,
    calls: null,
    timeline: null,
  },
  error: n % 11 === 0 ? '{"code":"TOOL_FAILED","message":"There is no such product"}' : null,
  ...{
    created_at: now - (CALLS - n) * 30,
    started_at: now,
    ended_at: now - (CALLS - n) * 30 + (n % 200),
    run_at: null,
  },
  ...{ lease_owner: null, lease_until: null, fence: 0, attempts: 1, cancel_requested: 0 },
});
const database = await openDatabase({ dataDir: folder, url: undefined, onError: console.error });
for (let start = 0; start < CALLS; start += BATCH) {
  await insertEndedCalls(
    database.db,
    Array.from({ length: BATCH }, (_, n) => rowOf(start + n)),
  );
}
const spans = Array.from({ length: SPANS }, (_, n) => ({
  ...{ kind: "capability", name: "fetch", operation: "GET", target: `https://api.example.com/items/${n}`, status: 200 },
  ...{ startMs: n / 3, durationMs: 5 + (n % 40), code: "ok", bytesIn: 100 },
}));
const large: CallRow = {
  ...rowOf(CALLS),
  id: createId("call", now),
  timeline: JSON.stringify({ spans, calls: [] }),
  ended_at: now + 10_000,
};
await insertEndedCalls(database.db, [large]);
await database[Symbol.asyncDispose]();

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

/** Scrolls an element down in steps of half a screen in each frame, and returns the frames in a second, and the longest one in ms. */
const scroll = (target: Page, selector: string, ms: number): Promise<{ readonly fps: number; readonly p95: number }> =>
  target.evaluate(`new Promise((resolve) => {
    const list = document.querySelector(${JSON.stringify(selector)});
    list.scrollTop = 0;
    const times = [];
    const began = performance.now();
    const step = (at) => {
      times.push(at);
      if (performance.now() - began > ${ms}) {
        const lengths = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
        resolve({ fps: (1000 * lengths.length) / (times.at(-1) - times[0]), p95: lengths[Math.floor(lengths.length * 0.95)] });
        return;
      }
      list.scrollTop += 400;
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  })`);
const round = (value: number): number => Math.round(value * 10) / 10;

for (const path of ["/t/acme", "/t/acme/calls", `/t/acme/calls/${large.id}`]) {
  const began = performance.now();
  await page.goto(`${server.url}/console${path}`);
  await page.locator("main h1").waitFor();
  console.log(`interactive ${path.slice(0, 20)}: ${round(performance.now() - began)} ms`);
}
await page.locator(".timeline-rows .span-row").first().waitFor();
const timeline = await scroll(page, ".timeline-rows", 5_000);
console.log(
  `timeline of ${SPANS} spans: ${round(timeline.fps)} frames a second, 95 % of the frames within ${round(timeline.p95)} ms`,
);

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
console.log(`list of calls: ${round(list.fps)} frames a second, 95 % of the frames within ${round(list.p95)} ms`);

// New calls arrive while the list is open.
await page.goto(`${server.url}/console/t/acme/calls`);
const client = await page.context().newCDPSession(page);
const heap = async (): Promise<number> => {
  await client.send("HeapProfiler.collectGarbage");
  const { usedSize } = await client.send("Runtime.getHeapUsage");
  return usedSize / 1024 / 1024;
};
await page.locator(".calls .call-row").nth(3).waitFor();
const before = await heap();
const until = performance.now() + TAIL_MS;
let made = 0;
while (performance.now() < until) {
  await api("POST", "/v1/tenants/acme/tools/add/calls", { input: { a: made } });
  made += 1;
}
console.log(
  `live tail: ${made} calls in ${TAIL_MS / 1_000} s, heap ${round(before)} MiB before, ${round(await heap())} MiB after`,
);
await browser.close();
await server.close({ drainMs: 0 });
rmSync(folder, { recursive: true, force: true });
