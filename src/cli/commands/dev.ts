// glovebox dev: runs a tool again whenever its files or its input change, until it is stopped.

import { createGlovebox, createInspectedGlovebox } from "../../host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import { readCallOptions } from "../shared/call-options.ts";
import { openGlovebox } from "../shared/open-glovebox.ts";
import { openInspection } from "../shared/open-inspection.ts";
import { findPackages } from "../shared/project-root.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, TERMINAL_TIMEOUT_MS, UsageError } from "../usage.ts";
import { DevSession } from "./dev-session.ts";

const INTERRUPT_KEY = "\u0003";

/** Handles single keys in a terminal; other kinds of stdin are not read. Returns a function that restores the terminal. */
function handleKeys(session: DevSession, { stdin }: Io): () => void {
  if (!stdin.isTTY) return () => {};
  const onData = (data: Buffer): void => {
    for (const key of data.toString()) {
      if (key === "r") session.rerun();
      else if (key === "q" || key === INTERRUPT_KEY) session.stop();
    }
  };
  // A closed terminal emits an end or an error.
  const onGone = (): void => session.stop();
  stdin.setRawMode(true);
  stdin.on("data", onData).on("end", onGone).on("error", onGone).resume();
  return () => {
    stdin.off("data", onData).off("end", onGone).pause();
    if (!stdin.destroyed) stdin.setRawMode(false);
  };
}

/** Exits with 0 when `q`, SIGINT or SIGTERM stops it after the session has started. */
export async function devCommand(given: Arguments, io: Io): Promise<number> {
  const [path = ""] = given.positionals;
  const { limits, ...options } = readCallOptions(given, io.env, TERMINAL_TIMEOUT_MS);
  if (given.values.inspect !== undefined && given.values["inspect-brk"] !== undefined) {
    throw new UsageError("Expected one of --inspect and --inspect-brk, got both");
  }
  // Warnings are ignored here, because the inspection has printed them.
  const onWarning = (): void => {};
  const gloveboxOptions = {
    ...findPackages([path], given),
    limits,
    ...options.tenant.host,
    ...options.egress.host,
    workers: { warmProcesses: 1 },
    shutdown: false,
    onWarning,
  } as const;
  await using inspection = await openInspection(given, path, io);
  const hub = inspection?.hub;
  const create = (): Promise<Glovebox> =>
    hub === undefined ? createGlovebox(gloveboxOptions) : createInspectedGlovebox(gloveboxOptions, hub);
  await using glovebox = await openGlovebox(io, create);
  const session = new DevSession(glovebox, { ...options, path, hub }, io);
  io.stop.addEventListener("abort", () => session.stop(), { once: true });
  const restoreTerminal = handleKeys(session, io);
  try {
    await session.run();
  } finally {
    restoreTerminal();
  }
  return 0;
}
