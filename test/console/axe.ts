// Checks what a page shows with axe, in both themes, on a wide and a narrow screen, and its layout from 360 pixels to 4K. With GLOVEBOX_SCREENSHOTS=FOLDER, pictures are stored there.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { STRIKES_ALL } from "../support/attack-sample.ts";
import { findLayoutFaults } from "./layout.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FOLDER = process.env.GLOVEBOX_SCREENSHOTS;
const WIDTHS = [1_440, 400] as const;
// By name: the tag "cat.color" also turns on color-contrast-enhanced, which asks for 7 to 1 and is off by default.
const COLOR_RULES = { runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] } };
const RULES = { light: {}, dark: STRIKES_ALL ? {} : COLOR_RULES } as const;

/** Runs axe in the page. Details of what is in order are neither collected nor sent. */
const runAxe = (rules: object): string => `axe.run(${JSON.stringify({ ...rules, resultTypes: ["violations"] })})
  .then(({ violations }) => violations.map(({ id, nodes: [node] }) => \`\${id}: \${node?.html} \${node?.failureSummary}\`))`;
/** Parts of the page that follow the size of the window have been drawn after two frames. */
const DRAWN = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))";

/**
 * Returns what is wrong with a page as text: nothing, if all is well. The dark theme differs in colors only, so that only the rules about
 * color run there, or all of them with GLOVEBOX_ATTACKS=all.
 */
export async function findViolations(page: Page, name: string): Promise<readonly string[]> {
  const found: string[] = [];
  const before = page.viewportSize();
  // Evaluated by the debugger's protocol, which the page's policy does not concern.
  if (!(await page.evaluate("'axe' in globalThis"))) await page.evaluate(AXE);
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.evaluate(DRAWN);
      const form = `${name}-${width}-${colorScheme}`;
      if (FOLDER !== undefined) await page.screenshot({ path: join(FOLDER, `${form}.png`) });
      const violations = (await page.evaluate(runAxe(RULES[colorScheme]))) as readonly string[];
      found.push(...violations.map((text) => `${form}: ${text}`));
      const wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
      if ((wide as number) > 0) found.push(`${form}: the page is ${wide as number} pixels wider than the screen`);
    }
  }
  found.push(...(await findLayoutFaults(page, name)));
  await page.setViewportSize(before ?? { width: 1_440, height: 900 });
  return found;
}
