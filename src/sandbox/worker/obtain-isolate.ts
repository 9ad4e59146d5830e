// Obtains the isolate of a call: one that an earlier call or the warm pool has left, the session's, or a new one with the tool loaded.
import type { AssignedCall, Assignment } from "./assignment.ts";
import { warmKey } from "./assignment.ts";
import type { WorkerInspection } from "./inspection.ts";
import type { GuestEnd, GuestListener } from "./isolate/guest-call.ts";
import type { ToolIsolate } from "./isolate/tool-isolate.ts";
import type { IsolatePool } from "./isolate-pool.ts";
import { recordedStart } from "./random-bytes.ts";

/** Whether the bundle is the Python runtime. */
export const isPython = ({ bundle }: Assignment, pool: IsolatePool): boolean => pool.python?.sha256 === bundle.sha256;

/** Returns an isolate in which the tool is loaded: one that an earlier call has used, or an unused one from the warm pool. */
export function takeWarmIsolate(
  assignment: Assignment,
  call: AssignedCall,
  pool: IsolatePool,
): ToolIsolate | undefined {
  // The state of a session is only in its own isolate. State of earlier calls, or top-level code that ran earlier, would make a
  // deterministic call unrepeatable.
  if (call.session !== undefined || call.deterministic !== undefined) return undefined;
  const python = isPython(assignment, pool);
  if (call.tool.isRecorded === true) return python ? undefined : pool.warmIsolates.take(call.tool);
  if (call.tool.isolateLifetime === "tool") {
    const warm = pool.takeIdle(warmKey(call));
    if (warm !== undefined || !python) return warm;
  }
  return python ? pool.python?.take(call.tool) : pool.warmIsolates.take(call.tool);
}

/** The call as it prepares its isolate. */
export interface PreparingCall extends GuestListener {
  readonly isCancelled: boolean;
  /** Takes over an isolate, which may have been used before for `busyMs`. A cancellation disposes it from now on. */
  adopt(isolate: ToolIsolate, busyMs: number): void;
}

/** Creates an isolate, or takes the session's, and loads the bundle into it. Returns the failure, or undefined on success. */
export async function prepareIsolate(
  assignment: Assignment,
  pool: IsolatePool,
  inspection: WorkerInspection | undefined,
  preparing: PreparingCall,
): Promise<GuestEnd | undefined> {
  const { seq, bundle, features, coarseTime, call } = assignment;
  const session = call?.session;
  if (session !== undefined) {
    const kept = pool.takeSession(session.id);
    if (kept !== undefined) return await resumeSession(kept, assignment, preparing);
    // The session's state is lost. A new isolate would silently lose the effects of its earlier calls.
    if (session.resumes === true) return { outcome: "isolate-failed", text: "" };
  }
  const { memoryMiB } = assignment.limits;
  const inspector = inspection !== undefined;
  const deterministic = call?.deterministic ?? (call?.tool.isRecorded === true ? recordedStart() : undefined);
  const python = isPython(assignment, pool) ? pool.python : undefined;
  if (python !== undefined && deterministic === undefined && !inspector) {
    const warm = await python.waitFor(assignment);
    if (warm !== undefined) {
      preparing.adopt(warm, warm.busyMs);
      return undefined;
    }
    if (preparing.isCancelled) return { outcome: "cancelled", text: "" };
  }
  const options = { features, coarseTime, inspector, deterministic };
  const isolate = python?.create(options) ?? pool.create({ ...options, memoryMiB });
  preparing.adopt(isolate, 0);
  isolate.boot();
  await inspection?.open(seq, isolate);
  const header = call?.prewarm === undefined ? undefined : call.tool.header;
  const end = await isolate.load(bundle, preparing, header);
  return end.outcome === "ready" ? undefined : end;
}

/** Continues in the session's isolate. A tool's bundle is already loaded there; a cell has its own bundle. */
async function resumeSession(
  isolate: ToolIsolate,
  { bundle }: Assignment,
  preparing: PreparingCall,
): Promise<GuestEnd | undefined> {
  preparing.adopt(isolate, isolate.busyMs);
  // The isolate exceeded its memory limit between two calls, in work that an earlier call had left pending.
  if (isolate.isDisposed) return { outcome: isolate.isOutOfMemory ? "memory" : "isolate-failed", text: "" };
  if (isolate.hasLoaded(bundle)) return undefined;
  const end = await isolate.load(bundle, preparing);
  return end.outcome === "ready" ? undefined : end;
}
