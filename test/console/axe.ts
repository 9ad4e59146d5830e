// Checks what a page shows with axe, in both themes. With GLOVEBOX_SCREENSHOTS=FOLDER, pictures are stored there.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { STRIKES_ALL } from "../support/attack-sample.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FOLDER = process.env.GLOVEBOX_SCREENSHOTS;
// By name: the tag "cat.color" also turns on color-contrast-enhanced, which asks for 7 to 1 and is off by default.
const COLOR_RULES = '{ runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] } }';
const RULES = { light: "", dark: STRIKES_ALL ? "" : COLOR_RULES } as const;

interface AxeResult {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary: string }[];
  }[];
}

/**
 * Returns what is wrong with a page as text: nothing, if all is well. The dark theme differs in colors only, so that only the rules about
 * color run there, or all of them with GLOVEBOX_ATTACKS=all.
 */
export async function findViolations(page: Page, name: string): Promise<readonly string[]> {
  const found: string[] = [];
  // Evaluated by the debugger's protocol, which the page's policy does not concern.
  await page.evaluate(AXE);
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    const form = `${name}-${page.viewportSize()?.width}-${colorScheme}`;
    if (FOLDER !== undefined) await page.screenshot({ path: join(FOLDER, `${form}.png`) });
    const { violations } = (await page.evaluate(`axe.run(${RULES[colorScheme]})`)) as AxeResult;
    found.push(...violations.map(({ id, nodes }) => `${form}: ${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`));
    const wide = await page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    if ((wide as number) > 0) found.push(`${form}: the page is ${wide as number} pixels wider than the screen`);
  }
  return found;
}
