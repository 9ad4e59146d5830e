// glovebox dev: runs a tool again whenever its files or its input change, until it is told to stop.
import type { InspectorHub } from "../inspector/inspector-hub.ts";
import { createGlovebox, createInspectedGlovebox } from "../runtime.ts";
import { CALL_OPTIONS, readCallOptions } from "./call-options.ts";
import { DevSession } from "./dev-session.ts";
import { type Arguments, type Io, onePositional, readArguments, UsageError } from "./usage.ts";

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

const INSPECT_OPTIONS = { inspect: { type: "string" }, "inspect-brk": { type: "string" } } as const;
/** Where Chrome looks by itself. */
const INSPECT_PORT = "9229";

/** A port, or none: `--inspect` alone is a whole option too. */
function withPorts(args: readonly string[]): readonly string[] {
  return args.map((arg) => (arg === "--inspect" || arg === "--inspect-brk" ? `${arg}=${INSPECT_PORT}` : arg));
}

interface Inspection extends AsyncDisposable {
  readonly hub: InspectorHub;
}

/** Opens the door for DevTools, where it was asked for. */
async function openInspection({ values }: Arguments, path: string, io: Io): Promise<Inspection | undefined> {
  const breakAtStart = values["inspect-brk"] !== undefined;
  const flag = breakAtStart ? "inspect-brk" : "inspect";
  const text = values[flag];
  if (text === undefined) return undefined;
  if (!/^\d{1,5}$/.test(String(text)) || Number(text) > 65_535) {
    throw new UsageError(`--${flag}: expected a port from 0 to 65535, got "${String(text)}"`);
  }
  // Loaded for those who ask: it is a server, and its library.
  const [{ InspectorHub }, { InspectorServer }] = await Promise.all([
    import("../inspector/inspector-hub.ts"),
    import("../inspector/inspector-server.ts"),
  ]);
  const hub = new InspectorHub({ breakAtStart });
  try {
    const server = await InspectorServer.open(hub, { port: Number(text), title: path });
    io.stderr.write(`DevTools may attach at ${server.url} (chrome://inspect)\n`);
    return { hub, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    throw new UsageError(
      `--${flag}: port ${String(text)} ${code === "EADDRINUSE" ? "is in use" : `cannot be had: ${code}`}`,
    );
  }
}

/** Ends with 0 when it is told to stop: by `q`, SIGINT or SIGTERM. */
export async function devCommand(args: readonly string[], io: Io): Promise<number> {
  const given = readArguments(withPorts(args), { ...CALL_OPTIONS, ...INSPECT_OPTIONS });
  const path = onePositional(given.positionals, "PATH of a tool");
  const { limits, ...options } = readCallOptions(given, io.env);
  if (options.input.json !== undefined && options.input.file !== undefined) {
    throw new UsageError("Expected one of --input and --input-file, got both");
  }
  // The signals are its own: it ends by itself, and what runs with it.
  const boxOptions = { limits, ...options.egress.host, workers: { spares: 1 }, shutdown: false } as const;
  await using inspection = await openInspection(given, path, io);
  const hub = inspection?.hub;
  await using box = await (hub === undefined ? createGlovebox(boxOptions) : createInspectedGlovebox(boxOptions, hub));
  const session = new DevSession(box, { ...options, path, hub }, io);
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
