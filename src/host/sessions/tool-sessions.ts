// Runs tools with `isolateLifetime: "session"`: calls with the same session id share an isolate.
import type { ToolExecutor } from "../executors/executor.ts";
import { createSandboxExecutor, type SandboxTool } from "../executors/sandbox.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { CallPool } from "../workers/call-pool.ts";
import { runInSession } from "./session.ts";
import { DEFAULT_BOUNDS } from "./session-options.ts";
import type { OpenSessions, SessionState } from "./session-state.ts";

const RETIRED = "its tool was updated or removed";

/** Runs one call of a session at a time. A call without a session id gets an isolate of its own. */
export function createSessionToolExecutor(
  tool: SandboxTool,
  toolName: string,
  pool: CallPool,
  openSessions: OpenSessions,
): ToolExecutor {
  const unsharedExecutor = createSandboxExecutor({ ...tool, isolateLifetime: "call" }, pool);
  const executors = new WeakMap<SessionState, ToolExecutor>();
  /** Sessions of this version of the tool. A new version starts with new ones. */
  const sessions = new Map<string, SessionState>();
  let isRetired = false;
  const stateOf = ({ tenantId, tenant }: PreparedCall, id: string): SessionState => {
    // JSON, because both values may contain any separator character.
    const key = JSON.stringify([tenantId, id]);
    const existing = sessions.get(key);
    if (existing !== undefined) return existing;
    const onEnd = (): void => {
      if (sessions.get(key) === opened) sessions.delete(key);
    };
    const options = { id, tenantId, kind: toolName, bounds: DEFAULT_BOUNDS, once: false, onEnd };
    const opened = openSessions.open(options, tenant.limits.sessions);
    sessions.set(key, opened);
    return opened;
  };
  const executorOf = (state: SessionState): ToolExecutor => {
    const existing = executors.get(state) ?? createSandboxExecutor({ ...tool, session: state }, pool);
    executors.set(state, existing);
    return existing;
  };
  return {
    ...unsharedExecutor,
    retire: () => {
      isRetired = true;
      unsharedExecutor.retire?.();
      for (const state of [...sessions.values()]) state.retire(RETIRED);
    },
    execute: async (call, log) => {
      const { sessionId } = call.context;
      if (sessionId === undefined) return await unsharedExecutor.execute(call, log);
      const state = stateOf(call, sessionId);
      if (call.tracked !== undefined) call.tracked.state = "queued";
      using lease = await state.enter(call);
      // A call that was admitted before an update ends on the old version, and its session ends with it.
      if (isRetired) state.retire(RETIRED);
      return await runInSession(state, executorOf(state), { ...call, signal: lease.signal }, log);
    },
  };
}
