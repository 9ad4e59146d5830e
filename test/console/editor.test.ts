// The editor in Chromium: types of the tool's grants, completions and errors while the author types, and no worker that hostile types could keep busy.
import type { Browser, Locator } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { type ConsoleUnderTest, openBrowser, openConsole, type Visit, visit } from "./browser.ts";

let browser: Browser;
let under: ConsoleUnderTest;
const WAIT = { timeout: 200_000 };

beforeAll(async () => {
  [browser, under] = await Promise.all([openBrowser(), openConsole()]);
  const { api } = under;
  await api("POST", "/v1/tenants", { id: "acme" });
  const price = `export const description = "Looks up a price";
    export const inputSchema = { type: "object", properties: { sku: { type: "string" } }, required: ["sku"], additionalProperties: false };
    export const outputSchema = { type: "object", properties: { total: { type: "number" } }, required: ["total"] };
    export default ({ sku }) => ({ total: sku.length });`;
  expect((await api("POST", "/v1/tenants/acme/tools", { name: "price", source: price })).status).toBe(201);
});
afterAll(async () => {
  await browser.close();
  await under[Symbol.asyncDispose]();
});

async function openEditor(path: string, key: string = under.key): Promise<Visit> {
  const visited = await visit(browser, under, key);
  onTestFinished(() => visited.context.close());
  await visited.go(path);
  await visited.page.getByRole("textbox", { name: "Code of the tool" }).waitFor();
  return visited;
}

/**
 * Moves the mouse over a part of the editor until the text for it is shown: an answer about the types that comes after the
 * editor has drawn again closes or replaces what the first move opened.
 */
async function shownOver(part: Locator, text: Locator): Promise<void> {
  await vi.waitFor(async () => {
    await part.page().mouse.move(0, 0);
    await part.hover();
    await text.waitFor({ timeout: 10_000 });
  }, WAIT);
}

/** Replaces the text of the editor. */
async function write({ page }: Visit, text: string): Promise<void> {
  await page.getByRole("textbox", { name: "Code of the tool" }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.press("Delete");
  await page.keyboard.insertText(text);
}

test("typing over selected text replaces it, and applies no style that the content policy forbids", async () => {
  const { page, problems } = await openEditor("/t/acme/new-tool");
  const editor = page.getByRole("textbox", { name: "Code of the tool" });
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("(1");
  // The closing bracket is the editor's.
  await expect.poll(() => editor.textContent(), WAIT).toBe("(1)");
  await page.keyboard.press("Control+a");
  await page.keyboard.type("text");
  await expect.poll(() => editor.textContent(), WAIT).toBe("text");
  await page.keyboard.press("Control+z");
  await expect.poll(() => editor.textContent(), WAIT).toBe("(1)");
  expect(problems).toEqual([]);
});

test("errors appear while the author types, a capability that is not granted is missing, and the tool can be deployed", async () => {
  const visited = await openEditor("/t/acme/new-tool");
  const { page, problems } = visited;
  await page.getByText("No problems").waitFor(WAIT);
  await write(visited, "export default (input, ctx) => ctx.fetch('https://api.example.com');");
  await page.getByText("1 error", { exact: true }).waitFor(WAIT);
  // The mark at the line has the message.
  await shownOver(
    page.locator(".cm-lint-marker-error"),
    page.getByText('ctx.fetch is missing: this tool has no grant for "fetch"'),
  );

  await write(
    visited,
    "export const capabilities = { tools: true };\nexport default async (input, ctx) => {\n  return (await ctx.tools.price({ sku: 1 })).total;\n};\n",
  );
  await page.getByText("1 error, 1 note").waitFor(WAIT);
  await shownOver(
    page.locator(".cm-lint-marker-error"),
    page.getByText("Type 'number' is not assignable to type 'string'"),
  );
  await write(
    visited,
    'export const capabilities = { tools: true };\nexport default async (input, ctx) => {\n  return (await ctx.tools.price({ sku: "abc" })).total;\n};\n',
  );
  await page.getByText("1 note", { exact: true }).waitFor(WAIT);
  await shownOver(
    page.locator(".cm-line span", { hasText: /^price$/ }),
    page.getByText("(method) TenantTools.price(input: PriceInput): Promise<PriceOutput>"),
  );

  await page.getByLabel("Name", { exact: true }).fill("total");
  await page.getByRole("button", { name: "Deploy", exact: true }).click();
  await page.getByRole("heading", { name: "total" }).waitFor();
  expect((await under.api("GET", "/v1/tenants/acme/tools/total")).status).toBe(200);
  expect(problems).toEqual([]);
});

test("completions list the tenant's tools, and Tab or Enter takes one", async () => {
  const visited = await openEditor("/t/acme/new-tool");
  const { page, problems } = visited;
  await page.getByText("No problems").waitFor(WAIT);
  await write(visited, "export const capabilities = { tools: true, kv: {} };\nexport default (input, ctx) => ");
  await page.keyboard.type("ctx.");
  const options = page.getByRole("option");
  await options.filter({ hasText: "tenantId" }).waitFor(WAIT);
  expect(await options.allTextContents()).toEqual(expect.arrayContaining(["kv", "log", "tools"]));
  expect(await options.allTextContents()).not.toContain("fetch");
  await page.keyboard.type("tools.pr");
  await page.getByRole("option", { name: "price" }).waitFor(WAIT);
  await page.getByText("Looks up a price").waitFor(WAIT);
  await page.keyboard.press("Enter");
  await page.getByText("ctx.tools.price", { exact: false }).first().waitFor();
  expect(problems).toEqual([]);
});

test("types that take for ever to check stop the check, and not the page", async () => {
  const visited = await openEditor("/t/acme/new-tool");
  const { page, problems } = visited;
  await page.getByText("No problems").waitFor(WAIT);
  // Each level doubles the work of the one before.
  const hostile = `type Grow<N extends unknown[], T> = N["length"] extends 40 ? T : Grow<[...N, 0], T | [T, N]>;
type Pairs<A extends string> = A extends \`\${infer H}\${infer R}\` ? H | Pairs<R> | \`\${H}\${Pairs<R>}\` : never;
type Many = Pairs<"abcdefghijklmnopqrstuvwxyz0123456789">;
const all: Grow<[], Many> = 1 as never; export default (x: Many) => { const y: \`\${Many}\${Many}\` = x; return all; };`;
  await write(visited, hostile);
  await page.getByText(/was stopped|\d errors?/).waitFor(WAIT);
  await write(visited, "export default () => 1;");
  await page.getByText("No problems").waitFor(WAIT);
  expect(problems).toEqual([]);
});

test("what a diagnostic quotes is text", async () => {
  const visited = await openEditor("/t/acme/new-tool");
  const { page, problems } = visited;
  await page.getByText("No problems").waitFor(WAIT);
  const payload = "<img src=x onerror=globalThis.stolen=1>";
  await write(visited, `const x: "${payload}" = "<script>globalThis.stolen=1</script>"; export default () => x;`);
  await page.getByText("1 error", { exact: true }).waitFor(WAIT);
  await shownOver(page.locator(".cm-lint-marker-error"), page.locator(".cm-diagnostic", { hasText: payload }));
  const use = page.locator(".cm-line span", { hasText: /^x$/ }).first();
  await shownOver(use, page.locator(".cm-description", { hasText: payload }));
  expect(await page.evaluate("globalThis.stolen")).toBeUndefined();
  expect(problems).toEqual([]);
});
