// Small helpers that the benchmarks share.
import { fileURLToPath } from "node:url";
import type { ToolResult } from "../../src/host/index.ts";

/** A file of this folder, as an absolute path. */
export const benchmarkPath = (path: string): string => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** A benchmark of failures would be a fast one. */
export function expectSuccess(result: ToolResult): void {
  if (!result.success) throw new Error(`${result.error.code}: ${result.error.message}`);
}
