// Passes calls and requests on to other replicas: opens an exchange with one, which costs it nothing, and then sends the call or the request.
import { randomBytes } from "node:crypto";
import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type * as z from "zod";
import type { WallClock } from "../../database/database-clock.ts";
import type { MasterKey } from "../../secrets/master-key.ts";
import { ExchangeKeys, RANDOM_BYTES } from "./exchange-keys.ts";
import { FrameOpener, FrameSealer, PeerFrameReader, PeerProtocolError } from "./frames.ts";
import {
  type AnswerMessage,
  AnswerSchema,
  type DeclineReason,
  type ExchangeKind,
  type Parsed,
  type PeerCallMessage,
  type PeerRequestMessage,
  parsePeerMessage,
  ReadySchema,
  type ResponseMessage,
  ResponseSchema,
  toParts,
} from "./messages.ts";
import { ALIVE_MS, FROM_HEADER, PEER_PATH, RANDOM_HEADER, RANDOM_PATTERN } from "./peer-server.ts";

/** Longest time in ms until a replica has answered that it is ready. */
const READY_MS = 5_000;
const MAX_READY_BYTES = 1_024;
/** Times that a replica which runs a call may have sent nothing when it should have, after which it counts as gone. */
const MAX_SILENT = 10;
const MAX_IDLE_CONNECTIONS = 32;

/** Another replica, and where it is reached. */
export interface Peer {
  readonly replicaId: string;
  readonly url: string;
}

/** A replica cannot be reached, or is not the one that is meant. It has not received a call. */
export class PeerUnreachable extends Error {
  override readonly name = "PeerUnreachable";
}

export interface PeerClientDependencies {
  readonly masterKey: Pick<MasterKey, "derivePeerKey">;
  readonly clock: WallClock;
  /** Id of this replica. */
  readonly replicaId: string;
}

export class PeerClient implements Disposable {
  readonly #dependencies: PeerClientDependencies;
  readonly #agents = {
    "http:": new HttpAgent({ keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS }),
    "https:": new HttpsAgent({ keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS }),
  };

  constructor(dependencies: PeerClientDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Opens an exchange with a replica.
   * @param kind what is sent then. Replicas of earlier releases know calls only
   * @returns the reason if the replica declines
   * @throws {PeerUnreachable} also when the signal aborts
   */
  async open(peer: Peer, signal: AbortSignal, kind: ExchangeKind = "call"): Promise<PeerExchange | DeclineReason> {
    const { masterKey, clock, replicaId: from } = this.#dependencies;
    const random = randomBytes(RANDOM_BYTES);
    const keys = new ExchangeKeys(masterKey, { from, to: peer.replicaId, random });
    const url = new URL(PEER_PATH, peer.url);
    const isSecure = url.protocol === "https:";
    const request = (isSecure ? httpsRequest : httpRequest)(url, {
      method: "POST",
      agent: this.#agents[isSecure ? "https:" : "http:"],
      headers: {
        "content-type": "application/octet-stream",
        "transfer-encoding": "chunked",
        [FROM_HEADER]: from,
        [RANDOM_HEADER]: random.toString("base64url"),
      },
    });
    const hello = { type: "hello", at: clock.now(), ...(kind === "call" ? {} : { kind }) };
    for (const frame of new FrameSealer(keys.keyOf("hello")).seal(toParts(hello))) request.write(frame);
    const end = (): void => void request.destroy(new PeerUnreachable("The client has left"));
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    const timer = setTimeout(() => request.destroy(new PeerUnreachable("No answer in time")), READY_MS);
    try {
      const response = await responseTo(request);
      const reader = new PeerFrameReader(response);
      const answered = toRandom(response.headers[RANDOM_HEADER]);
      const opener = new FrameOpener(keys.keyOf("answer", answered));
      const { message } = parsePeerMessage(ReadySchema, (await reader.next(opener, MAX_READY_BYTES)) ?? []);
      if (message.type === "ready") {
        const sealer = new FrameSealer(keys.keyOf("call", answered));
        return new PeerExchange({ request, response, reader, opener, sealer });
      }
      request.destroy();
      return message.reason;
    } catch (cause) {
      request.destroy();
      throw new PeerUnreachable(`The replica at ${peer.url} cannot be reached`, { cause });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
  }

  /** Closes the connections that nothing uses. */
  [Symbol.dispose](): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }
}

/** @throws {PeerProtocolError} */
function toRandom(header: unknown): Buffer {
  if (typeof header !== "string" || !RANDOM_PATTERN.test(header)) throw new PeerProtocolError("Invalid headers");
  return Buffer.from(header, "base64url");
}

async function responseTo(request: ClientRequest): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => {
    request.on("error", reject);
    request.once("response", (response) => {
      // The reader of the response gets the error.
      response.on("error", () => {});
      if (response.statusCode === 200) resolve(response);
      else reject(new PeerUnreachable(`Status ${response.statusCode}`));
    });
  });
}

interface ExchangeChannel {
  readonly request: ClientRequest;
  readonly response: IncomingMessage;
  readonly reader: PeerFrameReader;
  readonly opener: FrameOpener;
  readonly sealer: FrameSealer;
}

/** An exchange with a replica that waits for a call or a request. */
export class PeerExchange implements Disposable {
  readonly #channel: ExchangeChannel;
  #hasEnded = false;

  constructor(channel: ExchangeChannel) {
    this.#channel = channel;
  }

  /**
   * Sends the call, and yields what the replica says about it. The consumer stops after the message that ends the call.
   * @throws {PeerProtocolError} or an error of the connection, if the replica is gone: the call may have run
   */
  call(message: PeerCallMessage, texts: readonly string[]): AsyncGenerator<Parsed<AnswerMessage>, void> {
    return this.#send(message, texts, AnswerSchema);
  }

  /**
   * Sends a request, and yields the parts of its response. The consumer stops after the message that ends it.
   * @throws {PeerProtocolError} or an error of the connection, if the replica is gone: the request may have had its effect
   */
  request(message: PeerRequestMessage, texts: readonly string[]): AsyncGenerator<Parsed<ResponseMessage>, void> {
    return this.#send(message, texts, ResponseSchema);
  }

  async *#send<Message extends { readonly type: string }>(
    message: PeerCallMessage | PeerRequestMessage,
    texts: readonly string[],
    schema: z.ZodType<Message>,
  ): AsyncGenerator<Parsed<Message>, void> {
    const { request, response, reader, opener, sealer } = this.#channel;
    for (const frame of sealer.seal(toParts(message, texts))) request.write(frame);
    request.end();
    let silent = 0;
    let before = 0;
    // A consumer that is slow reads nothing, whatever the replica sends.
    let isReading = false;
    // Counted, so that a pause of this process does not look like one of the other.
    const watch = setInterval(() => {
      silent = isReading && reader.received === before ? silent + 1 : 0;
      before = reader.received;
      if (silent > MAX_SILENT) response.destroy(new PeerProtocolError("The replica is silent"));
    }, ALIVE_MS);
    try {
      for (;;) {
        isReading = true;
        const parts = await reader.next(opener);
        isReading = false;
        if (parts === undefined) throw new PeerProtocolError("The replica has ended the exchange");
        const parsed = parsePeerMessage(schema, parts);
        if (parsed.message.type !== "alive") yield parsed;
      }
    } finally {
      clearInterval(watch);
    }
  }

  /** Lets the connection be used again, after the last message. */
  finish(): void {
    this.#hasEnded = true;
    const { reader, request } = this.#channel;
    reader.end().catch(() => request.destroy());
  }

  /** Closes the connection, unless the exchange has been finished: the other replica cancels the call. */
  [Symbol.dispose](): void {
    if (!this.#hasEnded) this.#channel.request.destroy();
  }
}
