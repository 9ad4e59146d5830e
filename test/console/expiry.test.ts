// The end of keys, and the clock by which the console judges it: the server's.

import { join } from "node:path";
// biome-ignore lint/correctness/noUnresolvedImports: Biome does not know this module of Node
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { PATIENCE_MS, useConsole } from "./browser.ts";

const opened = useConsole();
const HOUR_MS = 3_600_000;

interface CreatedKey {
  readonly id: string;
  readonly key: string;
}

/** Creates a key of a new tenant that expires in some seconds, which the API allows for minutes only. */
async function createShortKey(tenant: string, seconds: number): Promise<CreatedKey> {
  const { api, dataDir } = opened.under;
  await api("POST", "/v1/tenants", { id: tenant });
  const { body } = await api<CreatedKey>("POST", `/v1/tenants/${tenant}/keys`, {
    name: "embedded",
    scopes: ["tools:read", "tools:deploy", "calls:run"],
    expiresInMinutes: 5,
  });
  const database = new DatabaseSync(join(dataDir, "glovebox.sqlite"));
  database.prepare("UPDATE api_keys SET expires_at = ? WHERE id = ?").run(Date.now() + seconds * 1_000, body.id);
  database.close();
  return body;
}

test("an embedded page that sends no requests says when its token ends, and that it has ended", async () => {
  const { key } = await createShortKey("acme", 8);
  const context = await opened.browser.newContext({ locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE_MS);
  try {
    const page = await context.newPage();
    await page.goto(`${opened.under.server.url}/console/t/acme/new-tool#token=${key}`);
    await page.getByText("This view's link expires at").waitFor();
    await page.getByText("This view's link has expired").waitFor();
    expect(await page.getByLabel("API key").count()).toBe(0);
  } finally {
    await context.close();
  }
});

test("a page whose session has ended asks to sign in again without being used", async () => {
  const { key } = await createShortKey("beta", 8);
  const { page, problems } = await opened.open(key);
  await page.getByText("Your session ends at").waitFor();
  await page.getByLabel("API key").waitFor();
  expect(problems).toEqual([]);
});

test.for([HOUR_MS, -HOUR_MS])(
  "ages and expiries follow the server's clock, not a browser's that is %i ms ahead",
  async (ahead) => {
    const { api, server, key } = opened.under;
    const tenant = ahead > 0 ? "ahead" : "behind";
    await api("POST", "/v1/tenants", { id: tenant });
    await api("POST", `/v1/tenants/${tenant}/keys`, { name: "short", scopes: ["calls:read"], expiresInMinutes: 30 });
    const context = await opened.browser.newContext({ locale: "en-GB" });
    context.setDefaultTimeout(PATIENCE_MS);
    try {
      await context.addInitScript(`{
      const RealDate = Date;
      const now = () => RealDate.now() + ${ahead};
      globalThis.Date = class extends RealDate {
        constructor(...given) { given.length === 0 ? super(now()) : super(...given); }
        static now() { return now(); }
      };
    }`);
      const page = await context.newPage();
      await page.goto(`${server.url}/console`);
      await page.getByLabel("API key").fill(key);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.locator("main#content").waitFor();
      await page.goto(`${server.url}/console/t/${tenant}/keys`);
      await page.getByText("active", { exact: true }).waitFor();
      await page.goto(`${server.url}/console/sessions`);
      const row = page.getByRole("row").filter({ hasText: "this one" }).first();
      await expect.poll(() => row.textContent()).toMatch(/\d+ s ago.*in 12 h/);
    } finally {
      await context.close();
    }
  },
);
