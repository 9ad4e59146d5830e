// What users do that tests of single pages leave out: long lists, a session that ends while code is written, and a server that restarts.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { createServer } from "../../src/server/index.ts";
import { apiOf } from "../server/support/api.ts";
import { TestStores } from "../server/support/stores.ts";
import { freePort } from "../support/free-port.ts";
import { type ConsoleUnderTest, openBrowser, openConsole, type Visit, visit } from "./browser.ts";

let browser: Browser;
let under: ConsoleUnderTest;

beforeAll(async () => {
  [browser, under] = await Promise.all([openBrowser(), openConsole()]);
  await under.api("POST", "/v1/tenants", { id: "acme" });
});
afterAll(async () => {
  await browser.close();
  await under[Symbol.asyncDispose]();
});

const open = async (key: string = under.key): Promise<Visit> => {
  const visited = await visit(browser, under, key);
  onTestFinished(() => visited.context.close());
  return visited;
};
const deploy = (name: string, source: string) => under.api("POST", "/v1/tenants/acme/tools", { name, source });

test("the text of a primary button can be read under the pointer", async () => {
  await deploy("plain", "export default () => 1;");
  const { page, go } = await open();
  await go("/t/acme/tools/plain");
  await page.getByRole("button", { name: "Call plain" }).hover();
  const styleOf = (name: string) =>
    page.evaluate(`getComputedStyle(document.querySelector("form .button.primary")).${name}`);
  expect(await styleOf("color")).toBe("rgb(255, 255, 255)");
  // Neither the color of a panel nor that of what is under the pointer.
  expect(await styleOf("backgroundColor")).not.toMatch(/255, 255, 255|238, 242, 247/);
});

test("a form has null, tuples, merged parts and the items that a list requires", async () => {
  const source = `export const inputSchema = { type: "object", properties: {
      nick: { type: ["string", "null"] },
      pair: { type: "array", prefixItems: [{ type: "string" }, { type: "integer" }], minItems: 2 },
      both: { allOf: [{ $ref: "#/$defs/a" }, { type: "object", properties: { b: { type: "boolean", default: true } }, required: ["b"] }] },
      size: { type: "integer", default: 3 },
    }, required: ["nick", "pair", "both"], $defs: { a: { type: "object", properties: { a: { type: "string" } }, required: ["a"] } } };
    export default (input) => input;`;
  await deploy("shapes", source);
  const { page, go, problems } = await open();
  await go("/t/acme/tools/shapes");
  await page.getByLabel("Kind").selectOption("null");
  await page.getByRole("textbox", { name: "1", exact: true }).fill("left");
  await page.getByRole("textbox", { name: "2", exact: true }).fill("7");
  await page.getByRole("textbox", { name: "a", exact: true }).fill("x");
  await page.getByRole("button", { name: "+ size (default 3)" }).click();
  await page.getByRole("textbox", { name: /^size/ }).fill("4");
  await page.getByRole("button", { name: "Call shapes" }).click();
  await page.getByLabel("Output").getByText('"size": 4').waitFor();
  const output = JSON.parse((await page.getByLabel("Output").locator("pre").textContent()) ?? "");
  expect(output).toEqual({ nick: null, pair: ["left", 7], both: { a: "x", b: true }, size: 4 });
  expect(problems).toEqual([]);
});

test("long names, and text of other scripts, break no page", async () => {
  const name = "n".repeat(128);
  await deploy(name, `export const description = "שלום עולם 🎉"; export default () => ({ "مرحبا": "👩‍👩‍👧" });`);
  const { body } = await under.api<{ id: string }>("POST", `/v1/tenants/acme/tools/${name}/calls`, {});
  const { page, go, problems } = await open();
  for (const width of [360, 1_440]) {
    await page.setViewportSize({ width, height: 800 });
    for (const path of [
      "",
      `/tools/${name}`,
      "/tools",
      "/calls",
      `/calls/${body.id}?tab=input`,
      `/calls/${body.id}?tab=copy`,
    ]) {
      await go(`/t/acme${path}`);
      await page.locator("main h1").waitFor();
      await page.locator(".loading").waitFor({ state: "detached" });
      expect(
        await page.evaluate("document.documentElement.scrollWidth - innerWidth"),
        `${path} at ${width}`,
      ).toBeLessThanOrEqual(0);
    }
  }
  expect(problems).toEqual([]);
});

test("most of a log line is its message, also next to the timeline and on a telephone", async () => {
  await deploy("wordy", `export default () => { console.log("a message that needs some room to be read"); };`);
  const { body } = await under.api<{ id: string }>("POST", "/v1/tenants/acme/tools/wordy/calls", {});
  const { page, go } = await open();
  for (const [width, tab] of [
    [360, "logs"],
    [1_280, "timeline"],
    [1_440, "logs"],
  ] as const) {
    await page.setViewportSize({ width, height: 800 });
    await go(`/t/acme/calls/${body.id}?tab=${tab}`);
    const line = page.locator(".log-line").first();
    await line.waitFor();
    const share = "document.querySelector('.log-text').clientWidth / document.querySelector('.log-line').clientWidth";
    expect(await page.evaluate(share), `${tab} at ${width}`).toBeGreaterThan(0.5);
    await line.click();
    await page
      .getByLabel("The whole line")
      .getByText(/^tool\.[jt]s:1:/)
      .waitFor();
  }
});

test("a list of 1,200 tenants has a filter, and the palette opens each of them", async () => {
  for (let start = 0; start < 1_200; start += 40) {
    const made = Array.from({ length: 40 }, (_, n) => under.api("POST", "/v1/tenants", { id: `tenant-${start + n}` }));
    expect((await Promise.all(made)).every(({ status }) => status === 201)).toBe(true);
  }
  const { page, go } = await open();
  await go("/tenants");
  await page.getByText("The first 500 of 1,201 are shown").waitFor();
  await page.getByLabel("Find in Tenants").fill("tenant-1199");
  await page.getByRole("link", { name: "tenant-1199" }).waitFor();
  expect(await page.locator("tbody tr").count()).toBe(1);
  expect(new URL(page.url()).search).toBe("?find=tenant-1199");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /Page, tool/ }).fill("tenant-999");
  await page
    .getByRole("option", { name: /tenant-999$/ })
    .first()
    .waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Overview of tenant-999" }).waitFor();
});

test("code that was not deployed is back after the session has ended", async () => {
  await deploy("edited", "export default () => 1;");
  const { page, go } = await open();
  await go("/t/acme/tools/edited?tab=edit");
  const editor = page.getByRole("textbox", { name: "Code of the tool" });
  await editor.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("\n// not lost");
  await page.getByText("// not lost").waitFor();
  await page.context().clearCookies();
  // The next request of the page learns that the session has ended.
  await page.getByLabel("API key").fill(under.key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("Your changes of before are back.").waitFor();
  await page.getByText("// not lost").waitFor();
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByText("Version 2 of edited is stored and live.").waitFor();
  await page.reload();
  await page.getByText("// not lost").waitFor();
  expect(await page.getByText("Your changes of before are back.").count()).toBe(0);
});

test("a page says that the server does not answer, and goes on when it does", async () => {
  await using stores = new TestStores();
  const { options } = await stores.create("sqlite");
  const start = (port: number) => createServer({ ...options, port, logLevel: "silent" });
  let server = await start(await freePort());
  const key = server.adminKey as string;
  const port = Number(new URL(server.url).port);
  try {
    await apiOf(server)("POST", "/v1/tenants", { id: "acme" });
    const { page, context, go } = await visit(browser, { server }, key);
    onTestFinished(() => context.close());
    await go("/t/acme");
    await page.getByText("No calls in this time").waitFor();
    await server.close({ drainMs: 0 });
    await page.getByText("The server does not answer.").waitFor({ timeout: 200_000 });
    server = await start(port);
    await page.getByText("The server does not answer.").waitFor({ state: "detached", timeout: 200_000 });
    await page.getByText("No calls in this time").waitFor();
  } finally {
    await server.close({ drainMs: 0 });
  }
});

test("a call that does not exist leads back to the list", async () => {
  const { page, go } = await open();
  await go("/t/acme/calls/call_00000000000000000000000000");
  await page.getByText("NOT_FOUND").waitFor();
  await page.getByRole("link", { name: "All calls of acme" }).click();
  await page.getByRole("heading", { name: "Calls" }).waitFor();
  await page.goBack();
  await page.getByText("NOT_FOUND").waitFor();
});

test("a policy that another operator has changed meanwhile is not overwritten", async () => {
  const { api } = under;
  await api("POST", "/v1/tenants", { id: "shared", policy: { egress: { allow: ["a.example.com"] } } });
  const policyOf = async () =>
    (await api<{ policy: { maxTools: number; egress: unknown } }>("GET", "/v1/tenants/shared")).body.policy;
  const { page, go, problems } = await open();
  await go("/t/shared/settings");
  const text = page.getByLabel("Policy as JSON");
  const fillIn = async (maxTools: number): Promise<void> =>
    text.fill(JSON.stringify({ ...(JSON.parse(await text.inputValue()) as object), maxTools }));
  const save = page.getByRole("button", { name: "Save the policy" });
  await fillIn(7);
  // Each save builds on the one before.
  for (const maxTools of [7, 8]) {
    await fillIn(maxTools);
    await save.click();
    await page.getByText("Saved", { exact: true }).waitFor();
    await expect.poll(async () => (await policyOf()).maxTools, { timeout: 20_000 }).toBe(maxTools);
  }
  await api("PATCH", "/v1/tenants/shared", { policy: { ...(await policyOf()), egress: { allow: [] } } });
  await fillIn(9);
  await save.click();
  await page.getByText("The tenant has been changed since this page was opened").waitFor();
  expect(await policyOf()).toMatchObject({ maxTools: 8, egress: { allow: [] } });
  await page.reload();
  await fillIn(9);
  await save.click();
  await page.getByText("Saved", { exact: true }).waitFor();
  expect(await policyOf()).toMatchObject({ maxTools: 9, egress: { allow: [] } });
  expect(problems).toEqual([]);
});

test("a tab that was signed out goes on when another tab has signed in", async () => {
  const { page, go, context } = await open();
  await go("/t/acme/tools");
  const other = await context.newPage();
  await other.goto(`${under.server.url}/console`);
  await other.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("API key").waitFor();
  await other.getByLabel("API key").fill(under.key);
  await other.getByRole("button", { name: "Sign in" }).click();
  await other.locator("main#content").waitFor();
  // A browser without a screen shows all tabs at once.
  await page.evaluate('document.dispatchEvent(new Event("visibilitychange"))');
  await page.getByRole("heading", { name: "Tools" }).waitFor();
  expect(new URL(page.url()).pathname).toBe("/console/t/acme/tools");
});

test("the page of a tool says that the tool was deleted meanwhile", async () => {
  await deploy("leaving", "export default () => 1;");
  const { page, go } = await open();
  await go("/t/acme/tools/leaving");
  await page.getByRole("button", { name: "Call leaving" }).waitFor();
  await under.api("DELETE", "/v1/tenants/acme/tools/leaving");
  await page.getByRole("alert").getByText("NOT_FOUND").waitFor();
});
