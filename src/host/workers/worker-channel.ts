// The socket to one worker process, as frames. What is written before there is a socket waits for it; what comes in has its turn and
// no more, so that one worker's flood is in nobody else's way.
import type { Socket } from "node:net";
import { type Frame, FrameReader, FrameWriter } from "../../sandbox/protocol/frames.ts";

export interface ChannelListener {
  /** Throws at what is not our protocol. */
  onFrame(frame: Frame): void;
  /** What came is not our protocol: nothing this process says can be used any more. */
  onNonsense(): void;
  onClosed(): void;
}

/** Of the host's time, for one worker's messages before the next one's turn: a flood waits in its own socket. */
const TURN_MS = 4;

export class WorkerChannel implements Disposable {
  readonly #listener: ChannelListener;
  readonly #reader: FrameReader;
  readonly #writer = new FrameWriter();
  #socket: Socket | undefined;
  #backlog: Frame[] = [];
  #speaksNonsense = false;
  #isOver = false;

  /** @param maxFrameBytes of what comes in, until `allow` says more */
  constructor(listener: ChannelListener, maxFrameBytes: number) {
    this.#listener = listener;
    this.#reader = new FrameReader(maxFrameBytes);
  }

  connect(socket: Socket): void {
    this.#socket = socket;
    if (this.#isOver) {
      socket.on("error", () => {}).destroy();
      return;
    }
    // `close` follows.
    socket.on("error", () => {});
    socket.on("close", () => this.#listener.onClosed());
    socket.on("data", (chunk: Buffer) => {
      try {
        this.#reader.push(chunk, (frame) => this.#backlog.push(frame));
      } catch {
        this.#speaksNonsense = true;
      }
      this.#hear();
    });
    this.#writer.connect(socket);
  }

  /** From now on frames may be this large, if they could not before. */
  allow(maxFrameBytes: number): void {
    this.#reader.allow(maxFrameBytes);
  }

  /** As {@link FrameWriter.write}. */
  write(message: object, parts?: readonly (string | Uint8Array)[]): number {
    return this.#writer.write(message, parts);
  }
  /** As {@link FrameWriter.mayBeRead}. */
  mayBeRead(frame: number): boolean {
    return this.#writer.mayBeRead(frame);
  }

  /** Bytes that the worker has not taken yet. */
  get pendingBytes(): number {
    return this.#writer.pendingBytes;
  }
  /** All that has come was handed on. */
  get isHeardOut(): boolean {
    return this.#backlog.length === 0;
  }

  /** Not longer than its turn: what is left waits for the next one, and the socket with it. */
  #hear(): void {
    try {
      const until = performance.now() + TURN_MS;
      let index = 0;
      while (index < this.#backlog.length && !this.#isOver && (index === 0 || performance.now() < until)) {
        const frame = this.#backlog[index] as Frame;
        index += 1;
        this.#listener.onFrame(frame);
      }
      this.#backlog = index === this.#backlog.length ? [] : this.#backlog.slice(index);
      if (this.#backlog.length === 0 && this.#speaksNonsense) throw new Error("The worker sent what are no frames");
    } catch {
      this.#listener.onNonsense();
    }
    if (this.#isOver || this.#backlog.length === 0) return;
    this.#socket?.pause();
    setImmediate(() => {
      this.#hear();
      if (this.#backlog.length === 0) this.#socket?.resume();
    });
  }

  /** Nothing is handed on any more. Twice is a no-op. */
  [Symbol.dispose](): void {
    this.#isOver = true;
    this.#socket?.destroy();
  }
}
