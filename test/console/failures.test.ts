// What the console shows when something fails: a call whose stream ends, code of the page that cannot be loaded, and errors with the advice that fits.
import { expect, test } from "vitest";
import { useConsole } from "./browser.ts";

const suite = useConsole();
const { open } = suite;

test("a call that fails before its result shows neither a state nor a link of an earlier call", async () => {
  const { api } = suite.under;
  await api("POST", "/v1/tenants", { id: "lost" });
  await api("POST", "/v1/tenants/lost/tools", { name: "say", source: "export default () => 'said';" });
  const { page, go, problems } = await open();
  await go("/t/lost/tools/say");
  const result = page.locator("section.result");
  const call = page.getByRole("button", { name: "Call say" });
  await call.click();
  await result.getByText("succeeded").waitFor();
  await page.route("**/v1/tenants/lost/tools/say/calls", (route) => route.abort());
  await call.click();
  await page.getByRole("alert").getByText("NETWORK").waitFor();
  expect(await result.textContent()).toBe("The result appears here.");
  await page.unroute("**/v1/tenants/lost/tools/say/calls");
  // A quota ends the stream after the call has its id.
  const id = `call_${"0".repeat(26)}`;
  const error = { code: "QUOTA_EXCEEDED", message: "The quota of the month is used up" };
  const body = `event: started\ndata: {"id":"${id}"}\n\nevent: error\ndata: ${JSON.stringify({ error })}\n\n`;
  await page.route("**/v1/tenants/lost/tools/say/calls", (route) =>
    route.fulfill({ status: 200, contentType: "text/event-stream", body }),
  );
  await call.click();
  await page.getByRole("alert").getByText("The quota of the month is used up").waitFor();
  await result.getByRole("link", { name: "Timeline and details" }).waitFor();
  expect(await result.textContent()).not.toContain("running");
  expect(problems).toEqual([]);
});

test("an editor whose code cannot be loaded says so", async () => {
  await suite.under.api("POST", "/v1/tenants", { id: "offline" });
  const { page, go, problems } = await open();
  await page.route("**/open-editor*", (route) => route.abort());
  await go("/t/offline/new-tool");
  await page.getByText("The editor could not be loaded. Reload the page to try again").waitFor();
  expect(await page.getByText("Loading the type checker…").count()).toBe(0);
  await page.unroute("**/open-editor*");
  await page.reload();
  await page.getByRole("textbox", { name: "Code of the tool" }).waitFor();
  expect(problems).toEqual([]);
});

test("an error gives advice that fits its code: a scope for a missing scope, and to wait for a rate only", async () => {
  const { api } = suite.under;
  const tenant = "/v1/tenants/strict";
  await api("POST", "/v1/tenants", { id: "strict", policy: { capabilities: [] } });
  const source = 'export const capabilities = { fetch: ["example.com"] };\nexport default () => 1;';
  for (let number = 0; number < 64; number += 1) {
    const secret = { value: "a value of a secret", hosts: ["example.com"] };
    expect((await api("PUT", `${tenant}/secrets/s${number}`, secret)).status).toBeLessThan(300);
  }
  const { page, go, problems } = await open();
  await go("/t/strict/new-tool");
  await page.getByLabel("Name", { exact: true }).fill("reach");
  await page.getByRole("textbox", { name: "Code of the tool" }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(source);
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  const alert = page.getByRole("alert");
  await alert.getByText("CAPABILITY_DENIED").waitFor();
  await alert.getByText("The tenant's policy must allow it.").waitFor();
  expect(await alert.textContent()).not.toContain("scope");
  await go("/t/strict/secrets");
  await page.getByRole("button", { name: "Add a secret" }).click();
  await page.getByLabel("Name").fill("s64");
  await page.getByLabel("Value").fill("a value of a secret");
  await page.getByLabel("Hosts").fill("example.com");
  await page.getByRole("button", { name: "Save" }).click();
  await alert.getByText("QUOTA_EXCEEDED").waitFor();
  expect(await alert.textContent()).not.toContain("Wait");
  await page.keyboard.press("Escape");
  for (const [error, advice] of [
    [
      { code: "FORBIDDEN", message: "No scope", details: { scope: "secrets:read" } },
      "It needs a key that has this scope.",
    ],
    [{ code: "FORBIDDEN", message: "The tenant is suspended" }, undefined],
    [{ code: "RATE_LIMITED", message: "Too many requests" }, "Wait a moment, and try again."],
  ] as const) {
    const status = error.code === "FORBIDDEN" ? 403 : 429;
    await page.route("**/v1/tenants/strict/secrets*", (route) => route.fulfill({ status, json: { error } }));
    await page.reload();
    await alert.getByText(error.message).waitFor();
    if (advice === undefined) expect(await alert.locator("p").first().textContent()).not.toContain("scope");
    else await alert.getByText(advice).waitFor();
    await page.unroute("**/v1/tenants/strict/secrets*");
  }
  expect(problems).toEqual([]);
});
