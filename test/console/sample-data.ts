// Two tenants with tools, calls and everything else that the pages of the console show.
import type { apiOf } from "../server/support/api.ts";

export interface Story {
  readonly order: string;
  readonly failed: string;
  /** A call with a recording. */
  readonly recorded: string;
  /** A run that waits for a person. */
  readonly waiting: string;
  /** A run that has ended. */
  readonly ended: string;
}

const PRICE = (more: string): string => `export const description = "Looks up the price of a product in a catalogue";
export const inputSchema = {
  type: "object",
  properties: {
    sku: { type: "string", description: "Stock number" },
    count: { type: "integer", minimum: 1, default: 1 },
    currency: { enum: ["EUR", "USD"] },
    tags: { type: "array", items: { type: "string" } },
  },
  required: ["sku", "currency"],
  additionalProperties: false,
};

export default async ({ sku, count = 1, currency }) => {
  console.log("looking up", sku);
  if (sku === "none") throw new Error("There is no product " + sku);
  await new Promise((resolve) => setTimeout(resolve, 3));
  return { sku, currency, total: 9.5 * count${more} };
};
`;
const ORDER = `export const description = "Orders products after it has looked up their prices";
export const capabilities = { tools: true, kv: {} };

export default async ({ skus }, ctx) => {
  let total = 0;
  for (const sku of skus) {
    total += await ctx.span("price of " + sku, { sku }, async () => {
      const price = await ctx.tools.price({ sku, currency: "EUR" });
      await ctx.kv.set("last", sku);
      return price.total;
    });
  }
  console.log("total", total);
  return { total };
};
`;

/** Version 2 has another output for some numbers, asks for another key, and fails. */
const QUOTE = (isSecond: boolean): string => `export const description = "Makes an offer";
export const capabilities = { kv: true };
export const inputSchema = {
  type: "object",
  properties: { count: { type: "integer" }, customer: { type: "string" } },
  required: ["count"],
};

export default async ({ count, customer = "" }, { kv }) => {
  const rate = (await kv.get(${isSecond ? `customer === "" ? "rate" : "rate:" + customer` : `"rate"`})) ?? 2;
  ${isSecond ? `if (count === 0) throw new Error("Nothing to offer");` : ""}
  return { total: { net: count * rate${isSecond ? ", vat: count > 2 ? count / 4 : undefined" : ""} }, lines: [{ count${isSecond ? `: count > 2 ? count + " pieces" : count` : ""} }] };
};
`;

const REFUND = `export const description = "Pays money back to a customer";
export const annotations = { destructiveHint: true, openWorldHint: true };
export const inputSchema = {
  type: "object",
  properties: { order: { type: "string" }, amount: { type: "number" } },
  required: ["order", "amount"],
  additionalProperties: false,
};

export default ({ order, amount }) => ({ order, refunded: amount });
`;

const PAYOUT = `export const description = "Pays a partner when a person has approved it";
export const capabilities = { waitFor: true, kv: {} };

export default async ({ amount }, ctx) => {
  await ctx.kv.set("requested", amount);
  const [{ approved, reason }] = await Promise.all([
    ctx.waitFor({ approval: "Pay " + amount + " EUR?" }),
    amount === 50 ? ctx.waitFor({ event: "invoice" }) : null,
  ]);
  return approved ? { paid: amount } : { denied: reason };
};
`;

const POLICY = { quotas: { calls: { month: 1_000 } }, recording: { tools: ["quote"] } };

/** Deploys a tool whose calls are recorded and a second version of it, calls the first, and returns the id of a call. */
export async function fillRecordings(api: ReturnType<typeof apiOf>, tenant: string): Promise<string> {
  const base = `/v1/tenants/${tenant}/tools`;
  for (const [isSecond, more] of [
    [false, {}],
    [true, { alias: null }],
  ] as const) {
    const deployed = await api("POST", base, { name: "quote", source: QUOTE(isSecond), approve: true, ...more });
    if (deployed.status !== 201) throw new Error(`The sample was not deployed: ${JSON.stringify(deployed.body)}`);
  }
  let recorded = "";
  for (const input of [
    { count: 1 },
    { count: 2 },
    { count: 3 },
    { count: 4 },
    { count: 0 },
    { count: 1, customer: "ada" },
  ]) {
    const { body } = await api<{ id: string }>("POST", `${base}/quote/calls`, { input });
    if (input.count === 3) recorded = body.id;
  }
  return recorded;
}

/** Fills an empty server, and returns the ids of two calls. */
export async function fillConsole(api: ReturnType<typeof apiOf>): Promise<Story> {
  const acme = "/v1/tenants/acme";
  await api("POST", "/v1/tenants", { id: "acme", name: "Acme", policy: POLICY });
  await api("POST", "/v1/tenants", { id: "globex", name: "Globex" });
  await api("POST", `${acme}/tools`, { name: "price", source: PRICE("") });
  await api("POST", `${acme}/tools`, { name: "price", source: PRICE(", version: 2"), canaryPercent: 10 });
  await api("POST", `${acme}/tools`, { name: "order", source: ORDER });
  await api("POST", `${acme}/tools/order/versions/1/approve`);
  await api("PUT", `${acme}/tools/order/releases/live`, { versions: [{ version: 1, weight: 1 }] });
  const wants =
    "export const capabilities = { tools: true, kv: {}, fetch: ['api.example.com'] }; export default () => 1;";
  await api("POST", `${acme}/tools`, { name: "order", source: wants });
  let failed = "";
  for (let n = 0; n < 30; n += 1) {
    const input = { sku: n % 9 === 0 ? "none" : `A-${100 + n}`, currency: "EUR", count: n + 1 };
    const { body } = await api<{ id: string }>("POST", `${acme}/tools/price/calls`, { input });
    if (n === 9) failed = body.id;
  }
  const { body } = await api<{ id: string }>("POST", `${acme}/tools/order/calls`, {
    input: { skus: ["A-1", "A-2", "A-3"] },
  });
  await api("POST", `${acme}/tools`, { name: "refund", source: REFUND });
  const refund = (order: string, amount: number): Promise<{ readonly body: { readonly approvalId: string } }> =>
    api("POST", `${acme}/tools/refund/calls`, { input: { order, amount } });
  for (const [order, decision] of [
    ["A-7", "approve"],
    ["A-8", "deny"],
  ] as const) {
    const { approvalId } = (await refund(order, 12.5)).body;
    await api("POST", `${acme}/approvals/${approvalId}/${decision}`, { reason: "checked with the customer" });
  }
  await refund("A-9", 99);
  await api("PUT", `${acme}/secrets/stripe`, { value: "sk_test_12345678", hosts: ["api.stripe.com"] });
  const input = { sku: "A-1", currency: "EUR" };
  await api("POST", `${acme}/schedules`, {
    name: "nightly",
    tool: "price",
    cron: "30 2 * * *",
    timeZone: "Europe/Berlin",
    input,
  });
  await api("POST", `${acme}/webhooks`, { url: "https://example.com/hook", events: ["call.failed"] });
  await api("POST", `${acme}/triggers`, { name: "orders", tool: "price" });
  await api("POST", `${acme}/keys`, { name: "backend", scopes: ["calls:run", "calls:read"] });
  await api("POST", `${acme}/tools`, { name: "payout", source: PAYOUT, approve: true });
  const startRun = async (amount: number): Promise<string> => {
    const run = await api<{ id: string }>("POST", `${acme}/runs`, { tool: "payout", input: { amount } });
    return run.body.id;
  };
  const [waiting, ended] = [await startRun(50), await startRun(60)];
  await api("POST", `${acme}/runs/${ended}/waits/2/deny`, { reason: "not this month" });
  const recorded = await fillRecordings(api, "acme");
  return { order: body.id, failed, recorded, waiting, ended };
}

/** Every page: its name, its path, and a text that shows that it is complete. */
export const PAGES: readonly (readonly [name: string, path: (story: Story) => string, ready: string | RegExp])[] = [
  ["overview", () => "", "Tools by number of calls"],
  ["overview-tenant", () => "/t/acme", "Tools by number of calls"],
  ["calls", () => "/t/acme/calls", /\d+ loaded, live/],
  ["calls-all", () => "/calls", /\d+ loaded, live/],
  ["calls-empty", () => "/t/globex/calls", "No calls yet"],
  ["call", ({ order }) => `/t/acme/calls/${order}`, "Run the tool"],
  ["call-failed", ({ failed }) => `/t/acme/calls/${failed}`, "Run the tool"],
  ["call-logs", ({ order }) => `/t/acme/calls/${order}?tab=logs`, "total 28.5"],
  ["call-nested", ({ order }) => `/t/acme/calls/${order}?tab=nested`, "level 1:"],
  ["call-input", ({ order }) => `/t/acme/calls/${order}?tab=input`, "28.5"],
  ["call-again", ({ order }) => `/t/acme/calls/${order}?tab=again`, "The new result appears here"],
  ["call-replay", ({ recorded }) => `/t/acme/calls/${recorded}?tab=replay`, "The outcome appears here"],
  ["call-replay-none", ({ order }) => `/t/acme/calls/${order}?tab=replay`, "This call was not recorded"],
  ["call-copy", ({ order }) => `/t/acme/calls/${order}?tab=copy`, "Command line"],
  ["runs", () => "/t/acme/runs", "approval: Pay 50 EUR?"],
  ["runs-empty", () => "/t/globex/runs", "No runs yet"],
  ["runs-filtered", () => "/t/acme/runs?state=failed", "No run matches these filters"],
  ["run", ({ waiting }) => `/t/acme/runs/${waiting}`, "Request 1: kv"],
  ["run-ended", ({ ended }) => `/t/acme/runs/${ended}`, "Denial of request 2"],
  ["run-output", ({ ended }) => `/t/acme/runs/${ended}?tab=input`, "not this month"],
  ["run-none", () => `/t/acme/runs/call_${"0".repeat(26)}`, "There is no run"],
  ["tools", () => "/t/acme/tools", "Latest version"],
  ["tools-empty", () => "/t/globex/tools", "No tools yet"],
  ["tool", () => "/t/acme/tools/price", "Stock number"],
  ["tool-edit", () => "/t/acme/tools/price?tab=edit", /^No problems/],
  ["tool-versions", () => "/t/acme/tools/price?tab=versions", "Compare with v1"],
  ["tool-releases", () => "/t/acme/tools/price?tab=releases", "Release a version"],
  ["tool-rehearse", () => "/t/acme/tools/quote?tab=rehearse", "The report appears here"],
  ["tool-new", () => "/t/acme/new-tool", "Run without deploying"],
  ["approvals", () => "/t/acme/approvals", "+ fetch"],
  ["approvals-decided", () => "/t/acme/approvals?tab=decided", "checked with the customer"],
  ["schedules", () => "/t/acme/schedules", "nightly"],
  ["triggers", () => "/t/acme/triggers", "Standard Webhooks"],
  ["usage", () => "/t/acme/usage", "Download as CSV, by hour"],
  ["webhooks", () => "/t/acme/webhooks", "https://example.com/hook"],
  ["secrets", () => "/t/acme/secrets", "api.stripe.com"],
  ["values", () => "/t/acme/kv?tool=order", "A-3"],
  ["keys", () => "/t/acme/keys", "backend"],
  ["audit", () => "/audit", "tenant.created"],
  ["settings", () => "/t/acme/settings", "Stored data"],
  ["tenants", () => "/tenants", "Globex"],
  ["workers", () => "/workers", "Worker processes"],
  ["fleet-here", () => "/fleet", "Calls run on the server's own machine"],
  ["sessions", () => "/sessions", "this one"],
  ["no-page", () => "/nothing", "There is no such page"],
];
