// Durable runs in a real browser: the list with its filters, one run with its journal, and the forms with which a person answers it.
import { beforeAll, expect, test } from "vitest";
import { connectCodeMode } from "../server/support/code-mode-client.ts";
import { findViolations } from "./axe.ts";
import { useConsole } from "./browser.ts";

const suite = useConsole();
const { open } = suite;
const base = "/v1/tenants/durable";

const TRIP = `
  export const capabilities = { waitFor: true, kv: true, elicit: true };
  export default async ({ city }, ctx) => {
    await ctx.kv.set("city", city);
    const { approved, reason } = await ctx.waitFor({ approval: "Book " + city + "?" });
    if (!approved) return { denied: reason };
    const paid = await ctx.waitFor({ event: "paid" });
    const seat = await ctx.elicit({
      message: "Which seat?",
      requestedSchema: { type: "object", properties: { seat: { type: "string" } }, required: ["seat"] },
    });
    return { city, paid, seat: seat.content.seat, reason };
  };`;

const start = async (city: string): Promise<string> =>
  (await suite.under.api<{ id: string }>("POST", `${base}/runs`, { tool: "trip", input: { city } })).body.id;

beforeAll(async () => {
  await suite.under.api("POST", "/v1/tenants", { id: "durable" });
  const deployed = await suite.under.api("POST", `${base}/tools`, { name: "trip", source: TRIP, approve: true });
  expect(deployed.status).toBe(201);
});

test("a person finds a run, approves it, sends an event, fills in a form, and reads its journal and output", async () => {
  const id = await start("Oslo");
  await start("Rome");
  const { page, problems, go } = await open();
  await go("/t/durable");
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await page.getByText("approval: Book Oslo?").waitFor();
  await page.getByLabel("State").selectOption("succeeded");
  await page.getByText("No run matches these filters").waitFor();
  expect(new URL(page.url()).searchParams.get("state")).toBe("succeeded");
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await page.getByRole("row").filter({ hasText: "Oslo" }).getByRole("link", { name: "trip" }).click();
  await page.getByRole("heading", { name: "Waits for an approval" }).waitFor();
  const journal = page.getByRole("list", { name: "Journal" });
  await journal.getByText("Request 1: kv").waitFor();
  await page.getByLabel("Reason (optional)").fill("within the budget");
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByRole("heading", { name: "Waits for an event: paid" }).waitFor();
  await page.getByLabel("Value as JSON").fill('{ "by": "card" }');
  await page.getByRole("button", { name: "Send the event" }).click();
  await page.getByRole("heading", { name: "Waits for an answer" }).waitFor();
  await page.getByText("Which seat?").first().waitFor();
  await page.getByLabel(/^seat/).fill("12A");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByText("succeeded").first().waitFor();
  await journal.getByText("Approval of request 2").click();
  await journal.getByText("within the budget").first().waitFor();
  await page.getByRole("tab", { name: "Input and output" }).click();
  await page.getByText('"12A"').waitFor();
  const { body } = await suite.under.api<{ output: unknown }>("GET", `${base}/runs/${id}`);
  expect(body.output).toEqual({ city: "Oslo", paid: { by: "card" }, seat: "12A", reason: "within the budget" });
  await page.getByRole("link", { name: "The call that the run has become" }).click();
  await page.getByRole("tab", { name: "Timeline" }).waitFor();
  expect(problems).toEqual([]);
});

test("a person starts a run, denies it, and cancels another one", async () => {
  const { page, problems, go } = await open();
  await go("/t/durable/runs");
  await page.getByRole("button", { name: "Start a run" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Tool").selectOption("trip");
  await dialog.getByLabel("Input as JSON").fill('{ "city": "Bern" }');
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByText("Book Bern?").first().waitFor();
  await page.getByLabel("Reason (optional)").fill("too far");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.getByText("succeeded").first().waitFor();
  const id = await start("Kyiv");
  await go(`/t/durable/runs/${id}`);
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.getByRole("button", { name: "Cancel the run", exact: true }).click();
  await page.getByText("cancelled").first().waitFor();
  await go("/t/durable/runs?state=cancelled");
  await page.getByRole("link", { name: "trip" }).waitFor();
  expect(problems).toEqual([]);
});

test("the form of a new run begins anew with each tool", async () => {
  const properties = { amount: { type: "integer" } };
  const inputSchema = JSON.stringify({ type: "object", properties, required: ["amount"], additionalProperties: false });
  const source = `export const inputSchema = ${inputSchema};\nexport default ({ amount }) => amount;`;
  await suite.under.api("POST", `${base}/tools`, { name: "pay", source });
  const { page, problems, go } = await open();
  await go("/t/durable/runs");
  await page.getByRole("button", { name: "Start a run" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Tool").selectOption("trip");
  await dialog.getByLabel("Input as JSON").fill('{ "city": "Bern" }');
  await dialog.getByLabel("Tool").selectOption("pay");
  await dialog.getByLabel("amount").fill("7");
  await dialog.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByText("succeeded").first().waitFor();
  const { body } = await suite.under.api<{ items: readonly { tool: string; input: unknown }[] }>(
    "GET",
    `${base}/calls?tool=pay`,
  );
  expect(body.items[0]?.input).toEqual({ amount: 7 });
  expect(problems).toEqual([]);
});

test("the page of a tool that runs only as a durable run leads to the runs", async () => {
  const source = "export const durable = true;\nexport default () => 1;";
  await suite.under.api("POST", `${base}/tools`, { name: "lasting", source });
  const { page, problems, go } = await open();
  await go("/t/durable/tools/lasting");
  await page.getByText("This tool runs only as a durable run").waitFor();
  await page.getByText("npx glovebox runs start lasting --input '{}' --tenant durable").waitFor();
  await page.locator("main").getByRole("link", { name: "Runs" }).click();
  await page.getByRole("button", { name: "Start a run" }).waitFor();
  expect(problems).toEqual([]);
});

test("a person finds the code of a model, reads it, and approves the call that it waits for", async () => {
  const { api, server, key } = suite.under;
  const source = `export const annotations = { destructiveHint: true }; export default ({ id }) => ({ deleted: id });`;
  await api("POST", `${base}/tools`, { name: "delete_item", source });
  await using model = await connectCodeMode(server.url, "durable", key);
  const code = "const { deleted } = await tools.delete_item({ id: 7 });\nreturn deleted + 1;";
  const { run } = await model.run(code);
  const { page, problems, go } = await open();
  await go("/t/durable/runs");
  await page.getByLabel("Kind").selectOption("code");
  await page.getByRole("link", { name: "Code", exact: true }).click();
  await page.getByText("Code of a model").waitFor();
  const card = page.getByRole("article", { name: "Waits for an approval: delete_item" });
  await card.getByText("The code wants to call the tool delete_item with these arguments.").waitFor();
  await card.getByLabel("Arguments of delete_item").getByText("7").waitFor();
  await page.getByRole("tab", { name: "Input and output" }).click();
  await page.getByText("return deleted + 1;").waitFor();
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByText("succeeded").first().waitFor();
  expect(await model.get(run?.id ?? "")).toMatchObject({ status: "ok", value: 8 });
  expect(problems).toEqual([]);
});

test("the approvals list the runs that wait for a person, who decides and answers there", async () => {
  const { api, server } = suite.under;
  const waits = "/v1/tenants/waits";
  await api("POST", "/v1/tenants", { id: "waits" });
  const deploy = async (name: string, source: string): Promise<void> => {
    const { status } = await api("POST", `${waits}/tools`, { name, source, approve: true });
    expect(status).toBe(201);
  };
  const removal = `export const annotations = { destructiveHint: true }; export default ({ id }) => ({ deleted: id });`;
  await deploy("delete_item", removal);
  await deploy("trip", TRIP);
  await deploy(
    "sleep",
    `export const capabilities = { waitFor: true }; export default (_, ctx) => ctx.waitFor({ event: '"kind":"approval"' });`,
  );
  const scopes = ["calls:run", "tools:read"];
  const { key } = (await api<{ key: string }>("POST", `${waits}/keys`, { name: "model", scopes })).body;
  await using model = await connectCodeMode(server.url, "waits", key);
  const address = "Storgata 1, 0155 Oslo, ".repeat(20);
  const { run } = await model.run(
    `const { content } = await ctx.elicit({
       message: "Which item?",
       requestedSchema: { type: "object", properties: { item: { type: "integer" } }, required: ["item"] },
     });
     return await tools.delete_item({ id: content.item, address: ${JSON.stringify(address)} });`,
  );
  await api("POST", `${waits}/runs`, { tool: "sleep" });
  const { body: trip } = await api<{ id: string }>("POST", `${waits}/runs`, { tool: "trip", input: { city: "Oslo" } });
  const { page, problems, go } = await open();
  await go("/t/waits");
  // The overview leads there.
  await page.getByRole("link", { name: "1 run of trip waits for approval" }).click();
  expect(new URL(page.url()).pathname).toContain("/t/waits/approvals");
  const question = page.getByRole("article", { name: "Waits for an answer" });
  await question.getByRole("link", { name: "Run of code of a model" }).waitFor();
  // The run that waits for an event is not for a person.
  expect(await page.getByRole("article").count()).toBe(2);
  expect(await findViolations(page, "approvals-of-runs")).toEqual([]);
  await question.getByLabel(/^item/).fill("7");
  await question.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByRole("heading", { name: "Answered: Which item?" }).waitFor();
  const call = page.getByRole("article", { name: "Waits for an approval: delete_item" });
  await call.getByLabel("Arguments of delete_item").getByText("7", { exact: true }).waitFor();
  await call.getByText(address.trimEnd()).waitFor();
  await call.getByText("An approved call runs once, with exactly these arguments.").waitFor();
  expect(await findViolations(page, "approvals-of-code")).toEqual([]);
  await call.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByRole("heading", { name: "Approved: delete_item" }).waitFor();
  expect(await page.evaluate("document.activeElement?.textContent")).toBe("Approved: delete_item");
  await page.getByRole("region", { name: "Answer to a run about delete_item" }).getByText("succeeded").waitFor();
  expect(await model.get(run?.id ?? "")).toMatchObject({ status: "ok", value: { deleted: 7 } });
  const booking = page.getByRole("article", { name: "Waits for an approval", exact: true });
  await booking.getByText("Book Oslo?").waitFor();
  await booking.getByLabel("Reason (optional)").fill("too far");
  await booking.getByRole("button", { name: "Deny", exact: true }).click();
  await page.getByRole("heading", { name: "Denied: Book Oslo?" }).waitFor();
  await page.getByText("Nothing waits for approval").waitFor();
  await page.getByRole("link", { name: "Run and journal" }).first().click();
  await page.getByRole("list", { name: "Journal" }).getByText("Denial of request 2").waitFor();
  const { body: denied } = await api<{ output: unknown }>("GET", `${waits}/runs/${trip.id}`);
  expect(denied.output).toEqual({ denied: "too far" });
  expect(problems).toEqual([]);
});

test("an answer to a form has the values that the form shows", async () => {
  const properties = {
    color: { type: "string", enum: ["red", "blue"] },
    urgent: { type: "boolean" },
    city: { type: "string", default: "Oslo" },
  };
  const requestedSchema = JSON.stringify({ type: "object", properties, required: ["color", "urgent", "city"] });
  const source = `export const capabilities = { elicit: true };
    export const durable = true;
    export default async (_, ctx) => (await ctx.elicit({ message: "Which one?", requestedSchema: ${requestedSchema} })).content;`;
  await suite.under.api("POST", `${base}/tools`, { name: "choose", source, approve: true });
  const { body } = await suite.under.api<{ id: string }>("POST", `${base}/runs`, { tool: "choose" });
  const { page, problems, go } = await open();
  await go(`/t/durable/runs/${body.id}`);
  await page.getByText("Which one?").first().waitFor();
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await page.getByText("succeeded").first().waitFor();
  const { body: run } = await suite.under.api<{ output: unknown }>("GET", `${base}/runs/${body.id}`);
  expect(run.output).toEqual({ color: "red", urgent: false, city: "Oslo" });
  expect(problems).toEqual([]);
});

test("an entry of a journal stays open while the journal grows", async () => {
  const id = await start("Bonn");
  const { page, problems, go } = await open();
  await go(`/t/durable/runs/${id}`);
  const journal = page.getByRole("list", { name: "Journal" });
  await journal.getByText("Request 1: kv").click();
  const { body } = await suite.under.api<{ waits: readonly { id: number }[] }>("GET", `${base}/runs/${id}`);
  const path = `${base}/runs/${id}/waits/${body.waits[0]?.id}/approve`;
  expect((await suite.under.api("POST", path, {})).status).toBe(200);
  await journal.getByText("Approval of request 2").waitFor();
  expect(await journal.locator("details[open]").allTextContents()).toEqual([expect.stringContaining("Request 1: kv")]);
  expect(problems).toEqual([]);
});

test("a key that may only read sees a run, and no forms", async () => {
  const id = await start("Riga");
  const { body } = await suite.under.api<{ key: string }>("POST", `${base}/keys`, {
    name: "reader",
    scopes: ["calls:read"],
  });
  const { page, problems, go } = await open(body.key);
  await go(`/t/durable/runs/${id}`);
  await page.getByText("A key with the scope calls:approve can answer.").waitFor();
  expect(await page.getByRole("button", { name: "Approve" }).count()).toBe(0);
  expect(await page.getByRole("button", { name: "Cancel" }).count()).toBe(0);
  await go("/t/durable/runs");
  await page.getByText("approval: Book Riga?").waitFor();
  expect(await page.getByRole("button", { name: "Start a run" }).count()).toBe(0);
  await go(`/t/durable/runs/call_${"0".repeat(26)}`);
  await page.getByText("There is no run").waitFor();
  expect(problems).toEqual([]);
});
