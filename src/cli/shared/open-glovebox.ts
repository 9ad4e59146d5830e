// Opens the Glovebox of a command so that it ends with the command: its processes, and the calls in it.
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import { ignoreOutcome } from "../../host/util/host-callback.ts";
import type { Io } from "../terminal/process-io.ts";

/**
 * Opens a box that closes when the command is stopped; calls in it then end with CANCELLED. The caller disposes it otherwise.
 * @param create starts the box with `shutdown: false`, because the command handles the signals
 * @throws {StopError} if the command was stopped before the box was up
 */
export async function openBox({ stop }: Pick<Io, "stop">, create: () => Promise<Glovebox>): Promise<Glovebox> {
  stop.throwIfAborted();
  const box = await create();
  if (stop.aborted) await box.close();
  stop.throwIfAborted();
  stop.addEventListener("abort", () => ignoreOutcome(() => box.close()), { once: true });
  return box;
}
