// What operators do in the console besides reading calls: webhooks, triggers, schedules, keys, usage and the audit log.
import { readFileSync } from "node:fs";
import { join } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this one of Node's modules
import { DatabaseSync } from "node:sqlite";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { SQLITE_FILE } from "../../src/server/config/data-files.ts";
import { useConsole } from "./browser.ts";

const suite = useConsole();
const { open } = suite;
const OPS = "/v1/tenants/ops";

beforeAll(async () => {
  const { api } = suite.under;
  await api("POST", "/v1/tenants", { id: "ops" });
  await api("POST", `${OPS}/tools`, { name: "echo", source: "export default (input) => input;" });
});

const listOf = async (what: string): Promise<readonly Record<string, unknown>[]> =>
  (await suite.under.api<{ items: Record<string, unknown>[] }>("GET", `${OPS}/${what}`)).body.items;
const press = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();

test("does what the API can: webhooks, triggers, schedules, keys and usage", async () => {
  const { page, go, problems } = await open();
  await go("/t/ops/webhooks");
  await press(page, "New webhook");
  await page.getByLabel("URL").fill("https://hooks.invalid/one");
  await page.getByLabel(/approval\.requested/).check();
  await press(page, "Create");
  await page.getByText("It is shown only now.").waitFor();
  await press(page, "Close");
  await press(page, "Edit");
  await page.getByLabel(/call\.failed/).uncheck();
  await press(page, "Save");
  await page.getByRole("cell", { name: "approval.requested", exact: true }).waitFor();
  await press(page, "Disable");
  await page.getByText("disabled", { exact: true }).waitFor();
  await press(page, "Enable");
  await page.getByText("active", { exact: true }).waitFor();
  expect(await listOf("webhooks")).toMatchObject([{ state: "active", events: ["approval.requested"] }]);
  await press(page, "Send a test");
  await press(page, "https://hooks.invalid/one");
  await page.getByText("show", { exact: true }).click();
  await page.getByLabel("Body").getByText("webhook.test").waitFor();

  await page.getByRole("link", { name: "Triggers" }).click();
  await press(page, "New trigger");
  await page.getByLabel("Name").fill("orders");
  await page.getByLabel("Tool").selectOption("echo");
  await press(page, "Create");
  await page
    .getByRole("dialog")
    .getByText(/\/hooks\/trigger_/)
    .waitFor();
  await press(page, "Close");
  await press(page, "Pause");
  await page.getByText("paused", { exact: true }).waitFor();
  await press(page, "Edit");
  await page.getByLabel("Release").fill("next");
  await press(page, "Save");
  await page.getByRole("link", { name: "echo:next" }).waitFor();
  expect(await listOf("triggers")).toMatchObject([{ name: "orders", state: "paused", alias: "next" }]);

  await page.getByRole("link", { name: "Schedules" }).click();
  await press(page, "New schedule");
  await page.getByLabel("Name").fill("nightly");
  await page.getByLabel("Tool").selectOption("echo");
  await page.getByLabel("Time zone").fill("Europe/Berlin");
  await page.getByLabel("Cron").fill("30 4 * * *");
  await expect.poll(() => page.getByLabel("Next runs").getByText("04:30").count()).toBe(5);
  await press(page, "Create");
  await page.getByText("nightly").waitFor();
  await press(page, "Edit");
  await page.getByLabel("Release").fill("next");
  await page.getByLabel("When runs overlap").selectOption("queue");
  await page.getByLabel(/^Missed runs/).selectOption("all");
  await press(page, "Save");
  await page.getByRole("link", { name: "echo:next" }).waitFor();
  expect(await listOf("schedules")).toMatchObject([{ alias: "next", overlap: "queue", catchUp: "all" }]);

  await page.getByRole("link", { name: "Keys" }).first().click();
  await press(page, "New key");
  await page.getByLabel("Name").fill("short");
  await page.getByLabel("Time until it expires").fill("15");
  await page.getByLabel("Unit").selectOption("minutes");
  await page.getByLabel("Requests at most").fill("30");
  await page.getByLabel("Per", { exact: true }).selectOption("minute");
  await page.getByLabel("At once").fill("5");
  await press(page, "Create");
  await page.getByText("Copy the key now.").waitFor();
  await press(page, "Close");
  await page.getByText("30 per minute, 5 at once").waitFor();
  const [key] = (await listOf("keys")) as { expiresAt: number; createdAt: number }[];
  expect(Math.round(((key?.expiresAt ?? 0) - (key?.createdAt ?? 0)) / 60_000)).toBe(15);
  await page.getByRole("row", { name: "short" }).getByRole("button", { name: "Limits" }).click();
  await page.getByLabel("Requests at most").fill("");
  await page.getByLabel("Calls per month").fill("7");
  await press(page, "Save");
  await page.getByText("calls per month: 7").waitFor();
  expect((await listOf("keys"))[0]).toMatchObject({ rateLimit: null, limits: null, quotas: { calls: { month: 7 } } });

  await suite.under.api("POST", `${OPS}/tools/echo/calls`, { input: { n: 1 } });
  await page.getByRole("link", { name: "Usage" }).click();
  await page.getByRole("cell", { name: "echo" }).waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), press(page, "Download as CSV, by hour")]);
  expect(readFileSync(await file.path(), "utf8")).toMatch(/^hour,tool,outcome,calls,.*\r\n.*,"echo","ok",1,/);
  expect(problems).toEqual([]);
});

test("the audit log says that there are older entries, and loads them", async () => {
  for (let n = 0; n < 520; n += 20) {
    const changes = Array.from({ length: 20 }, (_, k) => suite.under.api("PATCH", OPS, { name: `ops ${n + k}` }));
    expect((await Promise.all(changes)).every(({ status }) => status === 200)).toBe(true);
  }
  const { page, go } = await open();
  await go("/t/ops/audit");
  await page.getByText("These are the newest 500 entries.").waitFor();
  expect(await page.getByText("tenant.created").count()).toBe(0);
  await press(page, "Load older entries");
  await page.getByText("tenant.created").waitFor();
  await page.getByText(/^These are the newest/).waitFor({ state: "detached" });
});

test("the palette offers no page for which the key has no scope", async () => {
  const scopes = ["calls:read", "usage:read"];
  const { body } = await suite.under.api<{ key: string }>("POST", `${OPS}/keys`, { name: "reader", scopes });
  const { page } = await open(body.key);
  await page.keyboard.press("Control+k");
  await page.getByRole("option", { name: "Calls of ops" }).waitFor();
  expect(await page.getByRole("listbox").getByRole("option").allTextContents()).toEqual(
    ["Overview", "Calls", "Runs", "Usage"].map((name) => `${name} of ops`),
  );
});

test("a quota warning leads to what is used and left, also without the scope of the settings", async () => {
  const { api } = suite.under;
  await api("POST", "/v1/tenants", { id: "nearly", policy: { quotas: { calls: { month: 1 } } } });
  await api("POST", "/v1/tenants/nearly/tools", { name: "echo", source: "export default (input) => input;" });
  expect((await api("POST", "/v1/tenants/nearly/tools/echo/calls", { input: {} })).status).toBe(200);
  const scopes = ["calls:read", "usage:read"];
  const { body } = await api<{ key: string }>("POST", "/v1/tenants/nearly/keys", { name: "reader", scopes });
  const { page, go, problems } = await open(body.key);
  await go("/t/nearly");
  await page.getByRole("link", { name: /^Over 80 % of the quota/ }).click();
  await page.getByRole("heading", { name: "Used and left" }).waitFor();
  await page.getByText("Calls per month").waitFor();
  await page.getByText("1 of 1", { exact: true }).waitFor();
  expect(problems).toEqual([]);
});

test("asks for the input of a call whose content was not kept", async () => {
  const { api } = suite.under;
  await api("POST", "/v1/tenants", { id: "private", policy: { retention: { keepContent: false } } });
  await api("POST", "/v1/tenants/private/tools", { name: "echo", source: "export default (input) => input;" });
  const { body } = await api<{ id: string }>("POST", "/v1/tenants/private/tools/echo/calls", { input: { n: 1 } });
  const { page, go } = await open();
  await go(`/t/private/calls/${body.id}?tab=copy`);
  await page.getByText("The input of this call was not kept.").waitFor();
  expect(await page.getByText("npx glovebox call").count()).toBe(0);
  await page.getByLabel("Input as JSON").fill('{"n":2}');
  await page.getByText(`--input '{"n":2}'`).waitFor();
  await page.getByRole("tab", { name: "Run again" }).click();
  await page.getByText("The input of this call was not kept.").waitFor();
  expect(await page.getByRole("button", { name: "Run again" }).isDisabled()).toBe(true);
  await page.getByLabel("Input as JSON").fill('{"n":3}');
  await press(page, "Run again");
  await page.getByRole("link", { name: "New result" }).waitFor();
});

test("says what of a call was not kept: input, output, log lines and spans", async () => {
  const { api } = suite.under;
  const base = "/v1/tenants/unkept";
  await api("POST", "/v1/tenants", { id: "unkept", policy: { retention: { keepContent: false } } });
  const source = `export default async (_input, ctx) => {
    for (let n = 0; n < 1_100; n += 1) {
      console.log("line", n);
      await ctx.span("span " + n, () => n);
    }
    return { secret: 1 };
  };`;
  await api("POST", `${base}/tools`, { name: "talk", source });
  const { body } = await api<{ id: string }>("POST", `${base}/tools/talk/calls`, { input: {} });
  const { page, problems, go } = await open();
  await go(`/t/unkept/calls/${body.id}`);
  await page.getByText("100 or more further lines were not kept").waitFor();
  await page.getByText("The first 1,000 spans of the tool's own are kept.").waitFor();
  await page.getByRole("tab", { name: "Input and output" }).click();
  await page.getByText("The input of this call was not kept.").waitFor();
  await page.getByText("The output of this call was not kept.").waitFor();
  await page.getByRole("tab", { name: "Copy as" }).click();
  await page.getByLabel("Input as JSON").fill('{ "a": 1 }');
  await page.getByRole("heading", { name: "curl" }).waitFor();
  expect(await page.getByRole("heading", { name: "Test", exact: true }).count()).toBe(0);
  await page.getByRole("tab", { name: "Run again" }).click();
  await page.getByLabel("Input as JSON").fill('{ "a": 1 }');
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByText("The output of the call before was not kept, so the two cannot be compared.").waitFor();
  expect(problems).toEqual([]);
});

test("stored values are found by a link, and all of them by paging", async () => {
  const { api } = suite.under;
  const base = "/v1/tenants/values";
  await api("POST", "/v1/tenants", { id: "values" });
  const source = "export const capabilities = { kv: true };\nexport default () => 1;";
  await api("POST", `${base}/tools`, { name: "keep", source, approve: true });
  const keys = Array.from({ length: 205 }, (_, n) => `key-${String(n).padStart(3, "0")}`);
  for (const key of keys) await api("PUT", `${base}/kv/keep/values/${key}`, { value: 1 });
  const { page, problems, go } = await open();
  await go("/t/values/kv?tool=keep");
  await page.getByText("These are the first 200 values.").waitFor();
  await page.getByRole("button", { name: "Load more values" }).click();
  await page.getByText("key-204").waitFor();
  expect(await page.getByRole("button", { name: "Load more values" }).count()).toBe(0);
  await page.getByLabel("Beginning of the key").fill("key-20");
  await page.getByLabel("Beginning of the key").press("Enter");
  await page.getByText("key-199").waitFor({ state: "detached" });
  expect(new URL(page.url()).searchParams.get("prefix")).toBe("key-20");
  await page.reload();
  await page.getByText("key-204").waitFor();
  expect(await page.getByRole("table", { name: "Values of keep" }).getByRole("row").count()).toBe(6);
  expect(problems).toEqual([]);
});

test("shows a time and a time zone that the browser has no text for, and an error in place of a page that fails", async () => {
  const { api } = suite.under;
  const base = "/v1/tenants/times";
  await api("POST", "/v1/tenants", { id: "times" });
  const source = "export const capabilities = { kv: true };\nexport default () => 1;";
  await api("POST", `${base}/tools`, { name: "keep", source, approve: true });
  const inNanoseconds = await api("PUT", `${base}/kv/keep/values/late`, { value: 1, expiresAt: 9e15 });
  expect(inNanoseconds.status).toBe(422);
  await api("PUT", `${base}/kv/keep/values/late`, { value: 1, expiresAt: 8.64e15 });
  const { page, problems, go } = await open();
  // A value that an earlier version has stored.
  await page.route(/\/v1\/tenants\/times\/kv\/keep\?/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replaceAll("8640000000000000", "9000000000000000") });
  });
  await go("/t/times/kv?tool=keep");
  await page.getByText("9000000000000000").waitFor();
  await go("/t/times/schedules");
  await press(page, "New schedule");
  await page.getByLabel("Time zone").fill("");
  await page.getByText("None with this pattern and time zone").waitFor();
  expect(problems).toEqual([]);
  await go("/t/times/webhooks");
  await page.evaluate(() => {
    Date.prototype.toISOString = () => {
      throw new RangeError("A page that fails");
    };
  });
  await page.locator('a[href$="/t/times/audit"]').click();
  await page.getByRole("alert").getByText("A page that fails").waitFor();
  await page.locator('a[href$="/t/times/schedules"]').click();
  await page.getByRole("button", { name: "New schedule" }).first().waitFor();
});

test("releases no version to a part of the calls where no other version could have the rest", async () => {
  const { api } = suite.under;
  const base = "/v1/tenants/shares";
  await api("POST", "/v1/tenants", { id: "shares" });
  await api("POST", `${base}/tools`, { name: "only", source: "export default () => 1;" });
  const { page, problems, go } = await open();
  await go("/t/shares/tools/only?tab=releases");
  await page.getByLabel("Alias").fill("next");
  await page.getByLabel("Share of the calls in %").fill("10");
  await press(page, "Release");
  await page.getByText("There is no other version that the other calls of next could stay on").waitFor();
  const { body } = await api<{ items: { alias: string }[] }>("GET", `${base}/tools/only/releases`);
  expect(body.items.map(({ alias }) => alias)).toEqual(["live"]);
  await page.getByLabel("Share of the calls in %").fill("100");
  await press(page, "Release");
  await expect
    .poll(async () => (await api<{ items: unknown[] }>("GET", `${base}/tools/only/releases`)).body.items.length)
    .toBe(2);
  expect(problems).toEqual([]);
});

test("a link to an unknown tab opens the first one", async () => {
  const { body } = await suite.under.api<{ id: string }>("POST", `${OPS}/tools/echo/calls`, { input: { n: 1 } });
  const { page, problems, go } = await open();
  await go("/t/ops/tools/echo?tab=unknown");
  await page.getByRole("button", { name: "Call echo" }).waitFor();
  await go(`/t/ops/calls/${body.id}?tab=unknown`);
  await page.getByText("Run the tool").waitFor();
  expect(await page.getByRole("tab", { selected: true }).textContent()).toBe("Timeline");
  expect(problems).toEqual([]);
});

test("the overview shows some of many problems at first, each with a link to its page", async () => {
  const { api } = suite.under;
  const base = "/v1/tenants/failing";
  await api("POST", "/v1/tenants", { id: "failing" });
  const ids: string[] = [];
  for (let n = 0; n < 12; n += 1) {
    const hook = { url: `https://hooks.example.com/${n}`, events: ["call.failed"] };
    ids.push((await api<{ id: string }>("POST", `${base}/webhooks`, hook)).body.id);
  }
  const database = new DatabaseSync(join(suite.under.dataDir, SQLITE_FILE));
  try {
    const insert = database.prepare(`insert into deliveries
      (id, tenant_id, webhook_id, event, body, state, attempts, run_at, fence, error, created_at, ended_at)
      values (?, 'failing', ?, 'call.failed', '{}', 'failed', 9, 0, 0, 'refused', ?, ?)`);
    for (const id of ids) insert.run(id.replace("webhook_", "delivery_"), id, Date.now(), Date.now());
  } finally {
    database.close();
  }
  const { page, problems, go } = await open();
  await go("/t/failing");
  const links = page.getByRole("link", { name: "1 delivery of a webhook failed" });
  await page.getByRole("button", { name: "Show all 12" }).waitFor();
  expect(await links.count()).toBe(10);
  await page.getByRole("button", { name: "Show all 12" }).click();
  expect(await links.count()).toBe(12);
  await links.last().click();
  await page.getByRole("heading", { name: "Deliveries" }).waitFor();
  expect(ids).toContain(new URL(page.url()).searchParams.get("webhook"));
  expect(problems).toEqual([]);
});

test("a failed call that runs again shows the error before, next to the new result", async () => {
  const source = 'export default ({ ok }) => { if (!ok) throw new Error("broken before"); return { fine: true }; };';
  await suite.under.api("POST", `${OPS}/tools`, { name: "maybe", source });
  const { body } = await suite.under.api<{ id: string }>("POST", `${OPS}/tools/maybe/calls`, { input: { ok: false } });
  const { page, problems, go } = await open();
  await go(`/t/ops/calls/${body.id}?tab=again`);
  await page.getByLabel("Input as JSON").fill('{ "ok": true }');
  await press(page, "Run again");
  await page.getByRole("link", { name: "New result" }).waitFor();
  const panel = page.locator(".tab-panel");
  await panel.getByRole("heading", { name: "Before" }).waitFor();
  await panel.getByText("broken before").first().waitFor();
  expect(await panel.getByRole("region", { name: "New output" }).textContent()).toContain('"fine": true');
  expect(problems).toEqual([]);
});

test("a call that waits for approval says so where it was made, and shows its result when it was approved", async () => {
  const { api } = suite.under;
  const source = "export const annotations = { destructiveHint: true };\nexport default (input) => ({ gone: input });";
  await api("POST", `${OPS}/tools`, { name: "erase", source });
  const { page, problems, go } = await open();
  await go("/t/ops/tools/erase");
  await page.getByLabel("Input as JSON").fill('{ "all": true }');
  await press(page, "Call erase");
  const waits = page.getByText("it waits until someone approves or denies it");
  await waits.waitFor();
  await page.locator(".result .badge").getByText("waiting for approval").waitFor();
  const [waiting] = await listOf("approvals?kind=call");
  const decided = await api("POST", `${OPS}/approvals/${String(waiting?.id)}/approve`, {});
  expect(decided.status).toBe(200);
  await page.getByRole("region", { name: "Output" }).getByText('"gone"').waitFor();
  expect(await waits.count()).toBe(0);
  await page.getByRole("link", { name: "Timeline and details" }).click();
  await page.getByRole("tab", { name: "Run again" }).click();
  await press(page, "Run again");
  await page.getByRole("link", { name: "New result" }).waitFor();
  await waits.waitFor();
  expect(await page.getByRole("region", { name: "New output" }).count()).toBe(0);
  expect(await page.getByText(/same as before|was not kept/).count()).toBe(0);
  expect(problems).toEqual([]);
});

test("the usage of a year is shown for a tenant with calls in each hour", async () => {
  const { api, dataDir } = suite.under;
  await api("POST", "/v1/tenants", { id: "always" });
  const database = new DatabaseSync(join(dataDir, SQLITE_FILE));
  const lastHour = Math.floor(Date.now() / 3_600_000) * 3_600_000;
  try {
    database.exec(`insert into usage
        (tenant_id, tool_name, hour, outcome, calls, cpu_ms, wall_ms, input_bytes, output_bytes, egress_bytes_in, egress_bytes_out)
      with recursive hours (n) as (select 0 union all select n + 1 from hours where n < 8699),
        tools (name) as (values ('a'), ('b'), ('c'), ('d'), ('e'), ('f'))
      select 'always', name, ${lastHour} - n * 3600000, 'ok', 1, 1, 1, 1, 1, 1, 1 from hours, tools`);
  } finally {
    database.close();
  }
  const { page, go, problems } = await open();
  await go("/t/always/usage?days=365");
  const rows = page.getByRole("region", { name: "Usage by tool and outcome" }).getByRole("row");
  await rows.filter({ hasText: "8,700" }).first().waitFor();
  expect(await rows.filter({ hasText: "8,700" }).count()).toBe(6);
  expect(problems).toEqual([]);
});
