// Opens the Glovebox of a command, which closes when the command is stopped.
import type { Glovebox } from "../../host/glovebox/glovebox.ts";
import { ignoreOutcome } from "../../host/util/host-callback.ts";
import type { Io } from "../terminal/process-io.ts";

/**
 * Opens a Glovebox that closes when the command is stopped; its calls then end with CANCELLED. Otherwise the caller disposes of it.
 * @param create creates the Glovebox with `shutdown: false`, because the command handles the signals
 * @throws {StopError} if the command is stopped before the Glovebox is ready
 */
export async function openGlovebox({ stop }: Pick<Io, "stop">, create: () => Promise<Glovebox>): Promise<Glovebox> {
  stop.throwIfAborted();
  const glovebox = await create();
  if (stop.aborted) await glovebox.close();
  stop.throwIfAborted();
  stop.addEventListener("abort", () => ignoreOutcome(() => glovebox.close()), { once: true });
  return glovebox;
}
