// Runs the HTTP backend of the examples as a process: tenants, uploads, errors as HTTP, quotas, stored values, and its end by SIGTERM.
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startExample, TEST_TIMEOUT_MS, useHome } from "../support/example-process.ts";

const home = useHome();
const COUNT =
  "export default async (_, { kv }) => { const n = ((await kv.get('n')) ?? 0) + 1; await kv.set('n', n); return n; };";
/** Long enough that it can be seen while it runs; nothing depends on whether it is. */
const SLOW = "export default () => new Promise((resolve) => setTimeout(resolve, 500, 'done'));";

interface Reply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/** Starts the backend on a free port, with a client for it. */
async function start() {
  const env = { PORT: "0", KV_PATH: join(home(), "kv.sqlite") };
  const backend = startExample("multi-tenant-backend.ts", home(), env);
  const [, url = ""] = await backend.says("stdout", /Listening on (\S+)\n/);
  const request = async (key: string, method: string, path: string, body?: string): Promise<Reply> => {
    const headers = { authorization: `Bearer ${key}-key` };
    const response = await fetch(url + path, { method, headers, ...(body === undefined ? {} : { body }) });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: text === "" ? undefined : JSON.parse(text) };
  };
  return {
    backend,
    request,
    upload: (key: string, name: string, source: string) => request(key, "PUT", `/tools/${name}`, source),
    call: (key: string, name: string, args: string = "") => request(key, "POST", `/tools/${name}/calls`, args),
  };
}

test("multi-tenant-backend.ts keeps tenants apart and ends gracefully", { timeout: 2 * TEST_TIMEOUT_MS }, async () => {
  const { backend, request, upload, call } = await start();

  // Without a known key there is nothing.
  expect(await request("unknown", "GET", "/tools")).toMatchObject({ status: 401 });
  expect(await upload("unknown", "count", COUNT)).toMatchObject({ status: 401 });

  // A tool is its tenant's own, and so are the values that it keeps.
  expect(await upload("acme", "count", COUNT)).toMatchObject({ status: 201, body: { name: "count" } });
  expect(await call("acme", "count")).toMatchObject({ status: 200, body: { output: 1 } });
  expect(await call("acme", "count")).toMatchObject({ status: 200, body: { output: 2 } });
  expect(await call("globex", "count")).toMatchObject({ status: 404, body: { error: { code: "TOOL_UNAVAILABLE" } } });
  expect(await upload("globex", "count", COUNT)).toMatchObject({ status: 201 });
  expect(await call("globex", "count")).toMatchObject({ status: 200, body: { output: 1 } });

  // Globex may call twice a minute, whether or not calls of tools that it does not have count.
  // A slow machine may be in the next minute by the third call, so this calls until a minute is full.
  let limited = await call("globex", "count");
  for (let more = 0; more < 10 && limited.status === 200; more += 1) limited = await call("globex", "count");
  expect(limited).toMatchObject({ status: 429, body: { error: { code: "QUOTA_EXCEEDED" } } });
  expect(Number(limited.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(await call("acme", "count")).toMatchObject({ status: 200, body: { output: 3 } });

  // Failures have the status of their code.
  const failures = [
    ["syntax", 422, "BUNDLE_FAILED"],
    ["export default () => { throw new Error('out of paper'); }", 502, "TOOL_FAILED"],
    ["export default () => { for (;;); }", 504, "CPU_LIMIT"],
    ["export const inputSchema = { type: 'object', required: ['sku'] }; export default () => 1", 422, "PARAM_INVALID"],
  ] as const;
  for (const [source, status, code] of failures) {
    const uploaded = await upload("acme", "other", source === "syntax" ? "export default (" : source);
    const reply = uploaded.status === 201 ? await call("acme", "other", "{}") : uploaded;
    expect(reply).toMatchObject({ status, body: { error: { code } } });
  }
  expect(await call("acme", "count", "not JSON")).toMatchObject({ status: 422 });
  expect(await upload("acme", "big", "x".repeat(100_001))).toMatchObject({ status: 413 });
  expect((await request("acme", "GET", "/tools")).body).toMatchObject([{ name: "count" }, { name: "other" }]);
  expect(await request("acme", "DELETE", "/tools/other")).toMatchObject({ status: 204 });
  expect(await request("acme", "DELETE", "/tools/other")).toMatchObject({ status: 404 });

  // A call that runs at SIGTERM has its answer, and then the process ends by itself.
  expect(await upload("acme", "slow", SLOW)).toMatchObject({ status: 201 });
  const slow = call("acme", "slow");
  await expect.poll(async () => (await request("acme", "GET", "/calls")).body).toHaveLength(1);
  backend.signal("SIGTERM");
  expect(await slow).toMatchObject({ status: 200, body: { output: "done" } });
  await backend.says("stdout", /Shutting down\nClosed\n/);
  expect(await backend.exit).toBe(0);
  expect(backend.stderr).toBe("");

  // Stored values outlive it.
  const next = await start();
  expect(await next.upload("acme", "count", COUNT)).toMatchObject({ status: 201 });
  expect(await next.call("acme", "count")).toMatchObject({ status: 200, body: { output: 4 } });
  expect((await readFile(join(home(), "kv.sqlite"))).length).toBeGreaterThan(0);
  next.backend.signal("SIGTERM");
  expect(await next.backend.exit).toBe(0);
  await rm(join(home(), "kv.sqlite"), { force: true });
});
