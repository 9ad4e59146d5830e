// The public functions and methods of the server's client, for the fuzz test of options. The client checks its options, and the server, which
// is a real one, the fields of a body.
import {
  ApiError,
  type ChangeOptions,
  createClient,
  GloveboxClient,
  type TenantClient,
} from "../../../src/client/index.ts";
import type { Server } from "../../../src/server/index.ts";
import type { OptionTable, PublicEntry } from "../../support/option-fuzz.ts";

/** Passes what the fuzz test generates, whatever its type. */
// biome-ignore lint/suspicious/noExplicitAny: the functions get values of wrong types
const given = (value: unknown): any => value;

const clientOptions: OptionTable = {
  url: "text",
  key: "text",
  retries: "number",
  fetch: "function",
  maxResponseBytes: "number",
  timeoutMs: "number",
  signal: "object",
};
// Nothing listens at this port.
const validClient = () => ({ url: "http://127.0.0.1:9", key: "gb_key", retries: 0 });

/** Waits for a request that is right, and therefore reaches no server. */
async function unreachable(action: () => unknown): Promise<void> {
  try {
    await action();
  } catch (thrown) {
    if (!(thrown instanceof ApiError && thrown.code === "NETWORK")) throw thrown;
  }
}

/** Returns the server's error about the fields of a request as the fuzz test reads it. Any other response accepts them. */
async function answerOf(action: () => unknown): Promise<unknown> {
  try {
    await action();
  } catch (thrown) {
    if (!(thrown instanceof ApiError)) throw thrown;
    if (thrown.code === "INVALID") return { success: false, error: { code: "PARAM_INVALID", message: thrown.message } };
    if (thrown.status === 0 || thrown.status >= 500) throw thrown;
  }
  return undefined;
}

/** The rows of methods whose argument the client checks itself. */
function checkedByClient(): readonly PublicEntry[] {
  const client = createClient(validClient());
  const tenant = client.tenant("acme");
  return [
    {
      name: "createClient(options)",
      where: "options",
      options: clientOptions,
      valid: validClient,
      call: (options) => void createClient(given(options)),
    },
    {
      name: "new GloveboxClient(options)",
      where: "options",
      options: clientOptions,
      valid: validClient,
      call: (options) => void new GloveboxClient(given(options)),
    },
    {
      name: "client.with(changes)",
      where: "options",
      options: { signal: "object", timeoutMs: "number", retries: "number", maxResponseBytes: "number" },
      call: (options) => void client.with(given(options)),
    },
    {
      name: "client.request(method, path, options)",
      where: "options",
      options: {
        body: "any",
        query: "object",
        headers: "object",
        signal: "object",
        isSafe: "boolean",
        accept: "function",
      },
      call: (options) => unreachable(() => client.request("GET", "/v1/me", given(options))),
    },
    {
      name: "client.open(path, options)",
      where: "options",
      options: { query: "object", signal: "object" },
      call: (options) => unreachable(() => client.open("/v1/me", given(options))),
    },
    {
      name: "client.list(path, query)",
      where: "query",
      options: "object",
      call: (query) => unreachable(() => client.list("/v1/tenants", given(query)).next()),
    },
    {
      name: "tenant.call(tool, call, options)",
      where: "options",
      options: { idempotencyKey: "text", signal: "object" },
      call: (options) => unreachable(() => tenant.call("add", {}, given(options))),
    },
    {
      name: "tenant.startRun(tool, run, options)",
      where: "options",
      options: { idempotencyKey: "text", wait: "boolean", signal: "object" },
      call: (options) => unreachable(() => tenant.startRun("add", {}, given(options))),
    },
    {
      name: "tenant.setRelease(tool, alias, versions, options)",
      where: "options",
      options: { rollback: "object or null", ifMatch: "text" },
      call: (options) => unreachable(() => tenant.setRelease("add", "live", [], given(options))),
    },
    {
      name: "tenant.batch(calls)",
      where: "calls",
      options: "list",
      valid: () => [],
      call: (calls) => unreachable(() => tenant.batch(given(calls))),
    },
    {
      name: "tenant.batch(calls, options)",
      where: "options",
      options: { signal: "object" },
      call: (options) => unreachable(() => tenant.batch([], given(options))),
    },
    {
      name: "tenant.stream(tool, call, signal)",
      where: "signal",
      options: "object",
      valid: () => new AbortController().signal,
      call: (signal) => unreachable(() => tenant.stream("add", {}, given(signal)).next()),
    },
    {
      name: "tenant.watch(id, signal)",
      where: "signal",
      options: "object",
      valid: () => new AbortController().signal,
      call: (signal) => unreachable(() => tenant.watch("call_1", given(signal)).next()),
    },
    {
      name: "tenant.delete(options)",
      where: "options",
      options: { rewrite: "boolean" },
      call: (options) => unreachable(() => tenant.delete(given(options))),
    },
    {
      name: "tenant.callApprovals(filter)",
      where: "filter",
      options: { state: "text" },
      call: (filter) => unreachable(() => tenant.callApprovals(given(filter)).next()),
    },
    {
      name: "tenant.calls(filter)",
      where: "filter",
      options: { tool: "text", state: "text", limit: "number" },
      call: (filter) => unreachable(() => tenant.calls(given(filter)).next()),
    },
    {
      name: "tenant.runs(filter)",
      where: "filter",
      options: { tool: "text", state: "text" },
      call: (filter) => unreachable(() => tenant.runs(given(filter)).next()),
    },
    {
      name: "tenant.values(tool, filter)",
      where: "filter",
      options: { prefix: "text" },
      call: (filter) => unreachable(() => tenant.values("add", given(filter)).next()),
    },
    {
      name: "tenant.setValue(tool, key, value, options)",
      where: "options",
      options: { expiresAt: "number", ifVersion: "text or null" },
      call: (options) => unreachable(() => tenant.setValue("add", "key", 1, given(options))),
    },
    {
      name: "tenant.exportValues(tool, options)",
      where: "options",
      options: { signal: "object" },
      call: (options) => unreachable(() => tenant.exportValues("add", given(options))),
    },
    {
      name: "tenant.usage(filter)",
      where: "filter",
      options: { from: "number", until: "number", tool: "text" },
      call: (filter) => unreachable(() => tenant.usage(given(filter))),
    },
    ...CHANGES.map(([method, change]) => ({
      name: `tenant.${method}`,
      where: "options",
      options: { ifMatch: "text" } as const,
      call: (options: unknown) => unreachable(() => change(tenant, given(options))),
    })),
  ];
}

/** The methods that change something that a client has read. */
const CHANGES: readonly (readonly [
  method: string,
  change: (tenant: TenantClient, options: ChangeOptions) => unknown,
])[] = [
  ["update(changes, options)", (tenant, options) => tenant.update({}, options)],
  ["updateKey(id, changes, options)", (tenant, options) => tenant.updateKey("key_1", {}, options)],
  ["rollback(tool, alias, options)", (tenant, options) => tenant.rollback("add", "live", options)],
  ["updateSchedule(id, changes, options)", (tenant, options) => tenant.updateSchedule("schedule_1", {}, options)],
  ["updateWebhook(id, changes, options)", (tenant, options) => tenant.updateWebhook("webhook_1", {}, options)],
  ["updateTrigger(id, changes, options)", (tenant, options) => tenant.updateTrigger("trigger_1", {}, options)],
];

/** A method that sends its argument as a body, with the fields that the server takes and the fewest that it needs. */
type Body = readonly [
  method: string,
  options: OptionTable,
  valid: Readonly<Record<string, unknown>>,
  call: (tenant: TenantClient, body: never) => unknown,
];

const callFields: OptionTable = {
  input: "any",
  version: "number",
  alias: "text",
  sessionId: "text",
  timeoutMs: "number",
  approve: "boolean",
};
const NO_FIELDS = {};
const BODIES: readonly Body[] = [
  ["update(changes)", { name: "text", state: "text", policy: "object" }, NO_FIELDS, (own, body) => own.update(body)],
  [
    "createKey(key)",
    { name: "text", scopes: "list", expiresInDays: "number", expiresInMinutes: "number" },
    { name: "ci", scopes: ["calls:read"] },
    (own, body) => own.createKey(body),
  ],
  [
    "updateKey(id, changes)",
    // Each of them may be null, which removes the limit.
    {},
    { maxAsyncCalls: 1 },
    (own, body) => own.updateKey("key_00000000000000000000000000", body),
  ],
  [
    "deploy(upload)",
    { name: "text", source: "text", language: "text" },
    { name: "one", source: "export default () => 1" },
    (own, body) => own.deploy(body),
  ],
  ["call(tool, call)", callFields, NO_FIELDS, (own, body) => own.call("add", body)],
  ["enqueue(tool, call)", callFields, NO_FIELDS, (own, body) => own.enqueue("add", body)],
  ["stream(tool, call)", callFields, NO_FIELDS, (own, body) => own.stream("add", body).next()],
  [
    "startRun(tool, run)",
    { input: "any", version: "number", alias: "text", approve: "boolean" },
    NO_FIELDS,
    (own, body) => own.startRun("add", body),
  ],
  [
    "setRelease(tool, alias, versions)",
    { version: "number", weight: "number" },
    { version: 1, weight: 1 },
    (own, body) => own.setRelease("add", "live", [body]),
  ],
  [
    "answerRun(id, wait, answer)",
    { action: "text", content: "any" },
    { action: "cancel" },
    (own, body) => own.answerRun("run_00000000000000000000000000", 1, body),
  ],
  [
    "replay(id, changes)",
    { version: "number", input: "any" },
    NO_FIELDS,
    (own, body) => own.replay("call_00000000000000000000000000", body),
  ],
  [
    "rehearse(tool, rehearsal)",
    { version: "number", since: "number", sample: "number" },
    { version: 1 },
    (own, body) => own.rehearse("add", body),
  ],
  [
    "setSecret(name, secret)",
    { value: "text", hosts: "list" },
    { value: "a secret value", hosts: ["api.example.com"] },
    (own, body) => own.setSecret("KEY", body),
  ],
  [
    "createSchedule(schedule)",
    { name: "text", tool: "text", cron: "text", timeZone: "text", input: "any", alias: "text" },
    { name: "nightly", tool: "add", cron: "0 3 * * *" },
    (own, body) => own.createSchedule(body),
  ],
  [
    "updateSchedule(id, changes)",
    { cron: "text", timeZone: "text", alias: "text", state: "text" },
    NO_FIELDS,
    (own, body) => own.updateSchedule("schedule_00000000000000000000000000", body),
  ],
  [
    "createWebhook(webhook)",
    { url: "text", events: "list" },
    { url: "https://example.com/hook", events: ["call.failed"] },
    (own, body) => own.createWebhook(body),
  ],
  [
    "updateWebhook(id, changes)",
    { url: "text", events: "list", state: "text" },
    NO_FIELDS,
    (own, body) => own.updateWebhook("webhook_00000000000000000000000000", body),
  ],
  [
    "createTrigger(trigger)",
    { name: "text", tool: "text", alias: "text", secret: "text" },
    { name: "push", tool: "add" },
    (own, body) => own.createTrigger(body),
  ],
  [
    "updateTrigger(id, changes)",
    { state: "text", alias: "text" },
    NO_FIELDS,
    (own, body) => own.updateTrigger("trigger_00000000000000000000000000", body),
  ],
];
/** Each value is one request. */
const REQUESTS = 15;

/** @param open returns a server that listens */
export function clientEntries(open: () => Promise<Server>): readonly PublicEntry[] {
  let connected: Promise<GloveboxClient> | undefined;
  const connect = async (): Promise<GloveboxClient> => {
    const { url, adminKey = "" } = await open();
    const client = createClient({ url, key: adminKey });
    await client.createTenant({ id: "acme" });
    await client.tenant("acme").deploy({ name: "add", source: "export default ({ a, b }) => a + b" });
    return client;
  };
  const client = (): Promise<GloveboxClient> => (connected ??= connect());
  let tenants = 0;
  return [
    ...checkedByClient(),
    ...BODIES.map(([method, options, fields, call]) => ({
      name: `tenant.${method}`,
      where: "",
      options,
      runs: REQUESTS,
      isSent: true,
      valid: () => fields,
      call: async (body: unknown) => {
        const tenant = (await client()).tenant("acme");
        return await answerOf(() => call(tenant, body as never));
      },
    })),
    {
      name: "client.createTenant(tenant)",
      where: "",
      runs: REQUESTS,
      isSent: true,
      options: { id: "text", name: "text", policy: "object" },
      valid: () => {
        tenants += 1;
        return { id: `tenant-${tenants}` };
      },
      call: async (tenant) => {
        const own = await client();
        return await answerOf(() => own.createTenant(given(tenant)));
      },
    },
  ];
}
