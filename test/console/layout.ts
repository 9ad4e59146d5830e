// Measures how a page uses the narrowest and the widest screen. Cheap, because it neither stores pictures nor runs axe.
import type { Page } from "playwright-core";

/** The sizes between which the console is made to work: a small telephone, and a screen of 4K. */
const SIZES = [
  { width: 360, height: 740 },
  { width: 3_840, height: 2_160 },
] as const;
/** Pixels of the screen for one of the page. These frames are not seen, and eight million pixels cost most of the time. */
const SCALE = 0.25;
/** Widest line of a sentence, and widest control of a form, in pixels. */
const MAX_LINE = 1_200;
const MAX_CONTROL = 1_200;
/** Parts that follow the size of the window are drawn again before the frame after the next. */
const DRAWN = "new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))";

/** Returns the excess width as text. Lists, tables and code scroll by themselves, and are no reason for the page to. */
const EXCESS = `[document.documentElement.scrollWidth - document.documentElement.clientWidth]
  .filter((excess) => excess > 0)
  .map((excess) => "the page is " + excess + " pixels wider than the screen")`;

/** Returns sentences and controls that are too wide, and text that is cut although there is room. */
const WIDE = `(() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const nameOf = ({ tagName, className, textContent }) => tagName.toLowerCase() + "." + className + ": " + textContent.slice(0, 60);
  const ownTexts = ({ childNodes }) => [...childNodes].filter(({ nodeType, data }) => nodeType === 3 && data.trim() !== "");
  const range = document.createRange();
  const widthOf = (text) => {
    range.selectNodeContents(text);
    return Math.max(0, ...Array.from(range.getClientRects(), ({ width }) => width));
  };
  for (const element of all("main :is(p, li, dd, label, .note, .error-box, .error-box span)"))
    for (const width of ownTexts(element).map(widthOf))
      if (width > ${MAX_LINE}) faults.push("a line of " + Math.round(width) + " pixels: " + nameOf(element));
  for (const control of all("main :is(input, select, textarea)")) {
    const { width } = control.getBoundingClientRect();
    if (width > ${MAX_CONTROL}) faults.push("a control of " + Math.round(width) + " pixels: " + nameOf(control));
  }
  for (const element of all("body *:not(.hidden, .editor *, .plot *)"))
    if (element.scrollWidth > element.clientWidth + 1 && ownTexts(element).length > 0 && /hidden|clip/.test(getComputedStyle(element).overflowX))
      faults.push("text is cut: " + nameOf(element));
  return faults;
})()`;

/** Returns what is wrong with the layout of the page that is open: nothing, if all is well. The size of the window has changed afterwards. */
export async function findLayoutFaults(page: Page, name: string): Promise<readonly string[]> {
  const found: string[] = [];
  const session = await page.context().newCDPSession(page);
  for (const size of SIZES) {
    await session.send("Emulation.setDeviceMetricsOverride", { ...size, deviceScaleFactor: SCALE, mobile: false });
    await page.evaluate(DRAWN);
    const faults = (await page.evaluate(
      size.width > 1_920 ? `[...${EXCESS}, ...${WIDE}]` : EXCESS,
    )) as readonly string[];
    found.push(...faults.map((text) => `${name}-${size.width}: ${text}`));
  }
  await session.detach();
  return found;
}
