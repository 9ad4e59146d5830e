// Tools with `isolation: "session"`: calls that name a conversation find what its earlier calls have left.
import type { Executor } from "../executors/executor.ts";
import { createSandboxExecutor, type SandboxTool } from "../executors/sandbox.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { WorkerPool } from "../workers/worker-pool.ts";
import type { Conversation, Conversations } from "./conversation.ts";
import { inConversation } from "./session.ts";
import { DEFAULT_BOUNDS } from "./session-options.ts";

const RETIRED = "its tool was updated or removed";

/** One call of a conversation at a time; a call that names none has an isolate of its own. */
export function createSessionToolExecutor(
  tool: SandboxTool,
  toolName: string,
  pool: WorkerPool,
  conversations: Conversations,
): Executor {
  const alone = createSandboxExecutor({ ...tool, isolation: "call" }, pool);
  const executors = new WeakMap<Conversation, Executor>();
  /** Of this version of the tool: another one begins anew. */
  const own = new Map<string, Conversation>();
  let isRetired = false;
  const conversationOf = ({ tenantId, tenant }: PreparedCall, id: string): Conversation => {
    // Not joined by a character: both may have any character in them.
    const key = JSON.stringify([tenantId, id]);
    const known = own.get(key);
    if (known !== undefined) return known;
    const onOver = (): void => {
      if (own.get(key) === opened) own.delete(key);
    };
    const options = { id, tenantId, kind: toolName, bounds: DEFAULT_BOUNDS, once: false, onOver };
    const opened = conversations.open(options, tenant.limits.sessions);
    own.set(key, opened);
    return opened;
  };
  const executorOf = (conversation: Conversation): Executor => {
    const known = executors.get(conversation) ?? createSandboxExecutor({ ...tool, session: conversation }, pool);
    executors.set(conversation, known);
    return known;
  };
  return {
    ...alone,
    retire: () => {
      isRetired = true;
      alone.retire?.();
      for (const conversation of [...own.values()]) conversation.retire(RETIRED);
    },
    execute: async (call, log) => {
      const { sessionId } = call.context;
      if (sessionId === undefined) return await alone.execute(call, log);
      const conversation = conversationOf(call, sessionId);
      if (call.tracked !== undefined) call.tracked.state = "queued";
      using turn = await conversation.enter(call);
      // A call that was admitted before its tool was updated ends on the old version, and leaves nothing.
      if (isRetired) conversation.retire(RETIRED);
      return await inConversation(conversation, executorOf(conversation), { ...call, signal: turn.signal }, log);
    },
  };
}
