// The console in a real browser: a team hosts a tool from an empty server to the deletion of its tenant, by mouse and keyboard.
import { describe, expect, onTestFinished, test } from "vitest";
import { PATIENCE_MS, useConsole } from "./browser.ts";

const suite = useConsole();
const { open } = suite;

describe("the console", () => {
  test("rejects a wrong key, and says what it expects", async () => {
    const context = await suite.browser.newContext({ locale: "en-GB" });
    onTestFinished(() => context.close());
    context.setDefaultTimeout(PATIENCE_MS);
    const page = await context.newPage();
    await page.goto(`${suite.under.server.url}/console`);
    await page.getByLabel("API key").fill("gbx_wrong");
    await page.getByRole("button", { name: "Sign in" }).click();
    expect(await page.getByRole("alert").textContent()).toContain("This key is not valid");
  });

  test("tells the whole story of a tool", async () => {
    const { page, problems } = await open();
    await page.getByRole("link", { name: "Tenants" }).click();
    await page.getByRole("button", { name: "New tenant" }).click();
    await page.getByLabel("Id").fill("acme");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "Overview of acme" }).waitFor();

    // Write a tool, run it without deploying it, and deploy it.
    await page.getByRole("link", { name: "Tools" }).click();
    await page.getByRole("link", { name: "New tool" }).click();
    const editor = page.getByRole("textbox", { name: "Code of the tool" });
    await editor.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.insertText("\n// edited in the browser\n");
    await page.getByRole("textbox", { name: "name", exact: true }).fill("Grace");
    await page.getByRole("button", { name: "Run without deploying" }).click();
    await page.getByText('"greeting": "Hello, Grace!"').waitFor();
    await page.getByLabel("Name", { exact: true }).fill("greet");
    await page.getByRole("button", { name: "Deploy", exact: true }).click();
    await page.getByRole("heading", { name: "greet" }).waitFor();

    // Call it with the form, and look at the call.
    await page.getByRole("textbox", { name: "name" }).fill("Ada");
    await page.getByRole("button", { name: "Call greet" }).click();
    await page.getByText('"greeting": "Hello, Ada!"').waitFor();
    await page.getByRole("link", { name: "Timeline and details" }).click();
    await page.getByText("Run the tool").waitFor();
    await page.getByRole("tab", { name: "Logs" }).click();
    await page.getByText("greeting Ada").waitFor();
    await page.getByRole("tab", { name: "Run again" }).click();
    await page.getByRole("textbox", { name: "name" }).fill("Linus");
    await page.getByRole("button", { name: "Run again" }).click();
    await page.getByText("Hello, Linus!").first().waitFor();
    await page.getByRole("tab", { name: "Copy as" }).click();
    await page.getByText("npx glovebox call greet --tenant acme").waitFor();

    // A second version as a canary, and back.
    const source = "export const description = 'second'; export default () => ({ greeting: 'second' });";
    expect(
      (await suite.under.api("POST", "/v1/tenants/acme/tools", { name: "greet", source, alias: null })).status,
    ).toBe(201);
    await page.getByRole("link", { name: "Tools" }).click();
    await page.getByRole("link", { name: "greet" }).click();
    await page.getByRole("tab", { name: "Versions" }).click();
    await page.getByRole("button", { name: "Compare with v1" }).click();
    await page.getByText("-export const description").first().waitFor();
    await page.getByRole("tab", { name: "Releases" }).click();
    await page.getByLabel("Version").selectOption("2");
    await page.getByLabel("Share of the calls in %").fill("10");
    await page.getByRole("button", { name: "Release", exact: true }).click();
    await page.getByText("90 %").waitFor();
    await page.getByRole("button", { name: "Roll back" }).click();
    await page.getByText("100 %").waitFor();

    // Something that needs approval.
    const wants = "export const capabilities = { kv: {} }; export default () => 1;";
    await suite.under.api("POST", "/v1/tenants/acme/tools", { name: "greet", source: wants });
    await page.getByRole("link", { name: "Approvals" }).click();
    await page.getByText("+ kv").waitFor();
    await page.getByRole("button", { name: "Approve" }).click();
    await page.getByText("Nothing waits for approval").waitFor();

    // The end: the tenant is deleted, after its name was typed.
    await page.getByRole("link", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Delete the tenant" }).click();
    const confirm = page.getByRole("dialog").getByRole("button", { name: "Delete the tenant" });
    expect(await confirm.isDisabled()).toBe(true);
    await page.getByLabel("Type acme to confirm").fill("acme");
    await confirm.click();
    await page.getByText("No tenants yet").waitFor();
    expect((await suite.under.api("GET", "/v1/tenants/acme")).status).toBe(404);
    expect(problems).toEqual([]);
  });

  test("shows log lines while a call runs, and cancels it", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "live" });
    const source = `export const limits = { timeoutMs: 300_000 };
      export default async () => { for (let n = 0; ; n += 1) { console.log("line " + n); await new Promise((r) => setTimeout(r, 400)); } };`;
    await suite.under.api("POST", "/v1/tenants/live/tools", { name: "endless", source });
    const { page, problems, go } = await open();
    await go("/t/live/tools/endless");
    await page.getByRole("button", { name: "Call endless" }).click();
    // The log stays at its end, so only that its last line changes is certain.
    const lastLine = page.getByText(/^line \d+$/).last();
    await lastLine.waitFor();
    await page.getByRole("link", { name: "Timeline and details" }).click();
    // The unfinished timeline: the tool runs, and its bar says for how long.
    const running = page.getByLabel("Spans of the call").locator(".span-row").filter({ hasText: "Run the tool" });
    await running.getByText("running").waitFor();
    const lasted = await running.locator(".span-ms").textContent();
    await expect.poll(() => running.locator(".span-ms").textContent(), { timeout: PATIENCE_MS }).not.toBe(lasted);
    await page.getByRole("tab", { name: "Logs" }).click();
    const first = await lastLine.textContent();
    await expect.poll(() => lastLine.textContent(), { timeout: PATIENCE_MS }).not.toBe(first);
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("cancelled").first().waitFor();
    await page.getByRole("tab", { name: "Timeline" }).click();
    await page.getByText("Run the tool").waitFor();
    await running.getByText("failed").waitFor();
    expect(problems).toEqual([]);
  });

  test("moves by keyboard: the command palette finds pages, tools and tenants", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "keyboard" });
    const { page, go } = await open();
    await go("/t/keyboard");
    await page.getByRole("heading", { name: "Overview of keyboard" }).waitFor();
    await page.keyboard.press("Control+k");
    const input = page.getByRole("combobox", { name: /Page, tool/ });
    await input.waitFor();
    expect(await page.evaluate("document.activeElement?.getAttribute('role')")).toBe("combobox");
    await page.keyboard.insertText("secrets of");
    await page.getByRole("option", { name: "Secrets of keyboard", selected: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL("**/console/t/keyboard/secrets");
    await page.getByRole("heading", { name: "No secrets" }).waitFor();
  });

  test("keeps filters in the URL", async () => {
    await suite.under.api("POST", "/v1/tenants", { id: "filters" });
    const source = "export default ({ fails }) => { if (fails) throw new Error('needle'); return 'ok'; };";
    await suite.under.api("POST", "/v1/tenants/filters/tools", { name: "maybe", source });
    for (const fails of [true, false, false]) {
      await suite.under.api("POST", "/v1/tenants/filters/tools/maybe/calls", { input: { fails } });
    }
    const { page, go } = await open();
    await go("/t/filters/calls");
    await page.getByRole("list", { name: "Calls" }).getByRole("listitem").nth(2).waitFor();
    await page.getByLabel("Outcome").selectOption("failed");
    await page.getByText("needle").waitFor();
    expect(new URL(page.url()).search).toBe("?state=failed");
    await page.reload();
    await page.getByText("needle").waitFor();
    expect(await page.getByRole("list", { name: "Calls" }).getByRole("listitem").count()).toBe(1);
    await go("/t/filters/calls?text=nothing-like-this");
    await page.getByText("No call matches these filters").waitFor();
  });
});

describe("a session", () => {
  test("a session of a tenant's key sees nothing of other tenants", async () => {
    for (const id of ["own", "other"]) await suite.under.api("POST", "/v1/tenants", { id });
    await suite.under.api("POST", "/v1/tenants/other/tools", { name: "hidden", source: "export default () => 1;" });
    const { body: call } = await suite.under.api<{ id: string }>("POST", "/v1/tenants/other/tools/hidden/calls", {});
    const scopes = [
      "tenants:read",
      "keys:read",
      "tools:read",
      "calls:read",
      "calls:run",
      "usage:read",
      "kv:read",
      "secrets:read",
      "schedules:read",
      "webhooks:read",
      "audit:read",
    ];
    const { body: created } = await suite.under.api<{ key: string }>("POST", "/v1/tenants/own/keys", {
      name: "own",
      scopes,
    });
    const { page, go } = await open(created.key);
    const statuses: number[] = [];
    page.on("response", (response) => {
      if (response.url().includes("/v1/tenants/other")) statuses.push(response.status());
    });
    const pages = [
      "",
      "/calls",
      `/calls/${call.id}`,
      "/tools",
      "/tools/hidden",
      "/approvals",
      "/schedules",
      "/webhooks",
      "/secrets",
      "/kv",
      "/keys",
      "/audit",
      "/settings",
    ];
    for (const path of pages) {
      await go(`/t/other${path}`);
      await page.getByRole("alert").first().waitFor();
      expect(await page.locator("main").textContent()).not.toContain("hidden@");
    }
    expect(statuses.length).toBeGreaterThanOrEqual(pages.length);
    expect(new Set(statuses)).toEqual(new Set([404]));
    for (const path of ["/tenants", "/workers", "/keys"]) {
      await go(path);
      await page.getByText("There is no such page").waitFor();
    }
  });

  test("ends when its key is revoked", async () => {
    const { body: created } = await suite.under.api<{ id: string; key: string }>("POST", "/v1/keys", {
      name: "short",
      scopes: ["usage:read"],
    });
    const { page } = await open(created.key);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect((await suite.under.api("DELETE", `/v1/keys/${created.id}`)).status).toBe(200);
    await page.getByLabel("API key").waitFor();
  });
});
