// A tenant whose calls run on executors of several pools: its export has all that it owns, and its deletion removes it.
import { expect, test } from "vitest";
import { defineCapability } from "../../src/host/index.ts";
import { openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const ACME = { tenantId: "acme" };
const KEEP =
  "export default async ({ key }, { kv, meet }) => { await kv.set(key, { key }); await meet({}); return key; }";
/** One more than an executor has slots: calls that meet run on both. */
const MEETING = 3;

test.skipIf(!hasNatsServer)("exportTenant has what calls have stored in every pool", async () => {
  const tenants = { acme: { pools: ["eu", "us"] } };
  let arrived = 0;
  const { promise: met, resolve } = Promise.withResolvers<void>();
  const handler = async (): Promise<null> => {
    arrived += 1;
    if (arrived === MEETING) resolve();
    await met;
    return null;
  };
  const meet = defineCapability({ name: "meet", inputSchema: {}, outputSchema: {}, handler });
  const host = { tenancy: "multi", tenants, workers: { max: 2 }, capabilities: [meet] } as const;
  await using fleet = await openFleet({ executors: ["eu-1", "us-1"], host });
  await Promise.all(
    ["eu", "us"].map((pool) => fleet.start(`${pool}-1`, ["--pool", pool, "--slots", String(MEETING - 1)])),
  );
  const { host: box } = fleet;
  await box.addTool({ name: "keep", source: KEEP }, { ...ACME, grant: ["kv", "meet"] });

  const keys = Array.from({ length: 12 }, (_, index) => `key-${index}`);
  const calls = keys.map((key) => box.execute({ id: key, toolName: "keep", arguments: { key } }, ACME));
  for (const result of await Promise.all(calls)) expect(result).toMatchObject({ success: true });

  const lines: Record<string, unknown>[] = [];
  for await (const line of box.exportTenant("acme")) lines.push(JSON.parse(line) as Record<string, unknown>);
  const of = (type: string) => lines.filter((line) => line.type === type);
  expect(of("tenant")).toMatchObject([{ policy: { pools: ["eu", "us"] } }]);
  expect(of("tool")).toMatchObject([{ name: "keep", bundle: { code: expect.stringContaining("kv") } }]);
  const values = of("value").map(({ key, json }) => [key, json] as const);
  expect(values.sort()).toEqual(keys.map((key) => [key, JSON.stringify({ key })] as const).sort());
  expect(of("end")).toMatchObject([{ counts: { tools: 1, values: keys.length } }]);

  const deleted = await box.deleteTenant("acme");
  expect(deleted).toMatchObject({ tools: 1, values: { keys: keys.length } });
});
