// What happens to a tenant while something else of it is under way: deletion, export, suspension, removal and closing meet calls, stores and
// builds that take their time.
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { MemoryKvStore } from "../../../src/host/capabilities/kv/kv-memory.ts";
import type { KvStore } from "../../../src/host/capabilities/kv/kv-store.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { MemoryQuotaStore } from "../../../src/host/tenants/quotas/memory-quota-store.ts";
import type { QuotaStore } from "../../../src/host/tenants/quotas/quota-store.ts";
import { codeOf, errorOf, failureOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const ACME = { tenantId: "acme" } as const;
const LONG_MS = 60_000;

async function gloveboxOf(options: GloveboxOptions = {}): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", limits: { timeoutMs: LONG_MS, cpuMs: LONG_MS }, ...options });
  onTestFinished(() => glovebox.close());
  return glovebox;
}

/** A gate: what waits at it goes on when it is opened. */
function gate(): { readonly reached: Promise<void>; readonly pass: () => Promise<void>; readonly open: () => void } {
  const reached = Promise.withResolvers<void>();
  const opened = Promise.withResolvers<void>();
  const pass = async (): Promise<void> => {
    reached.resolve();
    await opened.promise;
  };
  return { reached: reached.promise, pass, open: opened.resolve };
}

describe("deleteTenant", () => {
  test("ends while a retry loop goes on to call through the invoker", async () => {
    const glovebox = await gloveboxOf();
    glovebox.router.register("add", {}, () => 1, ACME);
    let isOver = false;
    const loop = (async () => {
      while (!isOver) await glovebox.invoker.execute({ toolName: "add", context: ACME });
    })();
    await glovebox.deleteTenant("acme");
    isOver = true;
    await loop;
  });

  test("waits for what a cancelled call was writing, and removes it", async () => {
    const writing = gate();
    const store = new MemoryKvStore();
    const slow: KvStore = Object.assign(Object.create(store), {
      set: async (...args: Parameters<KvStore["set"]>) => {
        await writing.pass();
        return await store.set(...args);
      },
    });
    for (const name of ["get", "delete", "list", "usage", "deleteTenant", "entries"] as const) {
      Object.assign(slow, { [name]: (...args: never[]) => (store[name] as (...given: never[]) => unknown)(...args) });
    }
    const glovebox = await gloveboxOf({ kv: slow });
    const source = "export default (_, ctx) => ctx.kv.set('key', 'value')";
    await glovebox.addTool({ name: "write", source }, { ...ACME, grant: ["kv"] });
    const call = glovebox.execute({ id: "c", toolName: "write" }, ACME);
    await writing.reached;
    const deletion = glovebox.deleteTenant("acme");
    expect(codeOf(await call)).toBe("CANCELLED");
    writing.open();
    expect((await deletion).values.keys).toBe(1);
    expect((await glovebox.deleteTenant("acme")).values.keys).toBe(0);
  });

  test("waits for an inspection, and removes what that has cached", async () => {
    const glovebox = await gloveboxOf({ cache: { directory: false } });
    const inspecting = glovebox.inspectTool({ name: "t", source: "export default () => 'inspected'" }, ACME);
    const deletion = glovebox.deleteTenant("acme");
    await inspecting.catch(() => {});
    await deletion;
    expect((await glovebox.deleteTenant("acme")).artifacts.count).toBe(0);
    const glovebox2 = glovebox.router.tenantStates;
    glovebox2.set("acme", "deleting");
    const denied = await failureOf(glovebox.inspectTool({ name: "t", source: "export default () => 1" }, ACME));
    expect(denied.details?.reason).toBe("tenant_deleted");
    expect((await failureOf(glovebox.listTools(ACME))).details?.reason).toBe("tenant_deleted");
    glovebox2.set("acme", undefined);
  });
});

describe("exportTenant", () => {
  test("an export that is first read during a deletion, or after close(), fails and has no end", async () => {
    const removing = gate();
    const store = new MemoryKvStore();
    const remove = store.deleteTenant.bind(store);
    const glovebox = await gloveboxOf({
      kv: Object.assign(store, {
        deleteTenant: async (tenantId: string) => {
          await removing.pass();
          return await remove(tenantId);
        },
      }),
    });
    const [during, after] = [glovebox.exportTenant("acme"), glovebox.exportTenant("beta")];
    const deletion = glovebox.deleteTenant("acme");
    await removing.reached;
    expect((await failureOf(during.next())).details?.reason).toBe("tenant_deleted");
    removing.open();
    await deletion;
    await glovebox.close();
    expect((await failureOf(after.next())).details?.reason).toBe("closed");
  });
});

describe("a quota store that takes its time", () => {
  function waiting(): { readonly store: QuotaStore; readonly counting: ReturnType<typeof gate> } {
    const counting = gate();
    const memory = new MemoryQuotaStore();
    const store: QuotaStore = {
      consume: async (charges) => {
        await counting.pass();
        return await memory.consume(charges);
      },
      deleteTenant: (tenantId) => memory.deleteTenant(tenantId),
    };
    return { store, counting };
  }
  const limited = (quotaStore: QuotaStore): GloveboxOptions => ({ quotaStore, quotas: { calls: { day: 100 } } });

  test("is waited for within the call's time, and a cancelled call ends at once", async () => {
    const { store, counting } = waiting();
    const glovebox = await gloveboxOf(limited(store));
    let runs = 0;
    glovebox.router.register("add", {}, () => (runs += 1), ACME);
    const late = errorOf(await glovebox.execute({ id: "late", toolName: "add" }, ACME, 50));
    expect([late.code, late.details]).toEqual(["TOOL_UNAVAILABLE", { reason: "quota_store_failed" }]);
    const call = glovebox.execute({ id: "c", toolName: "add" }, ACME);
    await counting.reached;
    expect(glovebox.cancelCall("c", ACME)).toBe(true);
    expect(codeOf(await call)).toBe("CANCELLED");
    counting.open();
    expect(runs).toBe(0);
  });

  test("admits no call of a tenant that was suspended meanwhile", async () => {
    const { store, counting } = waiting();
    const glovebox = await gloveboxOf(limited(store));
    let runs = 0;
    glovebox.router.register("add", {}, () => (runs += 1), ACME);
    const call = glovebox.execute({ id: "c", toolName: "add" }, ACME);
    await counting.reached;
    await glovebox.suspendTenant("acme");
    counting.open();
    expect(errorOf(await call).details?.reason).toBe("tenant_suspended");
    expect(runs).toBe(0);
  });

  test("admits no other call before an old debt is paid", async () => {
    const memory = new MemoryQuotaStore();
    let payments = 0;
    const paying = gate();
    const store: QuotaStore = {
      consume: async (charges) => {
        const isDebt = charges.some((charge) => charge.kind === "window" && charge.amount > 1_000);
        if (isDebt) {
          payments += 1;
          if (payments === 1) throw new Error("down");
          await paying.pass();
        }
        return await memory.consume(charges);
      },
      deleteTenant: (tenantId) => memory.deleteTenant(tenantId),
    };
    const glovebox = await gloveboxOf({ quotaStore: store, quotas: { egressBytes: { day: 100 } } });
    const { quotas } = glovebox.router.tenantStates;
    const plan = glovebox.router.tenants.default.quota;
    if (plan === undefined) throw new Error("Expected quotas");
    const accounts = [{ id: "acme", kind: "tenant", plan } as const];
    quotas.charge(accounts, { cpuMs: 0, egressBytesIn: 5_000, egressBytesOut: 0 });
    await pause(0);
    const calls = Array.from({ length: 4 }, () => glovebox.execute({ id: "c", toolName: "none" }, ACME));
    await paying.reached;
    paying.open();
    expect((await Promise.all(calls)).map(codeOf)).toEqual(Array(4).fill("QUOTA_EXCEEDED"));
  });

  test("tries to pay an old debt once for all calls that wait, and denies them together if it fails", async () => {
    const memory = new MemoryQuotaStore();
    let isDown = true;
    let payments = 0;
    const store: QuotaStore = {
      consume: async (charges) => {
        if (isDown) {
          payments += 1;
          await pause(0);
          throw new Error("down");
        }
        return await memory.consume(charges);
      },
      deleteTenant: (tenantId) => memory.deleteTenant(tenantId),
    };
    const glovebox = await gloveboxOf({ quotaStore: store, quotas: { egressBytes: { day: 10_000 } } });
    glovebox.router.register("add", {}, () => 1, ACME);
    const { quotas } = glovebox.router.tenantStates;
    const plan = glovebox.router.tenants.default.quota;
    if (plan === undefined) throw new Error("Expected quotas");
    quotas.charge([{ id: "acme", kind: "tenant", plan }], { cpuMs: 0, egressBytesIn: 9_000, egressBytesOut: 0 });
    const callAll = (): Promise<ToolResult[]> =>
      Promise.all(Array.from({ length: 5 }, () => glovebox.execute({ id: "c", toolName: "add" }, ACME)));
    const reasons = (await callAll()).map((result) => errorOf(result).details?.reason);
    expect([reasons, payments]).toEqual([Array(5).fill("quota_store_failed"), 2]);
    isDown = false;
    expect((await callAll()).map(codeOf)).toEqual(Array(5).fill("ok"));
    quotas.charge([{ id: "acme", kind: "tenant", plan }], { cpuMs: 0, egressBytesIn: 1_000, egressBytesOut: 0 });
    expect((await callAll()).map(codeOf)).toEqual(Array(5).fill("QUOTA_EXCEEDED"));
  });
});

test("a removed tool stays removed though a replacement was being built", async () => {
  const glovebox = await gloveboxOf();
  const tool = (version: number) => ({ name: "t", source: `export default () => ${version}` });
  await glovebox.addTool(tool(1), ACME);
  const replacing = glovebox.addTool(tool(2), { ...ACME, replace: true });
  expect(glovebox.removeTool("t", ACME)).toBe(true);
  await replacing;
  expect(errorOf(await glovebox.execute({ id: "c", toolName: "t" }, ACME)).details?.reason).toBe("not_found");
  await glovebox.addTool(tool(3), ACME);
  expect(outputOf(await glovebox.execute({ id: "c", toolName: "t" }, ACME))).toBe(3);
});

test("close({ drainMs }) lets a session's run finish", async () => {
  const glovebox = await gloveboxOf();
  const session = await glovebox.openSession(ACME);
  const begun = Promise.withResolvers<void>();
  const run = session.run("console.log('on'); await new Promise((done) => setTimeout(done, 500)); 'done'", {
    onLog: () => begun.resolve(),
  });
  await begun.promise;
  await glovebox.close({ drainMs: 30_000 });
  expect(outputOf(await run)).toBe("done");
});

test("sessions of a tool are one tenant's, whatever characters ids have", async () => {
  const glovebox = await gloveboxOf();
  const source =
    "let kept = null; export default ({ value }) => { const was = kept; kept = value ?? kept; return was; }";
  await glovebox.addTool({ name: "keep", source }, { scope: "global", isolateLifetime: "session" });
  const call = (tenantId: string, sessionId: string, args: object) =>
    glovebox.execute({ id: "c", toolName: "keep", arguments: args }, { tenantId, sessionId });
  await call("a\0b", "c", { value: "secret" });
  expect(outputOf(await call("a", "b\0c", {}))).toBe(null);
  expect(outputOf(await call("a\0b", "c", {}))).toBe("secret");
});
