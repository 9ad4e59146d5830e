// The tools of the soak, as a table: the input of each, and its accepted outcomes.
import type { ErrorCode, ToolResult } from "../../src/host/index.ts";
import { HOSTILE_TOOLS } from "./hostile-tools.ts";

export interface SoakTool {
  readonly name: string;
  readonly source: string;
  readonly isolateLifetime?: "call" | "tool";
  readonly grant?: readonly string[];
  /** Pause of its lane between two calls. */
  readonly pauseMs: number;
  readonly timeoutMs: number;
  /** `ok` where the call may succeed. */
  readonly codes: readonly (ErrorCode | "ok")[];
  /** Counts for the latencies, and must succeed unless the host says that it is overloaded. */
  readonly healthy?: boolean;
  /** The longest wait before the caller cancels. */
  readonly cancelsWithinMs?: number;
  /** Length of the argument `text`. Default: small. */
  readonly textUnits?: number;
}

/** Answers with what it was given and whose call it says it is. */
const ECHO = "export default ({ nonce, text }, { callId, tenantId }) => ({ nonce, text, callId, tenantId });";
const ASKING = `export default async ({ nonce, text }, ctx) => {
  const { nonce: received } = await ctx.reflect({ nonce });
  return { nonce: received, text, callId: ctx.callId, tenantId: ctx.tenantId };
};`;
const WAITING = `export default async ({ nonce, text }, { callId, tenantId }) => {
  await new Promise((done) => setTimeout(done, 100));
  return { nonce, text, callId, tenantId };
};`;
const PROGRESS = `export default async ({ nonce, text }, ctx) => {
  for (let progress = 0; progress < 5_000; progress += 1) ctx.progress({ progress });
  return { nonce, text, callId: ctx.callId, tenantId: ctx.tenantId };
};`;

/** More than a call takes on a machine that is ten times as slow as usual: a call that is slow is not lost. */
export const PATIENT_MS = 120_000;
const HEALTHY = { pauseMs: 20, timeoutMs: PATIENT_MS, codes: ["ok", "OVERLOADED"], healthy: true } as const;
const HOSTILE = { pauseMs: 500, timeoutMs: 300 } as const;
/** A machine that is busy may not let a tool come to its own end; a call dies with a neighbour that would not stop. */
const OUTSIDE_ENDS = ["TOOL_TIMEOUT", "CPU_LIMIT", "SANDBOX_CRASHED", "OVERLOADED"] as const;
/** Outcomes that a hostile tool can cause for itself. */
const OWN_ENDS: { readonly [name: string]: readonly (ErrorCode | "ok")[] } = {
  "allocation-loop": ["MEMORY_LIMIT"],
  "capability-flood": ["QUOTA_EXCEEDED"],
  "output-flood": ["ok"],
};

export const SOAK_TOOLS: readonly SoakTool[] = [
  { name: "fresh", source: ECHO, isolateLifetime: "call", ...HEALTHY },
  { name: "warm", source: ECHO, isolateLifetime: "tool", ...HEALTHY },
  { name: "asking", source: ASKING, grant: ["reflect"], ...HEALTHY },
  { name: "large", source: ECHO, ...HEALTHY, pauseMs: 1_000, textUnits: 1_000_000 },
  {
    name: "throwing",
    source: 'export default () => { throw new Error("no"); };',
    ...HOSTILE,
    codes: ["TOOL_FAILED", ...OUTSIDE_ENDS],
  },
  { name: "invalid", source: "export default () => () => 1;", ...HOSTILE, codes: ["OUTPUT_INVALID", ...OUTSIDE_ENDS] },
  {
    name: "cancelled",
    source: WAITING,
    pauseMs: 50,
    timeoutMs: 5_000,
    codes: ["ok", "CANCELLED", ...OUTSIDE_ENDS],
    cancelsWithinMs: 150,
  },
  { name: "progress-flood", source: PROGRESS, ...HOSTILE, codes: ["ok", ...OUTSIDE_ENDS] },
  ...HOSTILE_TOOLS.map(({ name, source, asks }) => ({
    name,
    source,
    ...HOSTILE,
    ...(asks ? { grant: ["ping"] } : {}),
    codes: [...OUTSIDE_ENDS, ...(OWN_ENDS[name] ?? [])],
  })),
];

export interface Expected {
  readonly nonce: string;
  readonly callId: string;
  readonly tenantId: string;
  readonly text: string;
}

/** Returns what is wrong with a result, or undefined if it is correct. */
export function findFault(tool: SoakTool, result: ToolResult, expected: Expected): string | undefined {
  const code = result.success ? "ok" : result.error.code;
  if (!tool.codes.includes(code)) return `${tool.name}: ${code}${result.success ? "" : ` (${result.error.message})`}`;
  if (result.callId !== expected.callId) return `${tool.name}: a result of another call`;
  // A flood answers with its own messages.
  if (!result.success || tool.name === "output-flood") return undefined;
  const { nonce, text, callId, tenantId } = result.output as Partial<Expected>;
  const isOwn = nonce === expected.nonce && text === expected.text;
  const isTold = callId === expected.callId && tenantId === expected.tenantId;
  return isOwn && isTold ? undefined : `${tool.name}: another call's data`;
}
