// Who did something: the name of the key next to its id, where the user may read the keys.
import { expect, test } from "vitest";
import { apiOf } from "../server/support/api.ts";
import { useConsole } from "./browser.ts";

const opened = useConsole();
const T = "/v1/tenants/acme";

test("changes have the name and the id of their key, for users who may read keys", async () => {
  const { api, server } = opened.under;
  await api("POST", "/v1/tenants", { id: "acme" });
  const newKey = async (name: string, scopes: readonly string[]) => {
    const { status, body } = await api<{ id: string; key: string }>("POST", `${T}/keys`, { name, scopes });
    expect(status, JSON.stringify(body)).toBe(201);
    return body;
  };
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
