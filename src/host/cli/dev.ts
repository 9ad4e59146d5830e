// glovebox dev: runs a tool again whenever its files or its input change, until it is told to stop.
import { createGlovebox } from "../runtime.ts";
import { CALL_OPTIONS, readCallOptions } from "./call-options.ts";
import { DevSession } from "./dev-session.ts";
import { type Io, onePositional, readArguments, UsageError } from "./usage.ts";

const INTERRUPT_KEY = "\u0003";

/** In a terminal single keys are commands; elsewhere stdin is left alone. Returns what puts the terminal back. */
function listenToKeys(session: DevSession, { stdin }: Io): () => void {
  if (!stdin.isTTY) return () => {};
  const onData = (data: Buffer): void => {
    for (const key of data.toString()) {
      if (key === "r") session.rerun();
      else if (key === "q" || key === INTERRUPT_KEY) session.stop();
    }
  };
  stdin.setRawMode(true);
  stdin.on("data", onData).resume();
  return () => {
    stdin.off("data", onData).pause();
    stdin.setRawMode(false);
  };
}

/** Ends with 0 when it is told to stop: by `q`, SIGINT or SIGTERM. */
export async function devCommand(args: readonly string[], io: Io): Promise<number> {
  const given = readArguments(args, CALL_OPTIONS);
  const path = onePositional(given.positionals, "PATH of a tool");
  const { limits, ...options } = readCallOptions(given, io.env);
  if (options.input.json !== undefined && options.input.file !== undefined) {
    throw new UsageError("Expected one of --input and --input-file, got both");
  }
  // The signals are its own: it ends by itself, and what runs with it.
  await using box = await createGlovebox({ limits, ...options.egress.host, workers: { spares: 1 }, shutdown: false });
  const session = new DevSession(box, { ...options, path }, io);
  const stop = (): void => session.stop();
  io.on("SIGINT", stop).on("SIGTERM", stop);
  const leaveKeys = listenToKeys(session, io);
  try {
    await session.run();
  } finally {
    leaveKeys();
    io.off("SIGINT", stop).off("SIGTERM", stop);
  }
  return 0;
}
