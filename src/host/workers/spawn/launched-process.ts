// A process that was asked for. Who starts it, the host or its spawner, makes no difference to whoever uses it.
import type { Socket } from "node:net";
import type { Ending } from "./spawn-command.ts";

/** Hears what becomes of a process, never within the call that asked for it. */
export interface ProcessListener {
  /** It runs. What its one channel brings is to be listened to at once. */
  onConnected(socket: Socket): void;
  /** It has ended; what it has said may still be on its way. Without `onConnected` before, it could not be started. */
  onExit(): void;
  /** It has ended, and all that it has said has been read. */
  onClose(): void;
}

interface Holdable {
  ref(): unknown;
  unref(): unknown;
}

export interface LaunchedConnection {
  readonly pid: number;
  readonly socket: Socket;
  /** SIGKILL, to this very process or to none. */
  readonly kill: () => void;
  /** What keeps this process alive while it runs. */
  readonly handles: readonly Holdable[];
}

export const UNKNOWN_ENDING: Ending = { code: null, signal: null, diagnostics: "" };

export class LaunchedProcess {
  readonly #listener: ProcessListener;
  #connection: LaunchedConnection | undefined;
  #ending: Ending | undefined;
  #isUnwanted = false;
  #isLost = false;
  #isSocketClosed = false;

  constructor(listener: ProcessListener) {
    this.#listener = listener;
  }

  /** Undefined until it runs, and when it could not be started. */
  get connection(): LaunchedConnection | undefined {
    return this.#connection;
  }
  /** Undefined until it has ended. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  /** SIGKILL, now or as soon as it runs. Twice is a no-op. */
  kill(): void {
    this.#isUnwanted = true;
    if (this.#ending === undefined) this.#connection?.kill();
  }

  /** Whether it keeps this process alive. */
  hold(isHeld: boolean): void {
    for (const handle of this.#connection?.handles ?? []) {
      if (isHeld) handle.ref();
      else handle.unref();
    }
  }

  /** Whoever started it says: it runs. */
  connected(connection: LaunchedConnection): void {
    this.#connection = connection;
    connection.socket.once("close", () => {
      this.#isSocketClosed = true;
      if (this.#isLost) this.ended(UNKNOWN_ENDING);
      else if (this.#ending !== undefined) this.#listener.onClose();
    });
    if (this.#isUnwanted) this.kill();
    this.#listener.onConnected(connection.socket);
  }

  /** Whoever started it says: it has ended, or could not be started. */
  ended(ending: Ending): void {
    if (this.#ending !== undefined) return;
    this.#ending = ending;
    this.#listener.onExit();
    if (this.#isSocketClosed || this.#connection === undefined) this.#listener.onClose();
  }

  /** Whoever started it has died: nobody will say when it ends, but its socket does. */
  lost(): void {
    this.#isLost = true;
    if (this.#isSocketClosed) this.ended(UNKNOWN_ENDING);
  }
}
