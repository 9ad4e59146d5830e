// Shared parts of the host tests: a Glovebox that keeps only its cache on disk, and checks that apply to every result.
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { GloveboxOptions } from "../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../src/host/contract/tool-call.ts";
import { createGlovebox } from "../../src/host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import type { CallRecording } from "../../src/host/recording/recording.ts";
import { type JsonValue, ToolError, type ToolErrorData } from "../../src/sandbox/contract/errors.ts";
import { DYNAMIC_CODE } from "./dynamic-code.ts";
import { PATIENT_LIMITS } from "./patient-limits.ts";

export { PYTHON_CACHE, PYTHON_HOME } from "./interpreter-cache.ts";

/** All tests of a run share this folder: a tool that one of them has built costs the others nothing. Set by test/global-setup.ts. */
export const SHARED_CACHE = {
  directory: process.env.GLOVEBOX_TEST_CACHE ?? join(tmpdir(), "glovebox-test-cache"),
} as const;

/**
 * Creates a Glovebox with a store in memory, no warm processes, and time limits that a busy machine does not exceed. Tests of building pass
 * `cache: false`.
 */
export async function makeGlovebox(options: GloveboxOptions = {}): Promise<Glovebox> {
  return await createGlovebox({
    cache: SHARED_CACHE,
    kv: "memory",
    ...(DYNAMIC_CODE ? {} : { engine: { dynamicCode: false } }),
    ...options,
    bundler: { ...options.bundler, limits: { timeoutMs: PATIENT_LIMITS.timeoutMs, ...options.bundler?.limits } },
    limits: { ...PATIENT_LIMITS, ...options.limits },
    workers: { max: 4, warmProcesses: 0, warmPythonProcesses: 0, ...options.workers },
  });
}

/** Returns the error that a promise rejects with. Fails if it is not a ToolError. */
export async function failureOf(promise: Promise<unknown>): Promise<ToolError> {
  const thrown = await promise.then(
    () => new Error("Expected a rejection, got a value"),
    (reason: unknown) => reason,
  );
  if (thrown instanceof ToolError) return thrown;
  throw thrown;
}

/** Returns the output of a tool as plain JSON. Bytes in it are unchanged. */
export function outputOf(result: ToolResult): JsonValue {
  if (result.success) return result.output as JsonValue;
  throw new Error(`Expected an output, got ${result.error.code}: ${result.error.message}`);
}

export function errorOf(result: ToolResult): ToolErrorData {
  if (!result.success) return result.error;
  throw new Error(`Expected an error, got ${JSON.stringify(result.output)?.slice(0, 200)}`);
}

/** Code of an error, or `ok`. */
export const codeOf = (result: ToolResult): string => (result.success ? "ok" : result.error.code);

const HOST_TRACES = [process.cwd(), homedir(), tmpdir(), "/root", "/node_modules", "file://", "node:internal"];

/** Plain JSON, and nothing in it tells where on this machine we are. */
export function expectPublishable(value: unknown): void {
  const text = JSON.stringify(value);
  expect(JSON.parse(text)).toStrictEqual(value);
  for (const trace of HOST_TRACES) expect(text).not.toContain(trace);
}

/** Adds a tool, calls it once, and returns the recording of the call. */
export async function recordCall(
  glovebox: Glovebox,
  whose: { readonly tenantId?: string } = {},
): Promise<CallRecording> {
  const { promise, resolve, reject } = Promise.withResolvers<CallRecording>();
  await glovebox.addTool({ name: "recorded", source: "export default () => Math.random()" }, whose);
  const result = await glovebox.execute(
    { id: "c", toolName: "recorded" },
    { ...whose, record: { onRecording: resolve } },
  );
  if (!result.success) reject(new Error(result.error.message));
  return await promise;
}
