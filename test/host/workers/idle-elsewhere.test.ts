// Calls that wait for a process while every slot is taken and processes of other tenants are idle: the one that has been idle for the longest
// ends, whether the waiting tenant has a process or not. Idle processes would otherwise end after a minute.
import { expect, onTestFinished, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";

const ADD = "export default ({ n }) => n + 1;";
const PYTHON_ADD = "def main(input):\n    return input['n'] + 1";
const WAIT = "import asyncio\nasync def main(input):\n    print('begun')\n    await asyncio.sleep(600)";
const LONG_MS = 300_000;
/** Less than the time after which an idle process ends. */
const QUEUE_MS = 30_000;
const MAX = 3;

async function openGlovebox(): Promise<Glovebox> {
  const glovebox = await makeGlovebox({
    tenancy: "multi",
    cache: PYTHON_CACHE,
    limits: { timeoutMs: LONG_MS, cpuMs: LONG_MS, queueMs: QUEUE_MS },
    workers: { max: MAX },
  });
  onTestFinished(() => glovebox.close());
  return glovebox;
}

/** Makes the tenants `first` and `second` have one idle process each. */
async function makeIdle(glovebox: Glovebox): Promise<void> {
  for (const tenantId of ["first", "second"]) {
    await glovebox.addTool({ name: "add", source: ADD }, { tenantId });
    expect(outputOf(await glovebox.execute({ id: "i", toolName: "add", arguments: { n: 1 } }, { tenantId }))).toBe(2);
  }
}

/** Starts a call that ends with the test, and waits until it runs. */
async function startWaiting(glovebox: Glovebox, toolName: string): Promise<void> {
  const controller = new AbortController();
  const { promise, resolve } = Promise.withResolvers<void>();
  const running = glovebox.execute(
    { id: "w", toolName },
    { tenantId: "acme", signal: controller.signal, onLog: () => resolve() },
  );
  onTestFinished(async () => {
    controller.abort();
    await running;
  });
  const ended = running.then((result) => {
    throw new Error(`Expected a running call, got ${codeOf(result)}`);
  });
  ended.catch(() => {});
  await Promise.race([promise, ended]);
}

const tenantsOf = (glovebox: Glovebox): readonly (string | undefined)[] =>
  glovebox.workers.map(({ tenantIds }) => tenantIds[0]).toSorted();

test("a tool in Python next to one of its tenant that runs gets the slot of another tenant's idle process", async () => {
  const glovebox = await openGlovebox();
  for (const [name, source] of Object.entries({ add: PYTHON_ADD, wait: WAIT }))
    await glovebox.addTool({ name, source, language: "python" }, { tenantId: "acme" });
  await startWaiting(glovebox, "wait");
  await makeIdle(glovebox);
  const result = await glovebox.execute({ id: "a", toolName: "add", arguments: { n: 1 } }, { tenantId: "acme" });
  expect(outputOf(result)).toBe(2);
  expect(tenantsOf(glovebox)).toEqual(["acme", "acme", "second"]);
});

test("a second call of a tool that runs alone in its process gets that slot too", async () => {
  const glovebox = await openGlovebox();
  await glovebox.addTool({ name: "wait", source: WAIT, language: "python" }, { tenantId: "acme" });
  await startWaiting(glovebox, "wait");
  await makeIdle(glovebox);
  await startWaiting(glovebox, "wait");
  expect(tenantsOf(glovebox)).toEqual(["acme", "acme", "second"]);
});
