// The commands that empty pages show: each creates the first entry of its list, over the HTTP API.

/** Quotes text for a POSIX shell. */
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Returns a command that sends a request with the API key in `$GLOVEBOX_API_KEY`. */
export const toCurl = (method: string, url: string, body: object): string =>
  `curl -X ${method} ${quote(url)} \\\n  -H "authorization: Bearer $GLOVEBOX_API_KEY" -H 'content-type: application/json' \\\n  -d ${quote(JSON.stringify(body))}`;

/** Method, path below the tenant, and body of the request that creates the first entry. `NAME` stands for a tool. */
const REQUESTS = {
  schedules: ["POST", "/schedules", { name: "nightly", tool: "NAME", cron: "30 2 * * *", timeZone: "Europe/Berlin" }],
  triggers: ["POST", "/triggers", { name: "pushes", tool: "NAME" }],
  values: ["PUT", "/kv/NAME/values/greeting", { value: "hello" }],
  webhooks: ["POST", "/webhooks", { url: "https://example.com/hook", events: ["call.failed"] }],
} as const;

/** @param server origin of the server */
export function firstCommand(server: string, tenantId: string, page: keyof typeof REQUESTS): string {
  const [method, path, body] = REQUESTS[page];
  return toCurl(method, `${server}/v1/tenants/${tenantId}${path}`, body);
}

/** Returns the command that creates the first tenant. */
export const firstTenantCommand = (server: string): string => toCurl("POST", `${server}/v1/tenants`, { id: "acme" });

/** @param path the keys of a tenant or of the platform */
export const firstKeyCommand = (server: string, path: string): string =>
  toCurl("POST", `${server}${path}`, { name: "ci", scopes: ["tools:read", "calls:run"] });
