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
  await go("/nothing");
  for (const [name, pathOf, isReady] of PAGES) {
    const ready = page.locator("main").getByText(isReady).first();
    // As a link of the page does, which keeps axe loaded. A text that is there already would not show that the next page is complete.
    const path = JSON.stringify(`/console${pathOf(story)}`);
    if (await ready.isVisible()) await go(pathOf(story));
    else await page.evaluate(`history.pushState(null, "", ${path}); dispatchEvent(new PopStateEvent("popstate"))`);
    await ready.waitFor();
    found.push(...(await findViolations(page, name)));
  }
  expect(found).toEqual([]);
  expect(problems).toEqual([]);
  await context.close();
});

test("charts have the colors of the theme, also after it has changed", async () => {
  const { page, context, go } = await visit(browser, under, under.key);
  await go("/");
  await page.locator(".plot canvas").first().waitFor();
  /** Returns the color of most pixels of the first chart that are not transparent: that of its grid. */
  const gridColor = (): Promise<unknown> =>
    page.evaluate(`(() => {
      const canvas = document.querySelector(".plot canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const counts = new Map();
      for (let at = 0; at < data.length; at += 4) {
        if (data[at + 3] !== 255) continue;
        const color = [data[at], data[at + 1], data[at + 2]].join();
        counts.set(color, (counts.get(color) ?? 0) + 1);
      }
      return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0];
    })()`);
  const [light, dark] = ["216,223,232", "43,54,68"];
  await expect.poll(gridColor).toBe(light);
  await page.emulateMedia({ colorScheme: "dark" });
  await expect.poll(gridColor).toBe(dark);
  await page.getByRole("button", { name: "Theme: auto" }).click();
  await page.getByRole("button", { name: "Theme: light" }).waitFor();
  await expect.poll(gridColor).toBe(light);
  await page.getByRole("button", { name: "Theme: light" }).click();
  await expect.poll(gridColor).toBe(dark);
  await context.close();
});

test("the first Tab and Enter skip the navigation, and stay on the page", async () => {
  const { page, context, go, problems } = await visit(browser, under, under.key);
  await go("/t/acme/tools?text=pr");
  await page.locator("main").getByText("price").first().waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.evaluate("document.activeElement.id")).toBe("content");
  expect(new URL(page.url()).pathname).toBe("/console/t/acme/tools");
  await page.keyboard.press("Tab");
  expect(await page.evaluate("document.activeElement.closest('main')?.id")).toBe("content");
  expect(problems).toEqual([]);
  await context.close();
});

test("the title of the browser's tab names the page", async () => {
  const { page, context, go } = await visit(browser, under, under.key);
  for (const [path, title] of [
    ["/", "Overview · Glovebox"],
    ["/t/acme", "Overview · acme · Glovebox"],
    ["/t/acme/tools/price?tab=versions", "price · Tools · acme · Glovebox"],
    ["/t/acme/new-tool", "New tool · acme · Glovebox"],
    ["/sessions", "Your sessions · Glovebox"],
    ["/nothing", "Glovebox"],
  ] as const) {
    await go(path);
    await expect.poll(() => page.title()).toBe(title);
  }
  await go("/t/acme");
  await page.getByRole("navigation").getByRole("link", { name: "Stored values" }).click();
  await expect.poll(() => page.title()).toBe("Stored values · acme · Glovebox");
  await page.goBack();
  await expect.poll(() => page.title()).toBe("Overview · acme · Glovebox");
  await context.close();
});
