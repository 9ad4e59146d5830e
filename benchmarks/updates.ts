// How many calls fail while their tool is updated 100 times under full load? Prints one line of JSON for each kind of isolation, and ends with
// exit code 1 unless that is 0, no result mixes two versions, and no caller sees a version go back.
import { availableParallelism } from "node:os";
import { parseArgs } from "node:util";
import { createGlovebox, type IsolateLifetime } from "../src/host/index.ts";

const { values } = parseArgs({
  options: { updates: { type: "string", default: "100" }, callers: { type: "string", default: "" } },
});
const UPDATES = Number(values.updates);
/** Enough to keep all cores busy. */
const CALLERS = values.callers === "" ? 4 * availableParallelism() : Number(values.callers);
const TENANT = { tenantId: "acme" } as const;

/** Each of its own code: no build is found in the cache. */
const sourceOf = (version: number, isolateLifetime: IsolateLifetime): string => `
  const loaded = ${version};
  export default () => ({ version: ${version}, loaded, isolation: ${JSON.stringify(isolateLifetime)} });`;

interface Report {
  readonly isolateLifetime: IsolateLifetime;
  readonly updates: number;
  readonly callers: number;
  calls: number;
  failed: number;
  mixed: number;
  wentBack: number;
  readonly codes: Record<string, number>;
}

/** Calls until the updates are done, one call after the other. */
async function callOn(
  call: () => ReturnType<typeof glovebox.execute>,
  report: Report,
  isOver: () => boolean,
): Promise<void> {
  let last = 0;
  while (!isOver()) {
    const result = await call();
    report.calls += 1;
    if (!result.success) {
      report.failed += 1;
      report.codes[result.error.code] = (report.codes[result.error.code] ?? 0) + 1;
      continue;
    }
    const { version, loaded } = result.output as { readonly version: number; readonly loaded: number };
    if (version !== loaded) report.mixed += 1;
    if (version < last) report.wentBack += 1;
    last = version;
  }
}

/** New versions are built by processes that give way to those of the calls: on a busy machine a top level takes long by the clock. */
const limits = { timeoutMs: 60_000 };
await using glovebox = await createGlovebox({ tenancy: "multi", limits, cache: false, kv: "memory", shutdown: false });

async function measure(
  isolateLifetime: IsolateLifetime,
): Promise<Report & { readonly seconds: number; readonly firstCallMs: number }> {
  const name = `updated-${isolateLifetime}`;
  const options = { ...TENANT, isolateLifetime };
  const call = (): ReturnType<typeof glovebox.execute> => glovebox.execute({ id: "c", toolName: name }, TENANT);
  await glovebox.addTool({ source: sourceOf(0, isolateLifetime), name }, options);
  const report: Report = {
    isolateLifetime,
    updates: UPDATES,
    callers: CALLERS,
    calls: 0,
    failed: 0,
    mixed: 0,
    wentBack: 0,
    codes: {},
  };
  let isOver = false;
  const callers = Array.from({ length: CALLERS }, () => callOn(call, report, () => isOver));
  const began = performance.now();
  const starts: number[] = [];
  for (let version = 1; version <= UPDATES; version += 1) {
    await glovebox.updateTool({ source: sourceOf(version, isolateLifetime), name }, options);
    const { usage } = await call();
    starts.push(usage.startMs);
  }
  isOver = true;
  await Promise.all(callers);
  const seconds = Math.round((performance.now() - began) / 1_000);
  const [firstCallMs = 0] = starts.sort((a, b) => a - b).slice(starts.length >> 1);
  return { ...report, seconds, firstCallMs };
}

for (const isolateLifetime of ["tool", "call"] as const) {
  const report = await measure(isolateLifetime);
  console.log(JSON.stringify(report));
  if (report.failed + report.mixed + report.wentBack > 0) process.exitCode = 1;
}
