// glovebox.listTools(): each definition has metadata for the operator, and can still be passed wherever a definition is expected.
import { afterAll, beforeAll, expect, test } from "vitest";
import { toAISDKTools } from "../../../src/host/adapters/ai-sdk.ts";
import { toAgentsTools } from "../../../src/host/adapters/openai-agents.ts";
import { toOpenApi } from "../../../src/host/adapters/openapi.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { toOpenAITools } from "../../../src/host/openai/tools.ts";
import type { ListedTool } from "../../../src/host/routing/listed-tool.ts";
import { codeOf, failureOf, makeGlovebox } from "../../support/host-zone.ts";

const ACME = { tenantId: "acme" } as const;
const OTHER = { tenantId: "other" } as const;
const SOURCE = "export default () => 1";

let glovebox: Glovebox;
let addedAfter: number;
beforeAll(async () => {
  glovebox = await makeGlovebox({
    tenancy: "multi",
    limits: { timeoutMs: 9_000 },
    tenants: (tenantId) => {
      if (tenantId === "broken") throw new Error("down");
      return tenantId === "acme" ? { limits: { timeoutMs: 5_000, memoryMiB: 64 } } : {};
    },
  });
  addedAfter = Date.now();
  const grant = ["stringToCode", "kv", "fetch"];
  await glovebox.addTool({ source: SOURCE, name: "own", overrides: { limits: { cpuMs: 700 } } }, { ...ACME, grant });
  glovebox.router.register("trusted", { limits: { timeoutMs: 1_000 } }, () => 1, ACME);
});
afterAll(async () => await glovebox.close());

const find = async (name: string, scope: { readonly tenantId: string } = ACME): Promise<ListedTool> => {
  const found = (await glovebox.listTools(scope)).find((tool) => tool.name === name);
  if (found === undefined) throw new Error(`There is no tool named ${name}`);
  return found;
};

test("a sandboxed tool is listed with its hash, its owner, its grants and the limits in effect", async () => {
  const { metadata, ...definition } = await find("own");
  expect(metadata).toMatchObject({
    granted: ["fetch", "kv", "stringToCode"],
    scope: "tenant",
    tenantId: "acme",
    source: "sandbox",
    sourceId: "sandbox:own",
  });
  expect(metadata.limits).toMatchObject({ timeoutMs: 5_000, memoryMiB: 64, cpuMs: 700 });
  const { bundle } = await glovebox.inspectTool({ source: SOURCE }, ACME);
  expect(metadata.contentHash).toBe(bundle.sha256);
  expect(metadata.addedAt).toBeGreaterThanOrEqual(addedAfter);
  expect(metadata.addedAt).toBeLessThanOrEqual(Date.now());
  expect(metadata).not.toHaveProperty("updatedAt");
  expect(definition).toEqual(glovebox.router.getRegisteredTools(ACME).find(({ name }) => name === "own"));
  expect(JSON.parse(JSON.stringify(metadata))).toEqual(metadata);
});

test("the digest is that of the tool, as a call states it", async () => {
  const listed = await find("own");
  const { digest } = listed.metadata;
  expect(glovebox.router.digestOf(listed, ACME)).toBe(digest);
  const { metadata: _metadata, ...definition } = listed;
  expect(glovebox.router.digestOf(definition, ACME)).toBe(digest);
  expect(glovebox.router.digestOf({ ...listed, description: "another" }, ACME)).toBeUndefined();
  const call = (toolDigest: string) => glovebox.execute({ id: "c1", toolName: "own" }, { ...ACME, toolDigest });
  expect([codeOf(await call(digest)), codeOf(await call("another"))]).toEqual(["ok", "APPROVAL_REQUIRED"]);
});

test("a host function has no code and no grants to list", async () => {
  const { metadata } = await find("trusted");
  expect(metadata).toMatchObject({
    scope: "tenant",
    source: "host",
    sourceId: "host:trusted",
    limits: { timeoutMs: 1_000 },
  });
  expect(metadata).not.toHaveProperty("contentHash");
  expect(metadata).not.toHaveProperty("granted");
});

test("a global tool has each tenant's own limits, and names no owner", async () => {
  const registered = glovebox.router.registry.get("own", "acme");
  if (registered === undefined) throw new Error("Expected a tool");
  const definition = { ...registered.definition, name: "global" };
  glovebox.router.add({ ...registered, definition, tenantId: undefined });
  const [acme, other] = [await find("global"), await find("global", OTHER)];
  expect([acme.metadata.limits.timeoutMs, other.metadata.limits.timeoutMs]).toEqual([5_000, 9_000]);
  expect(other.metadata.scope).toBe("global");
  expect(other.metadata).not.toHaveProperty("tenantId");
  expect((await glovebox.listTools(OTHER)).map(({ name }) => name)).toEqual(["global"]);
});

test("an update keeps when the tool was added, and says when it was updated", async () => {
  await glovebox.addTool({ source: SOURCE, name: "dated" }, ACME);
  const before = (await find("dated")).metadata;
  await glovebox.updateTool({ source: "export default () => 2", name: "dated" }, { ...ACME, grant: ["kv"] });
  const after = (await find("dated")).metadata;
  expect(after.addedAt).toBe(before.addedAt);
  expect(after.updatedAt).toBeGreaterThanOrEqual(before.addedAt as number);
  expect(after.granted).toEqual(["kv"]);
  expect([after.digest === before.digest, after.contentHash === before.contentHash]).toEqual([false, false]);
});

test("a listed tool is a definition to every adapter, and its metadata reaches no model", async () => {
  const tools = await glovebox.listTools(ACME);
  const names = tools.map(({ name }) => name);
  expect(Object.keys(toAISDKTools(glovebox, { ...ACME, tools }))).toEqual(names);
  expect(toAgentsTools(glovebox, { ...ACME, tools }).map(({ name }) => name)).toEqual(names);
  const shown = JSON.stringify([toOpenAITools(tools, { api: "responses" }), toOpenApi(tools)]);
  for (const hidden of ["metadata", "addedAt", "contentHash", tools[0]?.metadata.digest as string]) {
    expect(shown).not.toContain(hidden);
  }
});

test("a tenant without a valid policy has no list", async () => {
  expect((await failureOf(glovebox.listTools({ tenantId: "broken" }))).code).toBe("INTERNAL");
});
