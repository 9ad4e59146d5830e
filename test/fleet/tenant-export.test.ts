// A tenant whose calls run on executors of several pools: its export has all that it owns, and its deletion removes it.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { defineCapability } from "../../src/host/index.ts";
import { openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const ACME = { tenantId: "acme" };
const KEEP =
  "export default async ({ key }, { kv, meet }) => { await kv.set(key, { key }); await meet({}); return key; }";
/** One more than an executor has slots: calls that meet run on both. */
const MEETING = 3;

test.skipIf(!hasNatsServer)(
  "exportTenant has what calls have stored in every pool, and deleteTenant removes the code there",
  async () => {
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
    await using fleet = await openFleet({ executors: ["eu-1", "us-1"], poolOf: (id) => id.slice(0, 2), host });
    const folders: string[] = [];
    for (const pool of ["eu", "us"]) {
      const folder = mkdtempSync(join(tmpdir(), "glovebox-executor-"));
      onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
      folders.push(folder);
      await fleet.start(`${pool}-1`, ["--pool", pool, "--slots", String(MEETING - 1), "--cache-dir", folder]);
    }
    const { host: glovebox } = fleet;
    await glovebox.addTool({ name: "keep", source: KEEP }, { ...ACME, grant: ["kv", "meet"] });

    const keys = Array.from({ length: 12 }, (_, index) => `key-${index}`);
    const calls = keys.map((key) => glovebox.execute({ id: key, toolName: "keep", arguments: { key } }, ACME));
    for (const result of await Promise.all(calls)) expect(result).toMatchObject({ success: true });

    const lines: Record<string, unknown>[] = [];
    for await (const line of glovebox.exportTenant("acme")) lines.push(JSON.parse(line) as Record<string, unknown>);
    const of = (type: string) => lines.filter((line) => line.type === type);
    expect(of("tenant")).toMatchObject([{ policy: { pools: ["eu", "us"] } }]);
    expect(of("tool")).toMatchObject([{ name: "keep", bundle: { code: expect.stringContaining("kv") } }]);
    const values = of("value").map(({ key, json }) => [key, json] as const);
    expect(values.sort()).toEqual(keys.map((key) => [key, JSON.stringify({ key })] as const).sort());
    expect(of("end")).toMatchObject([{ counts: { tools: 1, values: keys.length } }]);

    const bundles = (): readonly string[] =>
      folders.flatMap((folder) => readdirSync(join(folder, "bundles")).filter((name) => name.endsWith(".bundle")));
    // An executor reads a bundle again when the host has a code cache for it.
    expect(bundles().length).toBeGreaterThanOrEqual(2);
    const deleted = await glovebox.deleteTenant("acme");
    expect(deleted).toMatchObject({ tools: 1, values: { keys: keys.length } });
    // The executors get a message.
    await expect.poll(bundles).toEqual([]);
  },
);
