// Small helpers that the benchmarks share.
import { fileURLToPath } from "node:url";
import type { Glovebox, ToolResult } from "../../src/host/index.ts";

/** A file of this folder, as an absolute path. */
export const benchmarkPath = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** A benchmark of failures would be a fast one. */
export function expectSuccess(result: ToolResult): void {
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
}

/** One call that must succeed; the tenant is acme by default. */
export type Caller = (toolName: string, input: unknown, tenantId?: string) => Promise<unknown>;

export function createCaller(glovebox: Glovebox): Caller {
  return async (toolName, input, tenantId = "acme") => {
    const result = await glovebox.execute({ id: "c", toolName, arguments: input }, { tenantId });
    expectSuccess(result);
    return result.success ? result.output : undefined;
  };
}
