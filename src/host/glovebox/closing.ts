// Closes the parts of a Glovebox in order, each within a time limit. A part that does not close in time is killed or abandoned, so that it does
// not keep the host's process alive.
import * as z from "zod";
import type { Bundler } from "../../bundler/bundler.ts";
import { ToolError } from "../../sandbox/contract/errors.ts";
import { strictObject } from "../../sandbox/contract/plain-object.ts";
import { SqliteKvStore } from "../capabilities/kv/kv-sqlite.ts";
import type { KvStore } from "../capabilities/kv/kv-store.ts";
import { parseOptions } from "../config/option-errors.ts";
import { MAX_DRAIN_MS } from "../config/options.ts";
import type { McpManager } from "../mcp/client/manager.ts";
import type { ToolRouter } from "../routing/tool-router.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { notifySafely, runCallback } from "../util/host-callback.ts";
import type { CallPool } from "../workers/call-pool.ts";

/** Longest time in ms to close the running calls. They end within a second of their abort, but the host's hooks may take longer. */
const CALLS_CLOSE_MS = 1_500;
/**
 * Longest time in ms to close the bundler, the worker processes and the upstream servers. An upstream server that does not exit is killed
 * after 2 s.
 */
const PARTS_CLOSE_MS = 3_000;
/** Longest time in ms to close all parts. */
const CLOSE_MS = 5_000;
/** Shortest time in ms for the last step, even if the steps before it took longer than planned. */
const MIN_REST_MS = 500;

const CloseOptionsSchema = strictObject({ drainMs: z.int().min(0).max(MAX_DRAIN_MS).default(0) });

/** @throws {ToolError} PARAM_INVALID for options that are invalid or unknown */
export function parseCloseOptions(options: unknown = {}): z.infer<typeof CloseOptionsSchema> {
  return parseOptions(CloseOptionsSchema, options, "options");
}

/** A part of a Glovebox to close. */
export interface ClosingPart {
  /** Name of the part in error messages. */
  readonly name: string;
  readonly close: () => unknown;
  /** Ends the part without waiting, once its time is up. Must not throw. */
  readonly forceClose?: (() => void) | undefined;
}

/** Parts of one step are closed in parallel; the steps run one after the other. */
export interface ClosingStep {
  /** Longest time in ms for the step. Default: the rest of {@link CLOSE_MS}. */
  readonly withinMs?: number;
  readonly parts: readonly ClosingPart[];
}

/**
 * Closes all parts. Never rejects: a part that fails, or exceeds the time of its step, is abandoned and reported.
 * @param onError receives a ToolError (INTERNAL) for each abandoned part
 */
export async function closeAll(
  steps: readonly ClosingStep[],
  onError: ((error: ToolError) => unknown) | undefined,
): Promise<void> {
  const endsAt = performance.now() + CLOSE_MS;
  for (const { withinMs = Math.max(MIN_REST_MS, Math.round(endsAt - performance.now())), parts } of steps) {
    await Promise.all(parts.map((part) => closePart(part, withinMs, onError)));
  }
}

async function closePart(
  { name, close, forceClose }: ClosingPart,
  withinMs: number,
  onError: ((error: ToolError) => unknown) | undefined,
): Promise<void> {
  const outcome = await runCallback(close, { timeoutMs: withinMs });
  if (!("failed" in outcome)) return;
  forceClose?.();
  const message =
    outcome.failed === "timed out"
      ? `Closing ${name} took longer than ${withinMs} ms, so Glovebox was closed without it`
      : `Closing ${name} failed`;
  notifySafely(onError, new ToolError("INTERNAL", message, { cause: outcome.cause }));
}

/** What a Glovebox closes. */
export interface GloveboxParts {
  readonly router: ToolRouter;
  /** Routers of code modes. */
  readonly secondaryRouters: readonly ToolRouter[];
  readonly sessions: Sessions;
  readonly mcp: McpManager;
  readonly bundler: Bundler;
  readonly pool: CallPool;
  /** The key-value store, if the host did not pass in its own. */
  readonly store: KvStore | undefined;
}

/**
 * Closes the parts of a Glovebox. Calls get their results before the parts that they run on are closed. Never rejects; see {@link closeAll}.
 * @param onError receives a ToolError (INTERNAL) for each abandoned part
 */
export async function closeParts(
  { router, secondaryRouters, sessions, mcp, bundler, pool, store }: GloveboxParts,
  onError: ((error: ToolError) => unknown) | undefined,
): Promise<void> {
  const dispose = (part: AsyncDisposable) => () => part[Symbol.asyncDispose]();
  await closeAll(
    [
      {
        withinMs: CALLS_CLOSE_MS,
        parts: [
          { name: "the running calls", close: dispose(router), forceClose: () => router.forceClose() },
          ...secondaryRouters.map((one) => ({
            name: "the runs of code",
            close: dispose(one),
            forceClose: () => one.forceClose(),
          })),
          { name: "the sessions", close: dispose(sessions), forceClose: () => sessions.forceClose() },
        ],
      },
      {
        withinMs: PARTS_CLOSE_MS,
        parts: [
          { name: "the upstream MCP servers", close: dispose(mcp) },
          { name: "the bundler", close: dispose(bundler) },
          { name: "the worker processes", close: dispose(pool) },
        ],
      },
      {
        parts: [
          {
            name: "the key-value store",
            close: () => store?.[Symbol.asyncDispose]?.(),
            forceClose: () => (store instanceof SqliteKvStore ? store.forceClose() : undefined),
          },
        ],
      },
    ],
    onError,
  );
}
