// Entry point of the prelude, which runs first in each isolate: captures intrinsics, defines the guest's globals, and returns the function
// through which the worker enters the guest.
import type { BootOptions, EnterKind } from "../protocol/guest-messages.ts";
import { deliver } from "./bridge.ts";
import { installBytesText } from "./bytes-text.ts";
import { advanceTime, beginTime, installCoarseTime } from "./coarse-time.ts";
import { hideGarbageCollection, installSeededRandom } from "./deterministic-globals.ts";
import { type Ask, connectHost, type Post, postAtOnce, receiveAnswer } from "./host.ts";
import { lockDown } from "./lockdown.ts";
import { registerModules, usePlatformModule } from "./module-loader.ts";
import { installPlatform } from "./platform.ts";
import { defineGlobal, flushGlobals, JSONParse } from "./primordials.ts";
import { beginTurn, fireTimer, installTimers } from "./timers.ts";
import { type BundleFunction, describe, holdEnds, invoke, load, rollBack } from "./tool-runner.ts";
import { installUncaughtErrors, reportRejection } from "./uncaught-errors.ts";

/**
 * The only function through which the worker enters the guest. Never throws.
 * @param at time of the guest's clock in ms since 1970, for a repeatable call
 */
export type Enter = (
  kind: EnterKind,
  at?: number,
  a?: unknown,
  b?: unknown,
  c?: unknown,
  d?: unknown,
  ...rest: unknown[]
) => void;

/**
 * Prepares the isolate. The worker calls it once, before tool code is in the isolate.
 * @param post posts a message in the background
 * @param postNow posts a message at once, for calls on the worker's main thread
 * @param options BootOptions as JSON text
 */
export function boot(post: Post, postNow: Post, ask: Ask, options: string): Enter {
  const { features, coarseTime, deterministic, isRollback } = JSONParse(options) as BootOptions;
  connectHost(post, postNow, ask);
  if (isRollback === true) holdEnds();
  if (deterministic !== undefined) {
    installCoarseTime(deterministic.now);
    installSeededRandom(deterministic.words);
    hideGarbageCollection();
    isRepeatable = true;
    postAtOnce(true);
  } else if (coarseTime) installCoarseTime();
  beginTime();
  defineGlobal("self", globalThis);
  installTimers();
  installBytesText();
  installUncaughtErrors();
  installPlatform();
  lockDown(features);
  flushGlobals();
  return enter;
}

/** Whether the order of all messages to the worker must follow the guest's program. */
let isRepeatable = false;

function enter(
  kind: EnterKind,
  at?: number,
  a?: unknown,
  b?: unknown,
  c?: unknown,
  d?: unknown,
  ...rest: unknown[]
): void {
  advanceTime(at);
  beginTurn();
  switch (kind) {
    case "load":
      registerModules(b !== "", [c, d, ...rest]);
      void load(a as BundleFunction, b as string);
      break;
    case "describe":
      describe();
      break;
    case "invoke":
    case "invoke-now":
      if (!isRepeatable) postAtOnce(kind === "invoke-now");
      void invoke(
        a as string,
        b as string,
        c as string | undefined,
        d as string | undefined,
        rest[0] === true,
        rest.length < 3 ? undefined : { header: rest[1] as string, data: rest[2] as Uint8Array },
      );
      break;
    case "credit":
      (usePlatformModule("stream-output").takeCredit as (chunks: number) => void)(a as number);
      break;
    case "deliver":
    case "deliver-now":
      if (!isRepeatable) postAtOnce(kind === "deliver-now");
      deliver(a as number, b as string);
      if (c !== undefined) deliver(c as number, d as string);
      for (let index = 0; index < rest.length; index += 2) deliver(rest[index] as number, rest[index + 1] as string);
      break;
    case "timer":
      fireTimer(a as number);
      break;
    case "rollback":
      rollBack(a as number);
      break;
    case "unhandled":
      reportRejection(a as string);
      break;
    case "answer":
      receiveAnswer(a as number, b as string, [c, d, ...rest] as ArrayBuffer[]);
      break;
  }
}
