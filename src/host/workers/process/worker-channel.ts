// Frames over the socket to one worker process. Messages written before the socket exists are queued. Processing of
// incoming frames is limited in time, so that a flood from one worker does not delay others.
import type { Socket } from "node:net";
import { type Frame, FrameReader, FrameWriter } from "../../../sandbox/protocol/frames.ts";

export interface ChannelListener {
  /** Handles a frame. Throws if it violates the protocol. */
  onFrame(frame: Frame): void;
  /** The worker violated the protocol. None of its further messages is usable. */
  onProtocolError(): void;
  onClosed(): void;
}

/**
 * Longest time in ms to process one worker's messages before others get the event loop. The rest of a flood waits in
 * the worker's socket.
 */
const SLICE_MS = 4;

export class WorkerChannel implements Disposable {
  readonly #listener: ChannelListener;
  readonly #reader: FrameReader;
  readonly #writer = new FrameWriter();
  #socket: Socket | undefined;
  #backlog: Frame[] = [];
  #isMalformed = false;
  #isDisposed = false;

  /** @param maxFrameBytes limit for incoming frames until `allow` raises it */
  constructor(listener: ChannelListener, maxFrameBytes: number) {
    this.#listener = listener;
    this.#reader = new FrameReader({ maxFrameBytes });
  }

  connect(socket: Socket): void {
    this.#socket = socket;
    if (this.#isDisposed) {
      socket.on("error", () => {}).destroy();
      return;
    }
    // The event `close` follows.
    socket.on("error", () => {});
    socket.on("close", () => this.#listener.onClosed());
    socket.on("data", (chunk: Buffer) => {
      try {
        this.#reader.push(chunk, (frame) => this.#backlog.push(frame));
      } catch {
        this.#isMalformed = true;
      }
      this.#processBacklog();
    });
    this.#writer.connect(socket);
  }

  /** Raises the limit for incoming frames; never lowers it. */
  allow(maxFrameBytes: number): void {
    this.#reader.allow(maxFrameBytes);
  }

  /** See {@link FrameWriter.write}. */
  write(message: object, parts?: readonly (string | Uint8Array)[]): number {
    return this.#writer.write(message, parts);
  }
  /** See {@link FrameWriter.mayBeRead}. */
  mayBeRead(frame: number): boolean {
    return this.#writer.mayBeRead(frame);
  }

  /** Bytes that the worker has not read yet. */
  get pendingBytes(): number {
    return this.#writer.pendingBytes;
  }
  /** Whether all received frames have been passed to the listener. */
  get isDrained(): boolean {
    return this.#backlog.length === 0;
  }

  /** Passes frames to the listener for at most `SLICE_MS`. Pauses the socket if some are left. */
  #processBacklog(): void {
    try {
      const until = performance.now() + SLICE_MS;
      let index = 0;
      while (index < this.#backlog.length && !this.#isDisposed && (index === 0 || performance.now() < until)) {
        const frame = this.#backlog[index] as Frame;
        index += 1;
        this.#listener.onFrame(frame);
      }
      this.#backlog = index === this.#backlog.length ? [] : this.#backlog.slice(index);
      if (this.#backlog.length === 0 && this.#isMalformed) throw new Error("The worker sent malformed frames");
    } catch {
      this.#listener.onProtocolError();
    }
    if (this.#isDisposed || this.#backlog.length === 0) return;
    this.#socket?.pause();
    setImmediate(() => {
      this.#processBacklog();
      if (this.#backlog.length === 0) this.#socket?.resume();
    });
  }

  /** Stops passing frames and closes the socket. Calling it twice is a no-op. */
  [Symbol.dispose](): void {
    this.#isDisposed = true;
    this.#socket?.destroy();
  }
}
