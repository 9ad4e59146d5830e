// Two operators at the same form: the second one to save does not undo what the first one has changed.
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { useConsole } from "./browser.ts";

const opened = useConsole();
const T = "/v1/tenants/acme";
const SOURCE = "export default () => 1;";
const CHANGED = "has been changed since this form was opened, so nothing was saved";

const dialogOf = (page: Page) => page.getByRole("dialog");

test("forms of schedules, webhooks, triggers and keys, and releases, do not undo what another operator has saved", async () => {
  const { api } = opened.under;
  await api("POST", "/v1/tenants", { id: "acme" });
  await api("POST", `${T}/tools`, { name: "price", source: SOURCE });
  await api("POST", `${T}/tools`, { name: "price", source: "export default () => 2;", alias: null });
  const create = async (path: string, body: object): Promise<string> => {
    const created = await api<{ id: string }>("POST", `${T}/${path}`, body);
    expect(created.status).toBe(201);
    return created.body.id;
  };
  const schedule = await create("schedules", { name: "nightly", tool: "price", cron: "30 2 * * *", input: {} });
  const webhook = await create("webhooks", { url: "https://example.com/hook", events: ["call.failed"] });
  const trigger = await create("triggers", { name: "orders", tool: "price" });
  const key = await create("keys", { name: "backend", scopes: ["calls:run"] });
  const { page, go, problems } = await opened.open();

  const refuses = async (path: string, button: string, change: () => Promise<unknown>): Promise<void> => {
    await go(path);
    await page.getByRole("row").getByRole("button", { name: button }).click();
    await dialogOf(page).waitFor();
    await change();
    await dialogOf(page).getByRole("button", { name: "Save" }).click();
    await dialogOf(page).getByText(CHANGED).waitFor();
  };
  await refuses("/t/acme/schedules", "Edit", () => api("PATCH", `${T}/schedules/${schedule}`, { cron: "0 5 * * *" }));
  await refuses("/t/acme/webhooks", "Edit", () =>
    api("PATCH", `${T}/webhooks/${webhook}`, { url: "https://example.com/other" }),
  );
  await refuses("/t/acme/triggers", "Edit", () => api("PATCH", `${T}/triggers/${trigger}`, { alias: "next" }));
  await refuses("/t/acme/keys", "Limits", () =>
    api("PATCH", `${T}/keys/${key}`, { rateLimit: { calls: 5, per: "minute" } }),
  );

  await go("/t/acme/tools/price?tab=releases");
  await page.getByText("Release a version").waitFor();
  // The page shows the releases as they were.
  await page.route("**/tools/price/stats", () => {});
  await api("PUT", `${T}/tools/price/releases/live`, { versions: [{ version: 2, weight: 1 }] });
  await page.getByRole("button", { name: "Release", exact: true }).click();
  await page.getByText("The alias live has been changed since this form").waitFor();
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.getByText("The alias live has been changed since this page").waitFor();
  expect((await api("GET", `${T}/tools/price/releases`)).body).toMatchObject({
    items: [{ versions: [{ version: 2 }] }],
  });

  const read = async (path: string): Promise<unknown> => (await api("GET", `${T}/${path}`)).body;
  expect(await read(`schedules/${schedule}`)).toMatchObject({ cron: "0 5 * * *" });
  expect(await read(`keys/${key}`)).toMatchObject({ rateLimit: { calls: 5, per: "minute" } });
  expect(await read("webhooks")).toMatchObject({ items: [{ url: "https://example.com/other" }] });
  expect(await read("triggers")).toMatchObject({ items: [{ alias: "next" }] });
  expect(problems).toEqual([]);
});

test("a form saves when only its state or its times have changed", async () => {
  const { api } = opened.under;
  await api("POST", "/v1/tenants", { id: "beta" });
  await api("POST", "/v1/tenants/beta/tools", { name: "price", source: SOURCE });
  const path = "/v1/tenants/beta/schedules";
  const body = { name: "nightly", tool: "price", cron: "30 2 * * *", input: {} };
  const { id } = (await api<{ id: string }>("POST", path, body)).body;
  const { page, go } = await opened.open();
  await go("/t/beta/schedules");
  await page.getByRole("row").getByRole("button", { name: "Edit" }).click();
  await api("PATCH", `${path}/${id}`, { state: "paused" });
  await dialogOf(page).getByLabel("Cron").fill("0 6 * * *");
  await dialogOf(page).getByRole("button", { name: "Save" }).click();
  await dialogOf(page).waitFor({ state: "detached" });
  expect((await api("GET", `${path}/${id}`)).body).toMatchObject({ cron: "0 6 * * *", state: "paused" });
  // Twice, because a stored limit could be read in another form than the list has it.
  await api("POST", "/v1/tenants/beta/keys", { name: "backend", scopes: ["calls:run"] });
  for (const [month, shown] of [
    ["7", "calls per month: 7"],
    ["8", "calls per month: 8"],
  ] as const) {
    await go("/t/beta/keys");
    await page.getByRole("row").getByRole("button", { name: "Limits" }).click();
    await dialogOf(page).getByLabel("Calls per month").fill(month);
    await dialogOf(page).getByRole("button", { name: "Save" }).click();
    await page.getByText(shown).waitFor();
  }
});

test("a stored value or a secret is replaced only where the form says so, and not after another change", async () => {
  const { api } = opened.under;
  await api("POST", "/v1/tenants", { id: "gamma" });
  await api("POST", "/v1/tenants/gamma/tools", { name: "price", source: "export default () => 1" });
  const values = "/v1/tenants/gamma/kv/price/values";
  const expiresAt = Date.now() + 86_400_000;
  await api("PUT", `${values}/rate`, { value: { percent: 7 }, expiresAt });
  const { page, go, problems } = await opened.open();
  const fill = async (button: string, fields: { readonly [label: string]: string }): Promise<void> => {
    await page.getByRole("button", { name: button }).click();
    for (const [label, text] of Object.entries(fields)) await dialogOf(page).getByLabel(label).fill(text);
    await dialogOf(page).getByRole("button", { name: "Save" }).click();
  };
  const close = async (): Promise<void> => {
    await page.keyboard.press("Escape");
    await dialogOf(page).waitFor({ state: "detached" });
  };

  await go("/t/gamma/kv?tool=price");
  await fill("Add a value", { Key: "rate", "Value as JSON": "8" });
  await dialogOf(page).getByText("There is a value with this key, so nothing was saved").waitFor();
  await close();
  await page.getByRole("row").getByRole("button", { name: "Edit" }).click();
  await dialogOf(page).getByLabel("Value as JSON").fill('{ "percent": 8 }');
  await api("PUT", `${values}/rate`, { value: { percent: 9 }, expiresAt });
  await dialogOf(page).getByRole("button", { name: "Save" }).click();
  await dialogOf(page).getByText(CHANGED).waitFor();
  await close();
  expect((await api("GET", `${values}/rate`)).body).toMatchObject({ value: { percent: 9 } });
  await go("/t/gamma/kv?tool=price&prefix=r");
  await fill("Edit", { "Value as JSON": '{ "percent": 10 }' });
  await dialogOf(page).waitFor({ state: "detached" });
  expect((await api("GET", `${values}/rate`)).body).toMatchObject({ value: { percent: 10 }, expiresAt });

  const secrets = "/v1/tenants/gamma/secrets";
  await api("PUT", `${secrets}/KEY`, { value: "first-value", hosts: ["api.example.com"] });
  await go("/t/gamma/secrets");
  await fill("Add a secret", { Name: "KEY", Value: "second-value", Hosts: "evil.example.com" });
  await dialogOf(page).getByText("There is a secret with this name, so nothing was saved").waitFor();
  await close();
  expect((await api("GET", secrets)).body).toMatchObject({ items: [{ hosts: ["api.example.com"] }] });
  await page.getByRole("button", { name: "Replace" }).click();
  expect(await dialogOf(page).getByLabel("Hosts").inputValue()).toBe("api.example.com");
  await dialogOf(page).getByLabel("Value").fill("third-value");
  await dialogOf(page).getByLabel("Hosts").fill("api.example.com, eu.example.com");
  await dialogOf(page).getByRole("button", { name: "Save" }).click();
  await dialogOf(page).waitFor({ state: "detached" });
  expect((await api("GET", secrets)).body).toMatchObject({ items: [{ hosts: ["api.example.com", "eu.example.com"] }] });
  expect(problems).toEqual([]);
});

test("the editor keeps code that is not deployed when another operator deploys a version", async () => {
  const { api } = opened.under;
  await api("POST", "/v1/tenants", { id: "delta" });
  const deploy = (number: number): Promise<unknown> =>
    api("POST", "/v1/tenants/delta/tools", { name: "price", source: `export default () => ${number};` });
  await deploy(1);
  const { page, go, problems } = await opened.open();
  await go("/t/delta/tools/price?tab=edit");
  const editor = page.getByRole("textbox", { name: "Code of the tool" });
  const write = async (text: string): Promise<void> => {
    await editor.click();
    await page.keyboard.press("Control+End");
    await page.keyboard.insertText(text);
  };
  await write(" // mine");
  await deploy(2);
  await page.getByText("Version 2 was deployed meanwhile").waitFor();
  expect(await editor.textContent()).toBe("export default () => 1; // mine");
  // What is written while the own deployment runs stays, also after a reload.
  const { promise: isSent, resolve: onSent } = Promise.withResolvers<void>();
  const { promise: mayGoOn, resolve: goOn } = Promise.withResolvers<void>();
  await page.route("**/v1/tenants/delta/tools", async (route) => {
    onSent();
    await mayGoOn;
    await route.continue();
  });
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await isSent;
  await write(" // later");
  goOn();
  await page.getByText("Version 3 of price is stored and live.").waitFor();
  await page.getByText("Version 2 was deployed meanwhile").waitFor({ state: "detached" });
  expect(await editor.textContent()).toBe("export default () => 1; // mine // later");
  await page.unroute("**/v1/tenants/delta/tools");
  await page.reload();
  await page.getByText("Your changes of before are back.").waitFor();
  expect(await editor.textContent()).toBe("export default () => 1; // mine // later");
  await deploy(4);
  await page.getByRole("button", { name: "Load version 4" }).click();
  await page.getByRole("button", { name: "Load it" }).click();
  await expect.poll(() => editor.textContent()).toBe("export default () => 4;");
  expect(await page.getByText("was deployed meanwhile").count()).toBe(0);
  expect(problems).toEqual([]);
});
