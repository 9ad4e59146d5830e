// Secrets in durable runs: a placeholder is replaced, and a registered value is redacted, in every attempt of a run and in any process.
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryRunStore } from "../../../src/host/runs/memory-run-store.ts";
import { createRuns } from "../../../src/host/runs/runs.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

const KEY = "k3y-0f-the-service-1234";
const NEXT_KEY = "k3y-0f-the-service-5678";
const TOKEN = "t0k3n-of-a-capability";
let server: Server;
let origin: string;
let received: (string | undefined)[] = [];
beforeAll(async () => {
  server = createServer(({ headers, url }, response) => {
    received.push(headers.authorization);
    response.end(url === "/large" ? Buffer.alloc(8 * 1024 * 1024) : headers.authorization);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  received = [];
});

/** Creates the host of a process. @param key value of the secret; undefined if the tool's tenant has none */
async function openHost(key: string | undefined): Promise<Glovebox> {
  const login = defineCapability({
    name: "login",
    inputSchema: z.unknown(),
    outputSchema: z.string(),
    handler: (_input, { redact }) => {
      redact("token", TOKEN);
      redact("unused", "never-given-to-the-tool");
      return TOKEN;
    },
  });
  const glovebox = await makeGlovebox({
    capabilities: [login],
    egress: { allow: [{ to: origin, addresses: ["127.0.0.1/32"] }] },
    ...(key === undefined ? {} : { secrets: { KEY: { value: key, hosts: [origin] } } }),
  });
  const source = `
    export const capabilities = { waitFor: true, secrets: true, fetch: true, login: true };
    export default async ({ logsIn = false }, ctx) => {
      const secret = logsIn ? await ctx.login({}) : await ctx.secrets.use("KEY");
      const send = async () => await (await fetch("${origin}/", { headers: { authorization: secret } })).text();
      const first = logsIn ? null : await send();
      await ctx.waitFor({ event: "go" });
      console.log("The secret is", secret);
      return logsIn ? secret : [first, await send()];
    };`;
  const grant = key === undefined ? ["waitFor", "fetch", "login"] : ["waitFor", "secrets", "fetch", "login"];
  await glovebox.addTool({ name: "tool", source }, { grant });
  return glovebox;
}

test("a placeholder from before a wait is replaced after it, with the value of then, in another process", async () => {
  const store = new MemoryRunStore();
  await using first = await openHost(KEY);
  await using before = createRuns(first, { store, pollMs: 0 });
  const { id, state } = await before.start({ toolName: "tool" });
  expect([state, received]).toEqual(["suspended", [KEY]]);
  await using second = await openHost(NEXT_KEY);
  await using after = createRuns(second, { store, pollMs: 0 });
  const ended = await after.signal(id, { event: "go" });
  expect(received).toEqual([KEY, NEXT_KEY]);
  expect(ended.result).toMatchObject({ success: true, output: ["[redacted:KEY]", "[redacted:KEY]"] });
});

test("a placeholder of a secret that does not exist any more is not sent", async () => {
  const store = new MemoryRunStore();
  await using first = await openHost(KEY);
  await using before = createRuns(first, { store, pollMs: 0 });
  const { id } = await before.start({ toolName: "tool" });
  const failing = () => {
    throw new Error("the vault is closed");
  };
  await using second = await openHost(failing as unknown as string);
  await using after = createRuns(second, { store, pollMs: 0 });
  const ended = await after.signal(id, { event: "go" });
  expect(received).toEqual([KEY]);
  expect(ended.result?.success === false && ended.result.error.message).toMatch(/secret KEY cannot be read/);
});

test("a value that a capability has registered is redacted in logs and output after a wait", async () => {
  const store = new MemoryRunStore();
  await using first = await openHost(KEY);
  await using before = createRuns(first, { store, pollMs: 0 });
  const { id } = await before.start({ toolName: "tool", arguments: { logsIn: true } });
  const journal = JSON.stringify(await before.journal(id));
  expect(journal).toContain(TOKEN);
  expect(journal).not.toContain("never-given-to-the-tool");
  await using second = await openHost(KEY);
  await using after = createRuns(second, { store, pollMs: 0 });
  const { result } = await after.signal(id, { event: "go" });
  expect(result).toMatchObject({ success: true, output: "[redacted:token]" });
  expect(result?.logs.map(({ message }) => message)).toEqual(["The secret is [redacted:token]"]);
});

test("a response that was open at a wait has ended after it", async () => {
  const store = new MemoryRunStore();
  await using glovebox = await openHost(KEY);
  const source = `
    export const capabilities = { waitFor: true, fetch: true };
    export default async (_input, ctx) => {
      const { body } = await fetch("${origin}/large");
      await ctx.waitFor({ event: "go" });
      return await new Response(body).text().catch(({ name, cause }) => [name, cause.code]);
    };`;
  await glovebox.addTool({ name: "reader", source }, { grant: ["waitFor", "fetch"] });
  await using runs = createRuns(glovebox, { store, pollMs: 0 });
  const { id } = await runs.start({ toolName: "reader" });
  const ended = await runs.signal(id, { event: "go" });
  expect(ended.result).toMatchObject({ success: true, output: ["TypeError", "UND_ERR_SOCKET"] });
});
