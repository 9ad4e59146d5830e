// Signing in to the console at an identity provider, in a real browser.
import { type AddressInfo, createServer as createNetServer } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLIENT_ID, OpenIdProvider } from "../server/support/openid-provider.ts";
import { type ConsoleUnderTest, openBrowser, openConsole, PATIENCE_MS } from "./browser.ts";

let provider: OpenIdProvider;
let browser: Browser;
let under: ConsoleUnderTest;
const SCOPE = "glovebox:tools:read glovebox:calls:read glovebox:usage:read";

/** Returns a port that is free now: the provider must know it before the server listens. */
async function findPort(): Promise<number> {
  const server = createNetServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

beforeAll(async () => {
  const port = await findPort();
  provider = await OpenIdProvider.start();
  const oidc = {
    issuer: provider.issuer,
    clientId: CLIENT_ID,
    clientSecret: "a secret of the client",
    publicUrl: `http://127.0.0.1:${port}`,
    scopePrefix: "glovebox:",
  };
  [browser, under] = await Promise.all([openBrowser(), openConsole({ port, oidc })]);
  await under.api("POST", "/v1/tenants", { id: "acme" });
});
afterAll(async () => {
  await browser.close();
  await under[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
});

test("a sign-in leads back to the page that was opened, a used code to nothing, and signing out to the start", async () => {
  provider.idToken = (nonce) => provider.sign({ nonce, scope: SCOPE });
  const { url } = under.server;
  const context = await browser.newContext({ locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  let callback = "";
  page.on("request", (request) => {
    if (request.url().includes("/sign-in/callback")) callback = request.url();
  });
  await page.goto(`${url}/console/t/acme/calls?tool=price`);
  await page.getByRole("link", { name: "Sign in with your account" }).click();
  await page.getByText("No call matches these filters").waitFor();
  expect(page.url()).toBe(`${url}/console/t/acme/calls?tool=price`);
  await page.goto(callback);
  await page.getByText("Overview of acme").waitFor();
  await expect.poll(() => page.url()).toBe(`${url}/console`);
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("link", { name: "Sign in with your account" }).waitFor();
  expect(await page.getByText("Signing in at the identity provider failed").count()).toBe(0);
  expect(await context.cookies()).toEqual([]);
  await page.goto(callback);
  await page.getByText("Signing in at the identity provider failed").waitFor();
  await context.close();
});

test.for([
  ["another nonce", () => ({ nonce: "other" })],
  ["another audience", (nonce: string) => ({ nonce, aud: "other" })],
  ["an expired token", (nonce: string) => ({ nonce, iat: 1, exp: 2 })],
] as const)("%s opens no session, and the page says that it failed", async ([, claimsOf]) => {
  provider.idToken = (nonce) => provider.sign({ scope: SCOPE, ...claimsOf(nonce) });
  const context = await browser.newContext({ locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await page.goto(`${under.server.url}/console`);
  await page.getByRole("link", { name: "Sign in with your account" }).click();
  await page.getByText("Signing in at the identity provider failed").waitFor();
  expect((await context.cookies()).map(({ name }) => name)).not.toContain("glovebox_session");
  await context.close();
});
