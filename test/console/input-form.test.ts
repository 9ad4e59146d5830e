// The form that the console makes from the input schema of a tool, in a real browser: choices, lists, formats, defaults, files as bytes, references.
import { beforeAll, expect, test } from "vitest";
import { useConsole } from "./browser.ts";

const suite = useConsole();
const { open } = suite;
const BASE = "/v1/tenants/forms";

const SCHEMA = {
  type: "object",
  properties: {
    title: { type: "string", description: "What it is called" },
    count: { type: "integer", minimum: 1, maximum: 9, default: 3 },
    level: { enum: ["low", "high"] },
    day: { type: "string", format: "date" },
    at: { type: "string", format: "time" },
    loud: { type: "boolean" },
    maybe: { type: ["string", "null"] },
    file: { type: "string", contentEncoding: "base64" },
    scan: { type: "string", format: "binary", contentMediaType: "image/png", maxLength: 8, description: "A page" },
    tags: { type: "array", items: { type: "string" }, maxItems: 2 },
    target: {
      oneOf: [
        {
          title: "By mail",
          type: "object",
          properties: { kind: { const: "mail" }, to: { type: "string" } },
          required: ["kind", "to"],
        },
        {
          title: "By phone",
          type: "object",
          properties: { kind: { const: "phone" }, number: { type: "number" } },
          required: ["kind", "number"],
        },
      ],
    },
    parent: { $ref: "#/$defs/a~1b%20c" },
    extra: {},
  },
  required: ["title", "count", "level", "target"],
  $defs: { "a/b c": { type: "object", properties: { id: { type: "integer" } }, required: ["id"] } },
};

beforeAll(async () => {
  const { api } = suite.under;
  await api("POST", "/v1/tenants", { id: "forms" });
  const source = `export const inputSchema = ${JSON.stringify(SCHEMA)};\nexport default (input) => input;`;
  expect((await api("POST", `${BASE}/tools`, { name: "order", source })).status).toBe(201);
});

const lastInput = async (): Promise<unknown> => {
  const { body } = await suite.under.api<{ items: readonly { id: string }[] }>("GET", `${BASE}/calls?limit=1`);
  const [{ id } = { id: "" }] = body.items;
  return (await suite.under.api<{ input: unknown }>("GET", `${BASE}/calls/${id}`)).body.input;
};

test("sends what a person fills in, by the schema", async () => {
  const { page, go, problems } = await open();
  await go("/t/forms/tools/order?tab=run");
  const add = (name: string) => page.getByRole("button", { name: new RegExp(`^\\+ ${name}`) }).click();
  await page.getByLabel("title", { exact: true }).fill("Lamp");
  await page.getByText("What it is called").waitFor();
  expect(await page.getByLabel("count", { exact: true }).inputValue()).toBe("3");
  await page.getByLabel("count", { exact: true }).fill("4");
  await page.getByLabel("level").selectOption("high");
  await page.getByLabel("Kind").selectOption("By phone");
  await page.getByLabel("number", { exact: true }).fill("3.14159265358979323846");
  await page.getByText("Sent as 3.141592653589793").waitFor();
  for (const name of ["day", "at", "loud", "maybe", "file", "scan", "tags", "parent", "extra"]) await add(name);
  await page.getByLabel("day (optional)").fill("2026-02-28");
  await page.getByLabel("at (optional)").fill("12:30:00Z");
  await page.getByLabel("loud (optional)").check();
  await page.getByRole("group", { name: "maybe (optional)" }).getByLabel("Kind").selectOption("null");
  await page
    .getByLabel("file (optional)")
    .setInputFiles({ name: "a.bin", mimeType: "application/octet-stream", buffer: Buffer.from([1, 2, 255, 0]) });
  await page.getByText("a.bin: 4 B, sent as base64").waitFor();
  const scan = page.getByLabel("scan (optional)");
  const png = (bytes: number) => ({ name: "page.png", mimeType: "image/png", buffer: Buffer.alloc(bytes) });
  await page.getByText("A page. A file of at most 6 B, sent as base64").waitFor();
  expect(await scan.getAttribute("accept")).toBe("image/png");
  await scan.setInputFiles(png(7));
  await page.getByText("page.png has 7 B. Choose a file of at most 6 B").waitFor();
  await page.getByRole("button", { name: "Call order" }).click();
  expect(await page.evaluate("document.activeElement.type")).toBe("file");
  // By keyboard: the chooser of the browser opens.
  const [chooser] = await Promise.all([page.waitForEvent("filechooser"), scan.press("Enter")]);
  await chooser.setFiles(png(6));
  await page.getByText("page.png: 6 B, sent as base64").waitFor();
  const tags = page.getByRole("group", { name: "tags (optional)" });
  for (const tag of ["a", "b"]) {
    await tags.getByRole("button", { name: "+ Add" }).click();
    await tags.getByRole("textbox").last().fill(tag);
  }
  expect(await tags.getByRole("button", { name: "+ Add" }).isDisabled()).toBe(true);
  await tags.getByRole("button", { name: "Remove item 1" }).click();
  await page.getByLabel("id", { exact: true }).fill("7");
  await page.getByLabel("extra (optional)").fill('{"any":[1]}');
  await page.getByRole("button", { name: "Call order" }).click();
  await page.getByText("succeeded").waitFor();
  expect(await lastInput()).toEqual({
    title: "Lamp",
    count: 4,
    level: "high",
    target: { kind: "phone", number: Math.PI },
    day: "2026-02-28",
    at: "12:30:00Z",
    loud: true,
    maybe: null,
    file: "AQL/AA==",
    scan: "AAAAAAAA",
    tags: ["b"],
    parent: { id: 7 },
    extra: { any: [1] },
  });
  expect(problems).toEqual([]);
});

test("sends nothing while a field shows an error, and says what is right", async () => {
  const { page, go } = await open();
  await go("/t/forms/tools/order?tab=run");
  await page.getByLabel("title", { exact: true }).fill("Nothing");
  const call = page.getByRole("button", { name: "Call order" });
  for (const [text, message] of [
    ["many", "Expected a whole number"],
    ["1.5", "Expected a whole number"],
    ["10", "Expected a whole number, at least 1, at most 9"],
    ["1e400", "1e400 is too large for a number"],
    [
      "9007199254740993",
      "9007199254740993 would be sent as 9007199254740992: a number keeps about 16 digits, a string all",
    ],
  ] as const) {
    await page.getByLabel("count", { exact: true }).fill(text);
    await page.getByText(message, { exact: true }).waitFor();
    await call.click();
    expect(await page.evaluate("document.activeElement.value")).toBe(text);
  }
  await page.getByLabel("count", { exact: true }).fill("5");
  await page.getByRole("tab", { name: "JSON" }).click();
  await page.getByLabel("Input as JSON").fill('{ "title": ');
  await call.click();
  expect(await page.evaluate("document.activeElement.value")).toBe('{ "title": ');
  await page.getByLabel("Input as JSON").fill('{ "count": 9007199254740993 }');
  await page.getByText("9007199254740993 would be sent as 9007199254740992").waitFor();
  await call.click();
  expect(await page.evaluate("document.activeElement.value")).toBe('{ "count": 9007199254740993 }');
  await page.getByText("The result appears here.").waitFor();
  expect(await lastInput()).toMatchObject({ title: "Lamp" });
});

test("a policy with an error is not saved as the one before", async () => {
  const { page, go } = await open();
  await go("/t/forms/settings");
  await page.getByLabel("Policy as JSON").fill("{ broken");
  await page.getByRole("button", { name: "Save the policy" }).click();
  expect(await page.evaluate("document.activeElement.value")).toBe("{ broken");
  expect(await page.getByText("Saved", { exact: true }).count()).toBe(0);
});

test("the form of a union has the fields that all branches have, and keeps their values", async () => {
  const schema = {
    type: "object",
    properties: { subject: { type: "string" } },
    required: ["subject"],
    oneOf: [
      { properties: { kind: { const: "mail" }, to: { type: "string" } }, required: ["kind", "to"] },
      { properties: { kind: { const: "phone" }, number: { type: "number" } }, required: ["kind", "number"] },
    ],
  };
  const source = `export const inputSchema = ${JSON.stringify(schema)};\nexport default (input) => input;`;
  await suite.under.api("POST", `${BASE}/tools`, { name: "message", source });
  const { page, go, problems } = await open();
  await go("/t/forms/tools/message?tab=run");
  await page.getByLabel("subject", { exact: true }).fill("Hello");
  await page.getByLabel("Kind").selectOption("phone");
  await page.getByLabel("number", { exact: true }).fill("7");
  await page.getByRole("button", { name: "Call message" }).click();
  await page.getByText("succeeded").waitFor();
  expect(await lastInput()).toEqual({ subject: "Hello", kind: "phone", number: 7 });
  expect(problems).toEqual([]);
});

test("the form of a tree of nullable parts begins with its root, and grows by a click", async () => {
  const names = Array.from({ length: 30 }, (_, at) => `child${at}`);
  const child = { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] };
  const properties = { text: { type: "string" }, ...Object.fromEntries(names.map((name) => [name, child])) };
  const node = { type: "object", properties, required: ["text", ...names] };
  const schema = { $ref: "#/$defs/node", $defs: { node } };
  const source = `export const inputSchema = ${JSON.stringify(schema)};\nexport default (input) => input;`;
  expect((await suite.under.api("POST", `${BASE}/tools`, { name: "tree", source })).status).toBe(201);
  const { page, go, problems } = await open();
  await go("/t/forms/tools/tree?tab=run");
  const first = page.getByRole("group", { name: "child0", exact: true });
  await first.waitFor();
  expect(await page.locator("fieldset").count()).toBe(30);
  await first.getByLabel("Kind").selectOption("object");
  await first.getByLabel("text", { exact: true }).fill("below");
  await page.getByRole("button", { name: "Call tree" }).click();
  await page.getByText("succeeded").waitFor();
  const nulls = Object.fromEntries(names.map((name) => [name, null]));
  expect(await lastInput()).toEqual({ text: "", ...nulls, child0: { text: "below", ...nulls } });
  expect(problems).toEqual([]);
});

test("a field that a later version requires is shown as missing, and a choice is not shown as made", async () => {
  const deploy = async (required: readonly string[]): Promise<void> => {
    const properties = { title: { type: "string" }, level: { enum: ["low", "high"] }, loud: { type: "boolean" } };
    const schema = JSON.stringify({ type: "object", properties, required });
    const source = `export const inputSchema = ${schema};\nexport default (input) => input;`;
    expect((await suite.under.api("POST", `${BASE}/tools`, { name: "grown", source })).status).toBe(201);
  };
  await deploy(["title"]);
  const { page, go, problems } = await open();
  await go("/t/forms/tools/grown");
  await page.getByLabel("title", { exact: true }).fill("Lamp");
  await deploy(["title", "level", "loud"]);
  await page.getByText("Missing:").waitFor();
  expect(await page.getByLabel("loud").count()).toBe(0);
  await page.getByRole("button", { name: "+ level" }).click();
  await page.getByRole("button", { name: "+ loud" }).click();
  await page.getByRole("button", { name: "Call grown" }).click();
  await page.getByRole("tabpanel").or(page.locator("section.result")).getByText('"low"').waitFor();
  const { body } = await suite.under.api<{ items: readonly { input: unknown }[] }>("GET", `${BASE}/calls?tool=grown`);
  expect(body.items[0]?.input).toEqual({ title: "Lamp", level: "low", loud: false });
  await page.getByRole("tab", { name: "JSON" }).click();
  await page.getByLabel("Input as JSON").fill('{ "title": "Lamp", "level": "middle", "loud": true }');
  await page.getByRole("tab", { name: "Form" }).click();
  expect(await page.getByLabel("level").locator("option:checked").textContent()).toBe("Choose");
  await page.getByLabel("level").selectOption("high");
  expect(await page.getByLabel("level").locator("option").allTextContents()).toEqual(["low", "high"]);
  expect(problems).toEqual([]);
});
