// The commands that empty pages show: each creates the first entry of its list, over the HTTP API.

/** Quotes text for a POSIX shell. */
export const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Longest argument of a command, in UTF-16 code units. Linux limits one to 128 KiB, and Windows the whole line to 32 KiB. */
const MAX_ARGUMENT_LENGTH = 30_000;

/** Returns JSON as an argument of a command, or, if it is too long for one, as the command's input. */
export const toArgument = (json: string, option: string, stdinOption: string): string =>
  json.length <= MAX_ARGUMENT_LENGTH ? `${option} ${quote(json)}` : `${stdinOption} <<'END'\n${json}\nEND`;

/** Returns a command that sends a request with the API key in `$GLOVEBOX_API_KEY`. */
export const toCurl = (method: string, url: string, body: object): string =>
  `curl -X ${method} ${quote(url)} \\\n  -H "authorization: Bearer $GLOVEBOX_API_KEY" -H 'content-type: application/json' \\\n  ${toArgument(JSON.stringify(body), "-d", "-d @-")}`;

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
