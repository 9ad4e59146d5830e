// What the pages look like with long texts, in colors that the system chooses, and on paper.
import { expect, test } from "vitest";
import { useConsole } from "./browser.ts";

const opened = useConsole();
const T = "/v1/tenants/acme";
/** Tallest row of a table in pixels: four lines of text. */
const MAX_ROW = 100;
const LONG = "a-schedule-with-a-very-long-name-that-says-all-of-it";

async function fill(): Promise<void> {
  const { api } = opened.under;
  await api("POST", "/v1/tenants", {
    id: "acme",
    name: "The company with a very long name, of which this is one word",
  });
  await api("POST", `${T}/tools`, { name: "price", source: "export default () => 1;" });
  const refund = "export const annotations = { destructiveHint: true }; export default () => 1;";
  await api("POST", `${T}/tools`, { name: "refund", source: refund });
  await api("POST", `${T}/schedules`, { name: LONG, tool: "price", cron: "30 2 * * *", timeZone: "Europe/Berlin" });
  await api("POST", `${T}/keys`, { name: "the key of a server with a long name", scopes: ["calls:run", "calls:read"] });
  await api("PUT", `${T}/secrets/stripe`, { value: "sk_test_12345678", hosts: ["a.example.com", "b.example.com"] });
  await api("POST", `${T}/tools/price/calls`, { input: {} });
  const { approvalId } = (await api<{ approvalId: string }>("POST", `${T}/tools/refund/calls`, { input: {} })).body;
  await api("POST", `${T}/approvals/${approvalId}/deny`, { reason: "the customer did not want this at all" });
}

const LISTS = [
  "/tenants",
  "/sessions",
  ...["schedules", "keys", "secrets", "approvals?tab=decided"].map((page) => `/t/acme/${page}`),
];

/** Returns the rows that are too tall, and the buttons that touch the next one. */
const FAULTS = `[
  ...[...document.querySelectorAll("tbody tr")]
    .filter((row) => row.getBoundingClientRect().height > ${MAX_ROW})
    .map((row) => "a tall row: " + row.textContent.slice(0, 60)),
  ...[...document.querySelectorAll("td button + button")]
    .filter((button) => button.getBoundingClientRect().left - button.previousElementSibling.getBoundingClientRect().right < 4)
    .map((button) => "no space before " + button.textContent),
]`;

test("the rows of lists stay low with long texts, and their buttons have space between them", async () => {
  await fill();
  const { page, go, problems } = await opened.open();
  const found: unknown[] = [];
  for (const width of [1_440, 400]) {
    await page.setViewportSize({ width, height: 800 });
    for (const path of LISTS) {
      await go(path);
      await page.locator("tbody tr").first().waitFor();
      found.push(...((await page.evaluate(FAULTS)) as readonly string[]).map((fault) => `${path} ${width}: ${fault}`));
    }
  }
  expect(found).toEqual([]);
  expect(problems).toEqual([]);
});

test("the list of calls ends above the lower edge of the window", async () => {
  const { page, go } = await opened.open();
  await go("/t/acme/calls");
  await page.getByText(/\d+ loaded, live/).waitFor();
  await page.locator(".call-row").nth(1).waitFor();
  expect(await page.evaluate("document.documentElement.scrollHeight - innerHeight")).toBeLessThanOrEqual(0);
});

test("bars and the chosen entry can be seen in the colors of the system", async () => {
  const { page, go } = await opened.open();
  await page.emulateMedia({ forcedColors: "active" });
  await go("/t/acme/usage");
  await page.getByText("Calls per month").or(page.getByText("Stored data")).first().waitFor();
  const [bar, background] = (await page.evaluate(
    "[document.querySelector('.share-track .bar'), document.body].map((one) => getComputedStyle(one).backgroundColor)",
  )) as readonly string[];
  expect(bar).not.toBe(background);
  expect(await page.evaluate("getComputedStyle(document.querySelector('nav a[aria-current]')).outlineStyle")).toBe(
    "solid",
  );
});

test("a printed page has its content without the navigation, in dark text on white", async () => {
  const { page, go } = await opened.open();
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  await go("/t/acme/schedules");
  await page.getByText(LONG).waitFor();
  expect(await page.locator("nav#navigation").isVisible()).toBe(false);
  expect(await page.getByRole("button", { name: "New schedule" }).isVisible()).toBe(false);
  expect(await page.evaluate("getComputedStyle(document.querySelector('main h1')).color")).toBe("rgb(22, 32, 46)");
});

test("a key without the scope of the overview begins with the first page that it may see", async () => {
  const { api } = opened.under;
  await api("POST", "/v1/tenants", { id: "few" });
  const key = await api<{ key: string }>("POST", "/v1/tenants/few/keys", { name: "few", scopes: ["tools:read"] });
  const { page, go, problems } = await opened.open(key.body.key);
  await page.getByText("No tools yet").waitFor();
  await go("/t/few");
  await page.getByText("No tools yet").waitFor();
  expect(problems).toEqual([]);
});

test("the events of a webhook are in one column, and the fields of a line begin at one height", async () => {
  const { page, go } = await opened.open();
  const edges = async (selector: string, edge: "left" | "top"): Promise<number> => {
    const found = await page.evaluate(
      `[...document.querySelectorAll(${JSON.stringify(selector)})].map((one) => Math.round(one.getBoundingClientRect().${edge}))`,
    );
    return new Set(found as readonly number[]).size;
  };
  await go("/t/acme/webhooks");
  await page.getByRole("button", { name: "New webhook" }).click();
  expect(await edges("dialog input[type=checkbox]", "left")).toBe(1);
  await go("/t/acme/keys");
  await page.getByRole("button", { name: "Limits" }).first().click();
  expect(await edges("dialog .row:first-child .field", "top")).toBe(1);
});
