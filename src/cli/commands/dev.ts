// glovebox dev: runs a tool again whenever its files or its input change, until it is stopped.

import { createGlovebox, createInspectedGlovebox } from "../../host/glovebox/create-glovebox.ts";
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import type { InspectorHub } from "../../host/inspector/inspector-hub.ts";
import { readCallOptions } from "../shared/call-options.ts";
import { openBox } from "../shared/open-glovebox.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";
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

interface Inspection extends AsyncDisposable {
  readonly hub: InspectorHub;
}

/** Opens the server for DevTools if an option requests it. @throws {UsageError} if its port is not available */
async function openInspection({ values }: Arguments, path: string, io: Io): Promise<Inspection | undefined> {
  const breakAtStart = values["inspect-brk"] !== undefined;
  const flag = breakAtStart ? "inspect-brk" : "inspect";
  const text = values[flag];
  if (text === undefined) return undefined;
  // Loaded only when needed, because it loads a server library.
  const [{ InspectorHub }, { InspectorServer }] = await Promise.all([
    import("../../host/inspector/inspector-hub.ts"),
    import("../../host/inspector/inspector-server.ts"),
  ]);
  const hub = new InspectorHub({ breakAtStart });
  try {
    const server = await InspectorServer.open(hub, { port: Number(text), title: path });
    io.stderr.print(`DevTools can attach at ${server.url} (chrome://inspect)\n`);
    return { hub, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    throw new UsageError(
      `--${flag}: port ${String(text)} ${code === "EADDRINUSE" ? "is in use" : `is not available: ${code}`}`,
    );
  }
}

/** Exits with 0 when `q`, SIGINT or SIGTERM stops it after the session has started. */
export async function devCommand(given: Arguments, io: Io): Promise<number> {
  const [path = ""] = given.positionals;
  const { limits, ...options } = readCallOptions(given, io.env);
  if (given.values.inspect !== undefined && given.values["inspect-brk"] !== undefined) {
    throw new UsageError("Expected one of --inspect and --inspect-brk, got both");
  }
  // Warnings are ignored here, because the inspection has printed them.
  const onWarning = (): void => {};
  const boxOptions = {
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
    hub === undefined ? createGlovebox(boxOptions) : createInspectedGlovebox(boxOptions, hub);
  await using box = await openBox(io, create);
  const session = new DevSession(box, { ...options, path, hub }, io);
  io.stop.addEventListener("abort", () => session.stop(), { once: true });
  const restoreTerminal = handleKeys(session, io);
  try {
    await session.run();
  } finally {
    restoreTerminal();
  }
  return 0;
}
