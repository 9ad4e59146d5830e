// Two tenants with tools, calls and everything else that the pages of the console show.
import type { apiOf } from "../server/support/api.ts";

export interface Story {
  readonly order: string;
  readonly failed: string;
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
    const price = await ctx.tools.price({ sku, currency: "EUR" });
    await ctx.kv.set("last", sku);
    total += price.total;
  }
  console.log("total", total);
  return { total };
};
`;

/** Fills an empty server, and returns the ids of two calls. */
export async function fillConsole(api: ReturnType<typeof apiOf>): Promise<Story> {
  const acme = "/v1/tenants/acme";
  await api("POST", "/v1/tenants", { id: "acme", name: "Acme", policy: { quotas: { calls: { month: 1_000 } } } });
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
  await api("POST", `${acme}/keys`, { name: "backend", scopes: ["calls:run", "calls:read"] });
  return { order: body.id, failed };
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
  ["call-input", ({ order }) => `/t/acme/calls/${order}?tab=input`, "28.5"],
  ["call-again", ({ order }) => `/t/acme/calls/${order}?tab=again`, "The new result appears here"],
  ["call-copy", ({ order }) => `/t/acme/calls/${order}?tab=copy`, "Command line"],
  ["tools", () => "/t/acme/tools", "Latest version"],
  ["tools-empty", () => "/t/globex/tools", "No tools yet"],
  ["tool", () => "/t/acme/tools/price", "Stock number"],
  ["tool-edit", () => "/t/acme/tools/price?tab=edit", "Run without deploying"],
  ["tool-versions", () => "/t/acme/tools/price?tab=versions", "Compare with v1"],
  ["tool-releases", () => "/t/acme/tools/price?tab=releases", "Release a version"],
  ["tool-new", () => "/t/acme/new-tool", "Run without deploying"],
  ["approvals", () => "/t/acme/approvals", "+ fetch"],
  ["schedules", () => "/t/acme/schedules", "nightly"],
  ["webhooks", () => "/t/acme/webhooks", "https://example.com/hook"],
  ["secrets", () => "/t/acme/secrets", "api.stripe.com"],
  ["values", () => "/t/acme/kv?tool=order", "A-3"],
  ["keys", () => "/t/acme/keys", "backend"],
  ["audit", () => "/audit", "tenant.created"],
  ["settings", () => "/t/acme/settings", "Stored code"],
  ["tenants", () => "/tenants", "Globex"],
  ["workers", () => "/workers", "Worker processes"],
  ["sessions", () => "/sessions", "this one"],
  ["no-page", () => "/nothing", "There is no such page"],
];
