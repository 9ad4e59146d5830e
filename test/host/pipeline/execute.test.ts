// Tests stage 3 alone: it returns an outcome even if the executor throws or does not answer.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { NO_USAGE } from "../../../src/host/contract/tool-call.ts";
import type { Execution } from "../../../src/host/executors/execution.ts";
import type { ToolExecutor } from "../../../src/host/executors/executor.ts";
import { CallLog } from "../../../src/host/observability/call-log.ts";
import { executeCall } from "../../../src/host/pipeline/execute.ts";
import type { PreparedCall } from "../../../src/host/pipeline/prepared-call.ts";
import { CallChain } from "../../../src/host/routing/call-chain.ts";
import { TenantPolicies } from "../../../src/host/tenants/tenant-policies.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";
import { DEFAULT_LIMITS } from "../../../src/sandbox/contract/limits.ts";

const tenant = new TenantPolicies({}, {}).default;
const DEFINITION = { name: "probe", description: "", inputSchema: {} };

function prepared(signal: AbortSignal): PreparedCall {
  const chain = new CallChain("c1", "probe", DEFAULT_LIMITS, undefined);
  const rest = { inputText: "{}", input: {}, limits: DEFAULT_LIMITS, tenant, context: {}, toolTenantId: undefined };
  const deadlineAt = performance.now() + DEFAULT_LIMITS.timeoutMs;
  return { callId: "c1", tenantId: "acme", definition: DEFINITION, signal, chain, deadlineAt, ...rest };
}

const executor = (execute: () => unknown): ToolExecutor => ({
  source: "host",
  wants: "value",
  execute: execute as ToolExecutor["execute"],
});
const run = (execute: () => unknown, signal = new AbortController().signal): Promise<Execution> =>
  executeCall(executor(execute), prepared(signal), new CallLog(DEFAULT_LIMITS, undefined));

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe("executeCall()", () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    expect(vi.getTimerCount()).toBe(0);
    vi.useRealTimers();
  });

  test("returns the outcome of the executor", async () => {
    const execution: Execution = { usage: NO_USAGE, outputText: "1" };
    expect(await run(async () => execution)).toBe(execution);
  });

  test("does not start a call whose signal has already aborted", async () => {
    const execute = vi.fn();
    const reason = new ToolError("CANCELLED", "before");
    expect(await run(execute, AbortSignal.abort(reason))).toMatchObject({ error: reason });
    expect(execute).not.toHaveBeenCalled();
  });

  test.for<[string, () => unknown]>([
    ["rejects", () => Promise.reject(new Error("at /root/x.js"))],
    [
      "throws",
      () => {
        throw new Error("at /root/x.js");
      },
    ],
    ["rejects with nothing", () => Promise.reject()],
    ["rejects with a revoked proxy", () => Promise.reject(revoked())],
  ])("returns INTERNAL without the cause if the executor %s", async ([, execute]) => {
    const execution = await run(execute);
    expect(execution).toMatchObject({ error: { code: "INTERNAL", message: "The executor failed" } });
  });

  test("keeps the code of a ToolError from the executor", async () => {
    const error = new ToolError("OVERLOADED", "full");
    expect(await run(() => Promise.reject(error))).toMatchObject({ error });
  });

  test("waits one second for the outcome of an aborted executor", async () => {
    const controller = new AbortController();
    const execution: Execution = { usage: { ...NO_USAGE, cpuMs: 5 }, error: new ToolError("TOOL_TIMEOUT", "its own") };
    const late = run(() => new Promise((resolve) => setTimeout(() => resolve(execution), 900)), controller.signal);
    controller.abort(new ToolError("TOOL_TIMEOUT", "the clock's"));
    await vi.advanceTimersByTimeAsync(900);
    expect(await late).toBe(execution);
  });

  test("returns the signal's reason if the executor does not answer", async () => {
    const controller = new AbortController();
    const never = run(() => new Promise(() => {}), controller.signal);
    controller.abort(new ToolError("TOOL_TIMEOUT", "the clock's"));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(await never).toMatchObject({ error: { code: "TOOL_TIMEOUT", message: "the clock's" } });
  });

  test("ignores an executor that rejects after the outcome", async () => {
    const controller = new AbortController();
    const { promise, reject } = Promise.withResolvers<Execution>();
    const answer = run(() => promise, controller.signal);
    controller.abort(new ToolError("CANCELLED", "enough"));
    await vi.advanceTimersByTimeAsync(1_000);
    reject(new Error("too late"));
    expect(await answer).toMatchObject({ error: { code: "CANCELLED" } });
  });
});
