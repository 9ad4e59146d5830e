// What tools, tenants and clients write is shown as text: no payload runs, and the page's policy has nothing to block.
import { readFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findViolations } from "./axe.ts";
import { type ConsoleUnderTest, openBrowser, openConsole, PATIENCE_MS, REMOTE_NAME, visit } from "./browser.ts";

let browser: Browser;
let under: ConsoleUnderTest;

beforeAll(async () => {
  [browser, under] = await Promise.all([openBrowser(), openConsole()]);
});
afterAll(async () => {
  await browser.close();
  await under[Symbol.asyncDispose]();
});

interface Outcome {
  readonly id: string;
  readonly output?: { readonly list: readonly string[] };
  readonly error?: { readonly message: string };
}

const ACTION = "globalThis.stolen=1";
const TEMPLATES: readonly ((action: string) => string)[] = [
  (action) => `<script>${action}</script>`,
  (action) => `<img src=x onerror="${action}">`,
  (action) => `<svg onload="${action}">`,
  (action) => `"><script>${action}</script>`,
  (action) => `'><img src=x onerror='${action}'>`,
  (action) => `</title><script>${action}</script>`,
  (action) => `</textarea><script>${action}</script>`,
  (action) => `</pre><img src=x onerror=${action}>`,
  (action) => `<iframe srcdoc="<script>parent.${action}</script>">`,
  (action) => `<iframe src="javascript:${action}">`,
  (action) => `<a href="javascript:${action}">x</a>`,
  (action) => `javascript:${action}`,
  (action) => `<details open ontoggle="${action}">`,
  (action) => `<body onload="${action}">`,
  (action) => `<input autofocus onfocus="${action}">`,
  (action) => `<math><mtext><script>${action}</script></mtext></math>`,
  (action) => `<style>@import 'javascript:${action}'</style>`,
  (action) => `<object data="data:text/html,<script>${action}</script>">`,
  (action) => `\${${action}}`,
  (action) => `{{constructor.constructor('${action}')()}}`,
];
/** Five ways to write each of the twenty. */
const PAYLOADS = TEMPLATES.flatMap((template) => [
  template(ACTION),
  template(ACTION).toUpperCase().replace("GLOBALTHIS.STOLEN", "globalThis.stolen"),
  template(`eval('${ACTION.replaceAll("a", "\\u0061")}')`),
  `${template(ACTION)}\u0000\u202e`,
  `\u001b[31m${template(ACTION)}\n\r${template(ACTION)}`,
]);
/** One call has five payloads of five templates, in one of the ways: a page of each payload would take most of the test's time. */
const CALLS = 20;

test("none of a hundred payloads runs, wherever it is shown", async () => {
  expect(PAYLOADS).toHaveLength(100);
  const { api, key } = under;
  await api("POST", "/v1/tenants", { id: "acme", name: PAYLOADS[0] });
  const echo = `export const description = ${JSON.stringify(PAYLOADS[1])};
    export const inputSchema = { type: "object", title: ${JSON.stringify(PAYLOADS[3])}, properties: { texts: { type: "array", items: { type: "string" }, title: ${JSON.stringify(PAYLOADS[0])}, description: ${JSON.stringify(PAYLOADS[5])} }, fails: { type: "boolean" } }, additionalProperties: false };
    export default ({ texts, fails }) => {
      for (const text of texts) { console.log(text); console.error({ [text]: text }); }
      if (fails) throw Object.assign(new Error(texts.join(" ")), { name: texts.join(" ") });
      return { ...Object.fromEntries(texts.map((text) => [text, text])), list: texts };
    };`;
  expect((await api("POST", "/v1/tenants/acme/tools", { name: "echo", source: echo })).status).toBe(201);
  const ids: string[] = [];
  for (let index = 0; index < CALLS; index += 1) {
    const texts = PAYLOADS.filter((_, at) => at % CALLS === index);
    const fails = index % 2 === 1;
    const { body } = await api<Outcome>("POST", "/v1/tenants/acme/tools/echo/calls", { input: { texts, fails } });
    if (fails) for (const text of texts) expect(body.error?.message).toContain(text);
    else expect(body.output?.list).toEqual(texts);
    ids.push(body.id);
  }
  const store =
    "export const capabilities = { kv: {} }; export default async ({ key, value }, ctx) => { await ctx.kv.set(key, value); };";
  await api("POST", "/v1/tenants/acme/tools", { name: "store", source: store });
  await api("POST", "/v1/tenants/acme/tools/store/versions/1/approve");
  await api("PUT", "/v1/tenants/acme/tools/store/releases/live", { versions: [{ version: 1, weight: 1 }] });
  for (const text of PAYLOADS.slice(0, 20))
    await api("POST", "/v1/tenants/acme/tools/store/calls", { input: { key: text, value: text } });
  await api("POST", "/v1/tenants/acme/keys", { name: PAYLOADS[1], scopes: ["calls:read"] });
  await api("POST", "/v1/tenants/acme/schedules", {
    name: "s",
    tool: "echo",
    cron: "0 0 1 1 *",
    input: { texts: [PAYLOADS[0]] },
  });
  // A session whose browser has such a name.
  await fetch(`${under.server.url}/v1/console/sessions`, {
    method: "POST",
    headers: { "content-type": "application/json", "user-agent": PAYLOADS[1] as string },
    body: JSON.stringify({ key }),
  });
  const { page, problems, go, context } = await visit(browser, under, key);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: a template of the page
  const report = "(event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)";
  await page.addInitScript(`addEventListener("securitypolicyviolation", ${report})`);
  const stolen = () => page.evaluate("globalThis.stolen");
  const pages = [
    "/calls",
    "/tools/echo",
    "/tools/echo?tab=versions",
    "/tools/echo?tab=edit",
    "/kv?tool=store",
    "/keys",
    "/audit",
    "/settings",
    "/schedules",
  ];
  for (const path of [...pages.map((own) => `/t/acme${own}`), "/tenants", "/sessions", "/audit", ""]) {
    await go(path);
    await page.waitForLoadState("networkidle");
    expect(await stolen()).toBeUndefined();
  }
  for (const id of ids) {
    const path = JSON.stringify(`/console/t/acme/calls/${id}?tab=input`);
    await page.evaluate(`history.pushState(null, "", ${path}); dispatchEvent(new PopStateEvent("popstate"))`);
    await page.getByRole("heading", { name: id }).waitFor();
    await page.getByRole("tab", { name: "Logs" }).click();
    await page.getByRole("log").or(page.getByRole("tabpanel")).or(page.locator(".log-line")).first().waitFor();
    await page.getByRole("tab", { name: "Copy as" }).click();
    expect(await stolen()).toBeUndefined();
  }
  expect(await page.locator("main script, main iframe, main img, main svg, main object, main style").count()).toBe(0);
  expect(problems).toEqual([]);
  await context.close();
});

test("characters that reorder or hide text are shown as escapes where a person reads or decides", async () => {
  const { api, key } = under;
  const hidden = ["\u202e", "\u202c", "\u200b", "\u{e0041}", "\u001b"];
  const swapped = "to \u202e321-YM\u202c and \u{e0041}\u200b\u001b[2J";
  await api("POST", "/v1/tenants", { id: "shown" });
  const base = "/v1/tenants/shown/tools";
  const pay = (more: string): string => `export const description = ${JSON.stringify(swapped)};
    export const annotations = { destructiveHint: true };
    export default async (input, ctx) => {
      ${more}
      console.log(input.text);
      await ctx.span(input.text, { [input.text]: input.text }, () => 1);
      if (input.fails) throw new Error(input.text);
      return input;
    };`;
  await api("POST", base, { name: "pay", source: pay("") });
  await api("POST", base, { name: "pay", source: pay(`if (input.admin /*${swapped}*/) return 1;`) });
  await api("POST", `${base}/pay/calls`, { input: { text: swapped } });
  const ids: string[] = [];
  for (const fails of [false, true]) {
    const input = { text: swapped, fails };
    ids.push((await api<Outcome>("POST", `${base}/pay/calls`, { input, approve: true })).body.id);
  }
  const { page, problems, go, context } = await visit(browser, under, key);
  const expectShown = async (): Promise<void> => {
    const text = (await page.locator("main").textContent()) ?? "";
    expect(text).toContain("\\u202e321-YM\\u202c");
    expect(hidden.filter((character) => text.includes(character))).toEqual([]);
  };
  await go("/t/shown/approvals");
  await page.getByRole("region", { name: "Arguments" }).waitFor();
  await expectShown();
  await go("/t/shown/calls");
  await page.locator("a.call-row").nth(2).waitFor();
  await expectShown();
  await go("/t/shown/tools/pay?tab=versions");
  await page.getByRole("button", { name: "Compare with v1" }).click();
  await page.getByText("input.admin").waitFor();
  await expectShown();
  for (const id of ids) {
    await go(`/t/shown/calls/${id}`);
    await page.locator(".log-line").click();
    await page.getByRole("button", { name: "to \\u202e321" }).first().click();
    await expectShown();
  }
  await page.getByRole("tab", { name: "Run again" }).click();
  // The escapes stand for the same value.
  await page.getByLabel("Input as JSON").fill(await page.getByLabel("Input as JSON").inputValue());
  await page.getByRole("button", { name: "Run again" }).click();
  await page.getByRole("link", { name: "New result" }).waitFor();
  const { body } = await api<{ items: readonly { input: unknown }[] }>("GET", "/v1/tenants/shown/calls?limit=1");
  expect(body.items[0]?.input).toEqual({ text: swapped, fails: true });
  expect(problems).toEqual([]);
  await context.close();
});

test("the page loads nothing of another origin, and may not be framed", async () => {
  const { page, context, go } = await visit(browser, under, under.key);
  const origins = new Set<string>();
  page.on("request", (request) => origins.add(new URL(request.url()).origin));
  for (const path of ["", "/tenants", "/calls", "/workers", "/fleet"]) {
    await go(path);
    await page.waitForLoadState("networkidle");
  }
  expect([...origins]).toEqual([under.server.url]);
  const response = await fetch(`${under.server.url}/console`);
  const policy = response.headers.get("content-security-policy") ?? "";
  expect(policy).toContain("default-src 'none'");
  expect(policy).toContain("frame-ancestors 'none'");
  expect(policy).not.toContain("unsafe");
  await context.close();
});

test("without encryption, the page says what to do, and takes no key", async () => {
  await using remote = await openConsole({ allowHosts: [REMOTE_NAME] });
  const { port } = new URL(remote.server.url);
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const bodies: (string | null)[] = [];
  page.on("request", (sent) => bodies.push(sent.postData()));
  await page.goto(`http://${REMOTE_NAME}:${port}/console/t/acme/calls`);
  expect(await page.getByRole("alert").textContent()).toContain(
    `The browser keeps no session for http://${REMOTE_NAME}:${port}`,
  );
  await page.getByText(`ssh -N -L ${port}:${REMOTE_NAME}:${port} ${REMOTE_NAME}`).waitFor();
  await page.getByText("--allow-host").waitFor();
  expect([await page.locator("input").count(), bodies.filter((body) => body !== null)]).toEqual([0, []]);
  expect(await findViolations(page, "not-encrypted")).toEqual([]);
  // The end of the tunnel is an address of the user's own machine.
  await page.goto(`http://127.0.0.1:${port}/console`);
  await page.getByLabel("API key").fill(remote.key);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("main#content").waitFor();
  await context.close();
});

test("another page can show the console in a frame only where the operator allows its origin", async () => {
  await using embedded = await openConsole({ embedOrigins: ["https://app.example.com"] });
  const response = await fetch(`${embedded.server.url}/console/t/acme`);
  expect(response.headers.get("content-security-policy")).toContain("frame-ancestors https://app.example.com");
  expect(response.headers.get("x-frame-options")).toBeNull();
  await embedded.api("POST", "/v1/tenants", { id: "acme" });
  const { body } = await embedded.api<{ key: string }>("POST", "/v1/tenants/acme/keys", {
    name: "embedded",
    scopes: ["calls:read", "usage:read"],
    expiresInMinutes: 5,
  });
  const context = await browser.newContext({ locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  await page.goto(`${embedded.server.url}/console/t/acme/calls?theme=dark#token=${body.key}`);
  await page.getByText("No calls yet").waitFor();
  expect(page.url()).not.toContain("gbx_");
  expect(await page.evaluate("document.documentElement.dataset.theme")).toBe("dark");
  expect(await context.cookies()).toEqual([]);
  await context.close();
});

test("works in a frame of another origin without the browser's storage, until its token is invalid", async () => {
  // Another site than 127.0.0.1 for a browser.
  const around = createHttpServer((_request, response) => response.setHeader("content-type", "text/html").end(frame));
  await new Promise<void>((resolve) => around.listen(0, "localhost", resolve));
  const origin = `http://localhost:${(around.address() as AddressInfo).port}`;
  await using embedded = await openConsole({ embedOrigins: [origin] });
  const { url } = embedded.server;
  await embedded.api("POST", "/v1/tenants", { id: "acme" });
  const key = await embedded.api<{ id: string; key: string }>("POST", "/v1/tenants/acme/keys", {
    name: "embedded",
    scopes: ["calls:read", "tenants:read", "tenants:export", "usage:read"],
    expiresInMinutes: 5,
  });
  const frame = `<iframe width="1000" height="700" src="${url}/console/t/acme/settings#token=${key.body.key}"></iframe>`;
  const context = await browser.newContext({ locale: "en-GB" });
  context.setDefaultTimeout(PATIENCE_MS);
  try {
    // As Chromium does in a frame of another site where its user blocks the data of such sites.
    await context.addInitScript(`for (const name of ["localStorage", "sessionStorage"])
      if (parent !== self) Object.defineProperty(self, name, { get() { throw new DOMException("denied", "SecurityError"); } });`);
    const page = await context.newPage();
    const problems: string[] = [];
    page.on("pageerror", (error) => problems.push(error.message));
    await page.goto(origin);
    const inside = page.frameLocator("iframe");
    await inside.getByRole("button", { name: /^Theme/ }).click();
    await inside.getByRole("button", { name: "Theme: light" }).waitFor();
    const [file] = await Promise.all([
      page.waitForEvent("download"),
      inside.getByRole("button", { name: "Export all data" }).click(),
    ]);
    expect(file.suggestedFilename()).toBe("acme.ndjson");
    expect(readFileSync(await file.path(), "utf8")).toContain('"type":"end"');
    expect((await embedded.api("DELETE", `/v1/tenants/acme/keys/${key.body.id}`)).status).toBe(200);
    await inside.getByText("This view's link has expired").waitFor();
    await inside.getByText("Reload the page that contains it").waitFor();
    expect(await inside.getByLabel("API key").count()).toBe(0);
    expect(problems).toEqual([]);
  } finally {
    await context.close();
    around.close();
    around.closeAllConnections();
  }
});
