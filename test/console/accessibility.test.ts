// Every page passes the checks of axe in both themes, on a wide and a narrow screen.
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { findViolations } from "./axe.ts";
import { type ConsoleUnderTest, openBrowser, openConsole, visit } from "./browser.ts";
import { fillConsole, PAGES, type Story } from "./sample-data.ts";

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

test("no page violates the rules of accessibility, on a wide and a narrow screen, in both themes", async () => {
  const { page, context, go, problems } = await visit(browser, under, under.key);
  const found: string[] = [];
  for (const [name, pathOf, isReady] of PAGES) {
    await go(pathOf(story));
    await page.locator("main").getByText(isReady).first().waitFor();
    found.push(...(await findViolations(page, name)));
  }
  expect(found).toEqual([]);
  expect(problems).toEqual([]);
  await context.close();
});
