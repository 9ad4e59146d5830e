// Every page passes the checks of axe in both themes, on a wide and a narrow screen. With GLOVEBOX_SCREENSHOTS=FOLDER, pictures are stored there.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ConsoleUnderTest, openBrowser, openConsole, visit } from "./browser.ts";
import { fillConsole, PAGES, type Story } from "./sample-data.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FOLDER = process.env.GLOVEBOX_SCREENSHOTS;

let browser: Browser;
let under: ConsoleUnderTest;
let story: Story;

beforeAll(async () => {
  [browser, under] = await Promise.all([openBrowser(), openConsole()]);
  story = await fillConsole(under.api);
});
afterAll(async () => {
  await browser.close();
  await under[Symbol.asyncDispose]();
});

interface AxeResult {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
  }[];
}

test.for([
  [1_440, "light"],
  [1_440, "dark"],
  [400, "light"],
  [400, "dark"],
] as const)("at %i pixels in the %s theme", { timeout: 180_000 }, async ([width, colorScheme]) => {
  const { page, context, go, problems } = await visit(browser, under, under.key, { width, colorScheme });
  const found: string[] = [];
  for (const [name, pathOf, isReady] of PAGES) {
    await go(pathOf(story));
    await page.locator("main").getByText(isReady).first().waitFor();
    if (FOLDER !== undefined) await page.screenshot({ path: join(FOLDER, `${name}-${width}-${colorScheme}.png`) });
    // Evaluated by the debugger's protocol, which the page's policy does not concern.
    await page.evaluate(AXE);
    const { violations } = (await page.evaluate("axe.run()")) as AxeResult;
    found.push(...violations.map(({ id, nodes }) => `${name}: ${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`));
    const overflow = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    if ((overflow as number) > 0) found.push(`${name}: the page is ${overflow as number} pixels wider than the screen`);
  }
  expect(found).toEqual([]);
  expect(problems).toEqual([]);
  await context.close();
});
