// Follows one call while it runs, for its page.

import { ApiError, type Call } from "glovebox/client";
import { useEffect, useState } from "preact/hooks";
import type { LogLine } from "../../parts/log-view.tsx";
import { client, request } from "../../state/session.ts";

interface LiveCall {
  readonly call: Call | undefined;
  readonly lines: readonly LogLine[];
  readonly error: unknown;
}

/** Log lines that the page keeps of a call that writes without end. */
const MAX_LINES = 100_000;
/** Time in ms for which log lines are collected before they are drawn. */
const DRAW_MS = 100;
/** Time in ms until a call is followed again after a failure. */
const RETRY_MS = 2_000;

/** Loads a call and follows it until it ends. Log lines are added in groups, because a call may write thousands in a second. */
export function useLiveCall(tenantId: string, id: string): LiveCall {
  const [state, setState] = useState<LiveCall>({ call: undefined, lines: [], error: undefined });
  useEffect(() => {
    const stop = new AbortController();
    let waiting: LogLine[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let retry: ReturnType<typeof setTimeout> | undefined;
    setState({ call: undefined, lines: [], error: undefined });
    const flush = (): void => {
      timer = undefined;
      const added = waiting;
      waiting = [];
      setState((before) => ({ ...before, lines: [...before.lines, ...added].slice(-MAX_LINES) }));
    };
    const showEnded = (call: Call): void => {
      clearTimeout(timer);
      waiting = [];
      setState({ call, lines: (call.logs ?? []) as readonly LogLine[], error: undefined });
    };
    const follow = async (): Promise<void> => {
      waiting = [];
      const path = `/v1/tenants/${encodeURIComponent(tenantId)}/calls/${encodeURIComponent(id)}`;
      try {
        const found = await request<Call>("GET", path, { signal: stop.signal, accept: (status) => status === 404 });
        const isKnown = "state" in found;
        if (isKnown && found.endedAt !== null) return showEnded(found);
        // The stream begins with the lines that the call has written.
        setState((before) => ({ ...before, ...(isKnown ? { call: found } : {}), lines: [] }));
        for await (const { event, data } of client.tenant(tenantId).watch(id, stop.signal)) {
          if (event === "result") return showEnded(data as Call);
          if (event !== "log") continue;
          waiting.push(data as LogLine);
          timer ??= setTimeout(flush, DRAW_MS);
        }
        retry = setTimeout(() => void follow(), RETRY_MS);
      } catch (error) {
        if (stop.signal.aborted) return;
        // The server restarts or has too much to do, or the connection broke: what is shown stays until it answers again.
        const isTemporary =
          !(error instanceof ApiError) || error.status === 0 || error.status === 429 || error.status >= 500;
        if (isTemporary) retry = setTimeout(() => void follow(), RETRY_MS);
        else setState((before) => ({ ...before, error }));
      }
    };
    void follow();
    return () => {
      stop.abort();
      clearTimeout(timer);
      clearTimeout(retry);
    };
  }, [tenantId, id]);
  return state;
}
