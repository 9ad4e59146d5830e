// Opens the server for Chrome DevTools that `--inspect` and `--inspect-brk` request.
import type { InspectorHub } from "../../host/inspector/inspector-hub.ts";
import type { Io } from "../terminal/process-io.ts";
import { type Arguments, UsageError } from "../usage.ts";

export interface Inspection extends AsyncDisposable {
  readonly hub: InspectorHub;
}

/** Opens the server for DevTools if an option requests it. @throws {UsageError} if its port is not available */
export async function openInspection({ values }: Arguments, path: string, io: Io): Promise<Inspection | undefined> {
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
