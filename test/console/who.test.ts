// Who did something: the name of the key next to its id, where the user may read the keys.
import { expect, test } from "vitest";
import { apiOf } from "../server/support/api.ts";
import { PATIENCE_MS, useConsole } from "./browser.ts";

const opened = useConsole();
const T = "/v1/tenants/acme";

async function newKey(name: string, scopes: readonly string[]): Promise<{ readonly id: string; readonly key: string }> {
  const key = { name, scopes, expiresInMinutes: 30 };
  const { status, body } = await opened.under.api<{ id: string; key: string }>("POST", `${T}/keys`, key);
  expect(status, JSON.stringify(body)).toBe(201);
  return body;
}

test("changes have the name and the id of their key, for users who may read keys", async () => {
  const { api, server } = opened.under;
  await api("POST", "/v1/tenants", { id: "acme" });
  const bot = await newKey("deploy bot", ["tools:deploy", "tools:read", "releases:write"]);
  const auditor = await newKey("auditor", ["audit:read", "tools:read"]);
  const deployed = { name: "price", source: "export default () => 1;" };
  const created = await apiOf(server, bot.key)("POST", `${T}/tools`, deployed);
  expect(created.status).toBe(201);

  const { page, go, problems } = await opened.open();
  await go("/t/acme/audit");
  const row = page.getByRole("row").filter({ hasText: "version.deployed" });
  await row.getByText(`deploy bot ${bot.id}`).waitFor();
  // The key of the operator, which belongs to the platform.
  const other = page.getByRole("row").filter({ hasText: "key.created" }).first();
  expect(await other.textContent()).toMatch(/\S+ key_\S+/);
  await go("/t/acme/tools/price?tab=releases");
  await page.getByText(/^deploy bot/).waitFor();
  expect(problems).toEqual([]);

  const reader = await opened.open();
  await reader.go("/t/acme/audit");
  await reader.page.getByText(/^deploy bot/).waitFor();
  // Another user signs in, in the same tab.
  await reader.page.getByRole("button", { name: "Sign out" }).click();
  await reader.page.getByLabel("API key").fill(auditor.key);
  await reader.page.getByRole("button", { name: "Sign in" }).click();
  const withoutName = reader.page.getByRole("row").filter({ hasText: "version.deployed" });
  await withoutName.getByText(`key:${bot.id}`, { exact: true }).waitFor();
  expect(await withoutName.textContent()).not.toContain("deploy bot");
  expect(reader.problems).toEqual([]);
});

test("a user who has signed in in another tab sees no names that the one before has loaded", async () => {
  const { api, server } = opened.under;
  await api("POST", "/v1/tenants", { id: "acme" });
  const reader = await newKey("reader", ["audit:read", "keys:read", "tools:read"]);
  const auditor = await newKey("auditor", ["audit:read", "tools:read"]);
  const context = await opened.browser.newContext({ locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE_MS);
  try {
    const page = await context.newPage();
    await page.clock.install();
    await page.goto(`${server.url}/console/t/acme/audit`);
    await page.getByLabel("API key").fill(reader.key);
    await page.getByRole("button", { name: "Sign in" }).click();
    const row = page.getByRole("row").filter({ hasText: "console.signed_in" });
    await row.getByText(`reader ${reader.id}`).waitFor();
    // As another tab does it: both have the same cookie.
    const sign = { headers: { "x-glovebox-console": "1" }, data: { key: auditor.key } };
    expect((await context.request.post(`${server.url}/v1/console/sessions`, sign)).status()).toBe(201);
    // The end of the session of the first user, as its tab knows it.
    await page.clock.fastForward("31:00");
    await row.getByText(`key:${reader.id}`, { exact: true }).waitFor();
  } finally {
    await context.close();
  }
});
