// A launched process, independent of whether the host or its spawner started it.
import type { Socket } from "node:net";
import type { Ending } from "./spawn-command.ts";

/** Receives the events of a process, never synchronously within the call that launched it. */
export interface ProcessListener {
  /** The process runs. The listener must read the socket from now on. */
  onConnected(socket: Socket): void;
  /**
   * The process has ended, but its last output may still arrive. Without an earlier `onConnected`, it could not be
   * started.
   */
  onExit(): void;
  /** The process has ended, and all its output has been read. */
  onClose(): void;
}

interface RefHandle {
  ref(): unknown;
  unref(): unknown;
}

export interface LaunchedConnection {
  readonly pid: number;
  readonly socket: Socket;
  /** Sends SIGKILL to this process, and never to a later one with the same id. */
  readonly kill: () => void;
  /** Handles that keep the host's event loop alive while the process runs. */
  readonly handles: readonly RefHandle[];
}

export const UNKNOWN_ENDING: Ending = { code: null, signal: null, diagnostics: "" };

export class LaunchedProcess {
  readonly #listener: ProcessListener;
  #connection: LaunchedConnection | undefined;
  #ending: Ending | undefined;
  #isKilled = false;
  #isLost = false;
  #isSocketClosed = false;

  constructor(listener: ProcessListener) {
    this.#listener = listener;
  }

  /** Undefined until the process runs, or if it could not be started. */
  get connection(): LaunchedConnection | undefined {
    return this.#connection;
  }
  /** Undefined until the process has ended. */
  get ending(): Ending | undefined {
    return this.#ending;
  }

  /** Sends SIGKILL, now or as soon as the process runs. Calling it twice is a no-op. */
  kill(): void {
    this.#isKilled = true;
    if (this.#ending === undefined) this.#connection?.kill();
  }

  /** Sets whether the process keeps the host's event loop alive. */
  setReferenced(isReferenced: boolean): void {
    for (const handle of this.#connection?.handles ?? []) {
      if (isReferenced) handle.ref();
      else handle.unref();
    }
  }

  /** Called by the starter when the process runs. */
  connected(connection: LaunchedConnection): void {
    this.#connection = connection;
    connection.socket.once("close", () => {
      this.#isSocketClosed = true;
      if (this.#isLost) this.ended(UNKNOWN_ENDING);
      else if (this.#ending !== undefined) this.#listener.onClose();
    });
    if (this.#isKilled) this.kill();
    this.#listener.onConnected(connection.socket);
  }

  /** Called by the starter when the process has ended or could not be started. */
  ended(ending: Ending): void {
    if (this.#ending !== undefined) return;
    this.#ending = ending;
    this.#listener.onExit();
    if (this.#isSocketClosed || this.#connection === undefined) this.#listener.onClose();
  }

  /**
   * Called when the spawner has died and cannot report the end of the process. The end of the socket reports it then.
   */
  lost(): void {
    this.#isLost = true;
    if (this.#isSocketClosed) this.ended(UNKNOWN_ENDING);
  }
}
