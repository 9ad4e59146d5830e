// The content of a result file, and the names by which files and limits refer to the same subjects.

/** The result of one subject. */
export interface Summary {
  readonly n: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** p50 over the baseline's p50. */
  readonly ratio: number;
}

/** A row of a table that does not list latencies. */
export type Row = { readonly [column: string]: number | string };

export interface LeftOut {
  readonly name: string;
  readonly reason: string;
}

export interface Result {
  readonly name: string;
  readonly question: string;
  readonly versions?: { readonly [name: string]: string };
  readonly machine?: { readonly cores: number; readonly cpu: string };
  readonly subjects?: { readonly [name: string]: Summary };
  readonly rows?: { readonly [name: string]: Row };
  readonly notes?: readonly string[];
  readonly leftOut?: readonly LeftOut[];
}

export const RAW = "raw isolated-vm";
export const RAW_COLD = "raw isolated-vm, a new isolate";
export const FRESH = 'Glovebox, isolation "call"';
export const WARM = 'Glovebox, isolation "tool"';
export const NOT_AHEAD = "Glovebox, nothing made ahead";
export const IN_PROCESS = "Glovebox, in this process";
export const ON_EXECUTOR = "Glovebox, on an executor";
export const QUICKJS = "quickjs-emscripten";
