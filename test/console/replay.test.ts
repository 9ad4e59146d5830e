// Replay and rehearsal in a real browser: a person rehearses a version by keyboard, follows a difference to its call, and replays it.
import { beforeAll, expect, test } from "vitest";
import { findViolations } from "./axe.ts";
import { useConsole } from "./browser.ts";
import { fillRecordings } from "./sample-data.ts";

const suite = useConsole();
const { open } = suite;
const base = "/v1/tenants/acme";
let recorded: string;

beforeAll(async () => {
  await suite.under.api("POST", "/v1/tenants", { id: "acme", policy: { recording: { tools: ["quote"] } } });
  await suite.under.api("POST", "/v1/tenants", { id: "beta" });
  for (const tenant of ["acme", "beta"]) {
    const id = await fillRecordings(suite.under.api, tenant);
    if (tenant === "acme") recorded = id;
  }
});

test("a person rehearses a version by keyboard, and follows a difference to its call", async () => {
  const { page, problems, go } = await open();
  await go("/t/acme/tools/quote?tab=versions");
  // The newest version comes first.
  await page.getByRole("link", { name: "Rehearse" }).first().focus();
  await page.keyboard.press("Enter");
  await page.getByText("The report appears here").waitFor();
  expect(await page.getByLabel("Version").inputValue()).toBe("2");
  await page.getByRole("tab", { name: "Rehearse" }).focus();
  // The next controls: version, period, number, and the button.
  for (let step = 0; step < 4; step += 1) await page.keyboard.press("Tab");
  expect(await page.evaluate("document.activeElement.textContent")).toBe("Rehearse");
  await page.keyboard.press("Enter");
  const report = page.getByRole("region", { name: "Report" });
  await report.getByRole("heading", { name: "v2 gives another outcome for 4 of 6 calls" }).waitFor();
  const tiles = await report.getByRole("list", { name: "Calls by verdict" }).getByRole("listitem").allTextContents();
  expect(tiles).toEqual(["Replayed6", "Identical2", "Different2", "Diverged1", "Failed1", "Skipped0"]);
  await report.getByRole("heading", { name: "added /total/vat, changed /lines/*/count" }).waitFor();
  await report.getByRole("heading", { name: "TOOL_FAILED: Nothing to offer" }).waitFor();
  await report.getByText("CPU time, median").waitFor();
  await report.getByRole("link", { name: recorded }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("The outcome appears here").waitFor();
  expect(await page.getByLabel("Version").inputValue()).toBe("2");
  await page.getByRole("button", { name: "Replay" }).focus();
  await page.keyboard.press("Enter");
  const outcome = page.getByRole("region", { name: "Outcome of the replay" });
  await outcome.getByText("The outcome differs from the recorded one.").waitFor();
  const rows = await outcome.getByRole("row").allTextContents();
  expect(rows).toEqual(["PlaceChangeRecordedReplayed", "/total/vatadded–0.75", '/lines/0/countchanged3"3 pieces"']);
  expect(problems).toEqual([]);
});

test("a person replays a call on its version, and with another input", async () => {
  const { page, problems, go } = await open();
  await suite.under.api("PUT", `${base}/kv/quote/values/rate`, { value: 50 });
  await go(`/t/acme/calls/${recorded}`);
  await page.getByRole("button", { name: "Replay", exact: true }).click();
  const outcome = page.getByRole("region", { name: "Outcome of the replay" });
  const replay = page.getByRole("button", { name: "Replay", exact: true });
  await replay.click();
  // The answer is the recorded one, and not the value of today.
  await outcome.getByText("The outcome is the same, byte for byte.").waitFor();
  await page.getByLabel("Edit the input").check();
  await page.getByLabel(/^count/).fill("7");
  await replay.click();
  await outcome.getByText('"net": 14').waitFor();
  expect(await outcome.getByText('"net": 6').count()).toBe(1);
  await page.getByLabel("Version").selectOption("2");
  await page.getByRole("button", { name: "+ customer" }).click();
  await page.getByLabel(/^customer/).fill("ada");
  await replay.click();
  await outcome.getByText("The tool requested", { exact: true }).waitFor();
  await outcome.getByText("rate:ada").first().waitFor();
  expect(new URL(page.url()).searchParams.get("version")).toBe("2");
  expect(problems).toEqual([]);
});

test("without recordings, the pages say how calls are recorded", async () => {
  const { page, problems, go } = await open();
  await go("/t/beta/tools/quote?tab=rehearse");
  await page.getByRole("button", { name: "Rehearse" }).click();
  await page.getByRole("heading", { name: "No recorded calls in this period" }).waitFor();
  await page.getByText('"recording": { "tools": ["quote"], "rate": 1 }').waitFor();
  await page.getByRole("link", { name: "policy of beta" }).click();
  await page.getByLabel("Policy as JSON").waitFor();
  await go("/t/acme/tools/quote?tab=rehearse&sample=0");
  await page.getByText("A number from 1 to 5,000.").waitFor();
  expect(await page.getByRole("button", { name: "Rehearse" }).isDisabled()).toBe(true);
  expect(problems).toEqual([]);
});

test("an error is shown and can be tried again, and a key without the scope sees why it cannot", async () => {
  const { page, go } = await open();
  await go("/t/acme/tools/quote?tab=rehearse&version=2");
  await page.getByRole("button", { name: "Rehearse" }).waitFor();
  expect((await suite.under.api("PATCH", base, { state: "suspended" })).status).toBe(200);
  await page.getByRole("button", { name: "Rehearse" }).click();
  await page.getByRole("alert").getByText("The tenant is suspended").waitFor();
  expect((await suite.under.api("PATCH", base, { state: "active" })).status).toBe(200);
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByRole("heading", { name: /^v2 gives another outcome/ }).waitFor();
  const { body } = await suite.under.api<{ key: string }>("POST", `${base}/keys`, {
    name: "reader",
    scopes: ["calls:read", "tools:read"],
  });
  const reader = await open(body.key);
  for (const path of [`/t/acme/calls/${recorded}?tab=replay`, "/t/acme/tools/quote?tab=rehearse"]) {
    await reader.go(path);
    await reader.page.getByText("Your key does not have the scope calls:replay.").waitFor();
  }
});

test("the report and the outcome pass axe on a wide and a narrow screen, in both themes", async () => {
  const { page, go, problems } = await open();
  await go("/t/acme/tools/quote?tab=rehearse&version=2");
  await page.getByRole("button", { name: "Rehearse" }).click();
  await page.getByText("CPU time, median").waitFor();
  const found = [...(await findViolations(page, "rehearsal-report"))];
  await page.getByRole("heading", { name: "Resources" }).scrollIntoViewIfNeeded();
  found.push(...(await findViolations(page, "rehearsal-report-end")));
  await go(`/t/acme/calls/${recorded}?tab=replay&version=2`);
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByText("The outcome differs from the recorded one.").scrollIntoViewIfNeeded();
  found.push(...(await findViolations(page, "replay-outcome")));
  await page.getByLabel("Edit the input").check();
  await page.getByRole("button", { name: "+ customer" }).click();
  await page.getByLabel(/^customer/).fill("ada");
  await page.getByRole("button", { name: "Replay" }).click();
  await page.getByText("The tool requested", { exact: true }).scrollIntoViewIfNeeded();
  found.push(...(await findViolations(page, "replay-diverged")));
  await go("/t/beta/tools/quote?tab=rehearse");
  await page.getByRole("button", { name: "Rehearse" }).click();
  await page.getByText("No recorded calls in this period").scrollIntoViewIfNeeded();
  found.push(...(await findViolations(page, "rehearsal-none")));
  expect(found).toEqual([]);
  expect(problems).toEqual([]);
});
