// The route that follows a call: its log lines while it runs, and its result.
import { z } from "@hono/zod-openapi";
import { pause } from "../../operation/background-work.ts";
import type { App, ServerDependencies } from "../context.ts";
import { notFound } from "../request-error.ts";
import { respondWithEvents } from "../responses.ts";
import { addRoute } from "../route.ts";
import { CallParamsSchema, writeWhole } from "./call-records.ts";

/** Time in ms between two looks at a call that does not run: the first, and the longest, for a call that waits for days. */
const WATCH_MS = { min: 500, max: 2_000 } as const;
const WATCH_GROWTH = 1.2;
/** Time in ms between two looks at a call that has run here, and whose record is about to be written. */
const RECORD_MS = 20;
/** Looks for a call that neither runs nor has a record, after which there is none. */
const MAX_MISSING = 10;

export function addCallEventRoute(app: App, dependencies: ServerDependencies): void {
  const { calls } = dependencies;

  const exists = async (tenantId: string, call: string): Promise<boolean> =>
    (await calls.find(tenantId, call)) !== undefined ||
    (await calls.isRunning(tenantId, call)) ||
    // It may have ended meanwhile.
    (await calls.find(tenantId, call)) !== undefined;

  addRoute(
    app,
    dependencies,
    "GET /v1/tenants/{tenant}/calls/{call}/events",
    {
      summary: "Streams the log lines of a call while it runs, and its result",
      description:
        "Server-sent events: `log`, and at last `result`, or `error` if the server failed. A stream that ends without a result has reached its longest time: a client that reconnects with `Last-Event-ID` gets the lines that it has missed.",
      streams: () => true,
      params: CallParamsSchema,
      responses: { 200: { description: "The events", content: { "text/event-stream": { schema: z.string() } } } },
    },
    async (c, { params: { call } }) => {
      const tenantId = c.get("tenant").id;
      if (!(await exists(tenantId, call))) throw notFound("call", call);
      const open = c.get("stream");
      open.limitTime();
      const signal = AbortSignal.any([c.req.raw.signal, open.signal]);
      // A browser that reconnects sends the id of the last event that it has received.
      const last = /^\d{1,9}$/.exec(c.req.header("last-event-id") ?? "")?.[0];
      let next = last === undefined ? 0 : Number(last) + 1;
      let missing = 0;
      let watchMs: number = WATCH_MS.min;
      return respondWithEvents(c, dependencies, async (stream) => {
        while (!(stream.aborted || signal.aborted)) {
          let hasRun = false;
          for await (const { index, entry } of calls.linesOf(tenantId, call, signal, next)) {
            next = index + 1;
            hasRun = true;
            await stream.writeSSE({ event: "log", data: JSON.stringify(entry), id: String(index) });
          }
          const row = await calls.find(tenantId, call);
          if (row !== undefined && row.ended_at !== null) {
            await stream.writeSSE({ event: "result", data: writeWhole(row) });
            return;
          }
          // The server that ran it has ended, and left no record.
          missing = row === undefined ? missing + 1 : 0;
          if (missing > MAX_MISSING) return;
          watchMs = hasRun ? WATCH_MS.min : Math.min(WATCH_MS.max, watchMs * WATCH_GROWTH);
          await pause(hasRun ? RECORD_MS : watchMs, signal);
        }
      });
    },
  );
}
