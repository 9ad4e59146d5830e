// glovebox.workers: what the host tells of its processes, counted by itself.
import { expect, onTestFinished, test } from "vitest";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { WorkerIsolates } from "../../../src/host/workers/process/worker-contents.ts";
import { ownerOfTenant, SHARED_OWNER, tenantOfOwner } from "../../../src/host/workers/scheduling/process-owner.ts";
import { makeGlovebox, outputOf } from "../../support/host-zone.ts";

/** Runs until it is cancelled. */
const WAITS = "export default async () => { console.log('begun'); await new Promise(() => {}); };";

async function gloveboxOf(options: GloveboxOptions = {}): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", ...options });
  onTestFinished(() => glovebox.close());
  await glovebox.addTool({ name: "waits", source: WAITS }, { scope: "global" });
  await glovebox.addTool(
    { name: "kept", source: "let count = 0; export default () => (count += 1);" },
    { scope: "global", isolateLifetime: "tool" },
  );
  return glovebox;
}

interface WaitingCall extends AsyncDisposable {
  readonly begun: Promise<void>;
}

/** Starts a call that waits until it is disposed. */
function wait(glovebox: Glovebox, tenantId: string): WaitingCall {
  const stop = new AbortController();
  const { promise: begun, resolve, reject } = Promise.withResolvers<void>();
  const call = { id: "c", toolName: "waits", arguments: {} };
  const ended = glovebox.execute(call, { tenantId, signal: stop.signal, timeoutMs: 300_000, onLog: () => resolve() });
  void ended.then((result) => reject(new Error(JSON.stringify(result))));
  return {
    begun,
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await ended;
    },
  };
}

const runKept = async (glovebox: Glovebox, tenantId: string): Promise<unknown> =>
  outputOf(await glovebox.execute({ id: "c", toolName: "kept", arguments: {} }, { tenantId }));

/** The isolates of a tenant, in all of its processes, and the states of those. */
function isolatesOf(glovebox: Glovebox, tenantId: string): WorkerIsolates & { readonly states: readonly string[] } {
  const own = glovebox.workers.filter(({ use, tenantIds }) => use === "tenant" && tenantIds.join() === tenantId);
  const sumOf = (of: keyof WorkerIsolates): number => own.reduce((sum, { isolates }) => sum + isolates[of], 0);
  const states = [...new Set(own.map(({ state }) => state))];
  return { running: sumOf("running"), warm: sumOf("warm"), sessions: sumOf("sessions"), states };
}

test("each process has its language, its tenant and its isolates by state", async () => {
  const glovebox = await gloveboxOf({ workers: { max: 4, warmProcesses: 1 } });
  await expect
    .poll(() => glovebox.workers)
    .toContainEqual({
      pid: expect.any(Number),
      language: "javascript",
      use: "warm",
      state: "idle",
      tenantIds: [],
      isolates: { running: 0, warm: 0, sessions: 0 },
      rssBytes: process.platform === "linux" ? expect.any(Number) : undefined,
    });
  {
    await using first = wait(glovebox, "acme");
    await using second = wait(glovebox, "acme");
    await Promise.all([first.begun, second.begun]);
    expect(isolatesOf(glovebox, "acme")).toEqual({ running: 2, warm: 0, sessions: 0, states: ["busy"] });
  }
  await expect.poll(() => isolatesOf(glovebox, "acme").running).toBe(0);
  expect([await runKept(glovebox, "acme"), await runKept(glovebox, "acme")]).toEqual([1, 2]);
  const session = await glovebox.openSession({ tenantId: "acme" });
  expect(outputOf(await session.run("1 + 1"))).toBe(2);
  await expect.poll(() => isolatesOf(glovebox, "acme")).toEqual({ running: 0, warm: 1, sessions: 1, states: ["idle"] });
  await session.close();
  await expect.poll(() => isolatesOf(glovebox, "acme").sessions).toBe(0);
  expect(glovebox.workers.map(({ pid }) => pid)).toEqual(glovebox.workerPids);
});

test("a process that is shared has the tenants whose calls are in it now", async () => {
  const glovebox = await gloveboxOf({ placement: "shared", workers: { max: 1, warmProcesses: 0 } });
  {
    await using first = wait(glovebox, "acme");
    await using again = wait(glovebox, "acme");
    await using other = wait(glovebox, "globex");
    await Promise.all([first.begun, again.begun, other.begun]);
    const [worker] = glovebox.workers;
    expect(worker).toMatchObject({ use: "shared", state: "busy", isolates: { running: 3 } });
    expect(worker?.tenantIds.toSorted()).toEqual(["acme", "globex"]);
  }
  await expect.poll(() => glovebox.workers[0]).toMatchObject({ use: "shared", state: "idle", tenantIds: [] });
});

test("the owner of a process names its tenant, whatever the id contains", () => {
  for (const tenantId of ["acme", 'a" python 256', "shared", "back\\slash\\", 'tenant:"x"', "line\nbreak", ""]) {
    const owner = ownerOfTenant(tenantId);
    for (const suffix of ["", " python 256 ", ' sha "more" 64']) expect(tenantOfOwner(owner + suffix)).toBe(tenantId);
  }
  for (const owner of [SHARED_OWNER, "shared python 256 ", "extract:abc", 'tenant:"a"b', "tenant:a"])
    expect(tenantOfOwner(owner)).toBeUndefined();
});
