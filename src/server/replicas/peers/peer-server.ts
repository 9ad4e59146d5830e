// Answers other replicas that pass on calls of tool sessions and requests of MCP sessions. A request that is not from a
// replica with the same master key is answered like one for a path that does not exist, after at most a kilobyte of it
// was read.
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import type * as z from "zod";
import type { WallClock } from "../../database/database-clock.ts";
import type { MasterKey } from "../../secrets/master-key.ts";
import { ExchangeKeys, RANDOM_BYTES } from "./exchange-keys.ts";
import { FrameOpener, FrameSealer, PeerFrameReader, PeerProtocolError } from "./frames.ts";
import {
  type AnswerMessage,
  type DeclineReason,
  type ExchangeKind,
  HelloSchema,
  type PeerCallMessage,
  PeerMessageSchema,
  type PeerRequestMessage,
  parsePeerMessage,
  type ResponseMessage,
  toParts,
} from "./messages.ts";

/** Path of the requests between replicas. It is not part of the API. */
export const PEER_PATH = "/internal/session-calls";
/** Headers of a request and its response: the id of the caller, and the random bytes of the one that sends the header. */
export const FROM_HEADER = "glovebox-replica";
export const RANDOM_HEADER = "glovebox-exchange";

/** How old a message may be, in ms. Both clocks are that of the database. */
export const VALID_MS = 10_000;
/** How often a replica that runs a call says that it does so, in ms. */
export const ALIVE_MS = 2_000;
const MAX_HELLO_BYTES = 1_024;
/** Longest time in ms until a replica has sent its first message, and its call. */
const HELLO_MS = 5_000;
const CALL_MS = 50_000;
/** Calls of other replicas that run at the same time, and requests that are answered. The other connections remain for clients. */
const MAX_EXCHANGES: { readonly [Kind in ExchangeKind]: number } = { call: 1_024, request: 1_024 };

const FROM_PATTERN = /^[\w-]{1,64}$/;
export const RANDOM_PATTERN = /^[\w-]{43}$/;

/** A call that another replica has passed on. */
export interface ReceivedCall {
  readonly message: PeerCallMessage;
  /** JSON of the input; undefined for a call without one. */
  readonly input: string | undefined;
  /** Aborts when the other replica ends the exchange, because its client has left or it is gone. */
  readonly signal: AbortSignal;
  /** Sends a message. Does nothing if the other replica is gone. */
  readonly answer: (message: AnswerMessage, texts?: readonly string[]) => void;
}

/** A request of an MCP session that another replica has passed on. */
export interface ReceivedRequest {
  readonly message: PeerRequestMessage;
  /** Undefined for a request without one. */
  readonly body: string | undefined;
  /** Aborts when the other replica ends the exchange, because its client has left or it is gone. */
  readonly signal: AbortSignal;
  /** Sends a message. Resolves when the next one can be sent, or nothing reads them any more. */
  readonly answer: (message: ResponseMessage, texts?: readonly string[]) => Promise<void>;
}

export interface PeerServerDependencies {
  readonly masterKey: Pick<MasterKey, "derivePeerKey">;
  readonly clock: WallClock;
  /** Id of this replica. */
  readonly replicaId: string;
  /** Returns whether this replica runs further calls. */
  readonly acceptsCalls: () => boolean;
  /** Runs a call, and sends what there is to say about it. Never rejects. */
  readonly run: (call: ReceivedCall) => Promise<void>;
  /** Answers a request. Never rejects. */
  readonly serve: (request: ReceivedRequest) => Promise<void>;
}

type Hello = z.infer<typeof HelloSchema>;

interface Connection {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly reader: PeerFrameReader;
  readonly keys: ExchangeKeys;
}

export class PeerServer {
  readonly #dependencies: PeerServerDependencies;
  /** The random bytes of exchanges that have begun, by the time until which their first message is valid, in order. */
  readonly #seen = new Map<string, number>();
  readonly #running = { call: new Set<Promise<void>>(), request: new Set<Promise<void>>() };

  constructor(dependencies: PeerServerDependencies) {
    this.#dependencies = dependencies;
  }

  /** Answers a request to {@link PEER_PATH}. */
  receive(request: IncomingMessage, response: ServerResponse): void {
    this.#serve(request, response).catch(() => {
      // The cause is not reported: the sender of an invalid request may be any program.
      if (response.headersSent) response.destroy();
      else response.writeHead(404, { connection: "close" }).end();
    });
  }

  /** Resolves when the calls that run and the requests have been answered. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#running.call, ...this.#running.request]);
  }

  /** Reads the first message, which can be written only with the master key. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { masterKey, replicaId } = this.#dependencies;
    const from = request.headers[FROM_HEADER];
    const random = request.headers[RANDOM_HEADER];
    if (typeof from !== "string" || typeof random !== "string") throw new PeerProtocolError("Missing headers");
    if (!FROM_PATTERN.test(from) || !RANDOM_PATTERN.test(random)) throw new PeerProtocolError("Invalid headers");
    const bytes = Buffer.from(random, "base64url");
    const keys = new ExchangeKeys(masterKey, { from, to: replicaId, random: bytes });
    const reader = new PeerFrameReader(request);
    const hello = await within(HELLO_MS, request, async () => {
      const parts = await reader.next(new FrameOpener(keys.keyOf("hello")), MAX_HELLO_BYTES);
      return parsePeerMessage(HelloSchema, parts ?? []).message;
    });
    // The bytes, as several texts stand for the same.
    this.#checkNew(bytes.toString("base64url"));
    const ofKind = this.#running[hello.kind];
    const running: Promise<void> = this.#exchange({ request, response, reader, keys }, hello).finally(() =>
      ofKind.delete(running),
    );
    ofKind.add(running);
    await running;
  }

  async #exchange({ request, response, reader, keys }: Connection, { at, kind }: Hello): Promise<void> {
    const answered = randomBytes(RANDOM_BYTES);
    response.writeHead(200, {
      "content-type": "application/octet-stream",
      "cache-control": "no-store",
      [RANDOM_HEADER]: answered.toString("base64url"),
    });
    const sealer = new FrameSealer(keys.keyOf("answer", answered));
    const write = (message: object, texts?: readonly string[]): void => {
      for (const frame of sealer.seal(toParts(message, texts))) if (response.writable) response.write(frame);
    };
    const reason = this.#declines(at, kind);
    if (reason !== undefined) {
      write({ type: "declined", reason });
      response.end();
      return;
    }
    write({ type: "ready" });
    const parts = await within(CALL_MS, request, () => reader.next(new FrameOpener(keys.keyOf("call", answered))));
    // The other replica has decided otherwise.
    if (parts === undefined) return void response.end();
    const { message, texts } = parsePeerMessage(PeerMessageSchema, parts);
    if (message.type !== kind) throw new PeerProtocolError(`Expected a ${kind}`);
    if (texts.length > 1) throw new PeerProtocolError("Expected one text");
    reader.end().catch(() => response.destroy());
    const left = new AbortController();
    response.once("close", () => left.abort());
    if (response.destroyed) left.abort();
    const alive = setInterval(() => write({ type: "alive" }), ALIVE_MS);
    try {
      if (this.#isOld(message.at)) write({ type: "declined", reason: "expired" });
      else if (message.type === "call")
        await this.#dependencies.run({ message, input: texts[0], signal: left.signal, answer: write });
      else
        await this.#dependencies.serve({
          message,
          body: texts[0],
          signal: left.signal,
          answer: async (answer, more) => {
            write(answer, more);
            if (response.writableNeedDrain) await once(response, "drain", left).catch(() => {});
          },
        });
    } finally {
      clearInterval(alive);
    }
    response.end();
  }

  #isOld(at: number): boolean {
    return Math.abs(this.#dependencies.clock.now() - at) > VALID_MS;
  }

  /** Returns why this replica runs no call now. */
  #declines(at: number, kind: ExchangeKind): DeclineReason | undefined {
    if (this.#isOld(at)) return "expired";
    if (!this.#dependencies.acceptsCalls()) return "stopping";
    return this.#running[kind].size >= MAX_EXCHANGES[kind] ? "busy" : undefined;
  }

  /** @throws {PeerProtocolError} for an exchange that has begun before: its first message was recorded, and is sent again */
  #checkNew(random: string): void {
    const now = performance.now();
    for (const [known, until] of this.#seen) {
      if (until > now) break;
      this.#seen.delete(known);
    }
    if (this.#seen.has(random)) throw new PeerProtocolError("Repeated exchange");
    // A message can be as much too early as too late.
    this.#seen.set(random, now + 2 * VALID_MS + ALIVE_MS);
  }
}

/** Reads from a request, which is closed if that takes too long. */
async function within<Value>(ms: number, request: IncomingMessage, read: () => Promise<Value>): Promise<Value> {
  const timer = setTimeout(() => request.destroy(new PeerProtocolError("Too slow")), ms);
  try {
    return await read();
  } finally {
    clearTimeout(timer);
  }
}
