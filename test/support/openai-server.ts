// A local server that implements OpenAI's API (POST /v1/responses and /v1/chat/completions, streaming or not). It answers as a test has
// scripted it and records the requests. Clients are real ones, over a real socket.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import {
  type Json,
  type Said,
  type SaidOptions,
  toChatChunks,
  toChatCompletion,
  toResponse,
  toResponseEvents,
  toServerSentEvents,
} from "./openai-wire.ts";

export type { Said } from "./openai-wire.ts";

export interface RecordedRequest {
  readonly api: "responses" | "chat";
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: Json & { readonly stream?: boolean };
  /** Time by performance.now() at which the whole request had arrived. */
  readonly at: number;
  /** Resolves when the client has gone away before the answer was whole, or the answer is whole. */
  readonly ended: Promise<"whole" | "aborted">;
}

/** How one request is answered. State `said`, or raw `events` (streaming) or `body` (not), or `status` with `body` for a failure. */
export interface Turn extends SaidOptions {
  readonly said?: readonly Said[];
  /** Events of the stream, as they are; text is sent as it stands, without an envelope. */
  readonly events?: readonly (Json | string)[];
  readonly body?: Json | string;
  readonly status?: number;
  readonly headers?: { readonly [name: string]: string };
  /** Before the first byte. */
  readonly delayMs?: number;
  /** Asked before each event of a stream; what it returns is awaited. */
  readonly beforeEvent?: (event: Json | string, index: number) => unknown;
  /** Number of events after which the server closes the socket. */
  readonly cutAfterEvents?: number;
  /** Number of body bytes after which the server closes the socket. */
  readonly cutAfterBytes?: number;
  /** Size in bytes of the pieces of the stream: one write each, with a turn of the event loop between them. */
  readonly chunkBytes?: number;
  /** False: no `data: [DONE]` (Chat Completions). */
  readonly sendsDone?: boolean;
}

/** The answer to one request: a turn, its content, or a function of the request that returns either. */
export type Script = Turn | readonly Said[] | ((request: RecordedRequest) => Turn | readonly Said[] | Promise<Turn>);

export interface OpenAIServer extends AsyncDisposable {
  /** `http://127.0.0.1:PORT/v1`, for `new OpenAI({ baseURL, apiKey: "test" })`. */
  readonly baseURL: string;
  readonly requests: readonly RecordedRequest[];
  /** Adds turns to the end of the script, one for each request to come. A request past its end is answered with a 500. */
  script(...turns: readonly Script[]): void;
  /** Turns that no request has used yet. */
  readonly left: number;
}

const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function readBody(request: IncomingMessage): Promise<Json> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const text = Buffer.concat(parts).toString();
  return text === "" ? {} : (JSON.parse(text) as Json);
}

/** Writes until the client goes away; false where it has. */
async function write(response: ServerResponse, bytes: Buffer | string): Promise<boolean> {
  if (response.destroyed) return false;
  if (response.write(bytes)) return true;
  await new Promise<void>((resolve) => {
    response.once("drain", resolve);
    response.once("close", resolve);
  });
  return !response.destroyed;
}

function toTexts(
  turn: Turn,
  request: RecordedRequest,
): { readonly texts: string[]; readonly events: (Json | string)[] } {
  const isChat = request.api === "chat";
  const events = [
    ...(turn.events ?? (isChat ? toChatChunks(turn.said ?? [], turn) : toResponseEvents(turn.said ?? [], turn))),
  ];
  const texts = events.flatMap((event) =>
    typeof event === "string" ? [event] : toServerSentEvents([event], { named: !isChat }),
  );
  if (isChat && turn.sendsDone !== false) {
    events.push("[DONE]");
    texts.push("data: [DONE]\n\n");
  }
  return { texts, events };
}

async function sendStream(response: ServerResponse, turn: Turn, request: RecordedRequest): Promise<void> {
  const headers = { "content-type": "text/event-stream", "cache-control": "no-cache", ...turn.headers };
  response.writeHead(turn.status ?? 200, headers);
  response.flushHeaders();
  const { texts, events } = toTexts(turn, request);
  let left = turn.cutAfterBytes ?? Number.POSITIVE_INFINITY;
  for (const [index, text] of texts.entries()) {
    if (index === turn.cutAfterEvents) left = 0;
    await turn.beforeEvent?.(events[index] as Json | string, index);
    const bytes = Buffer.from(text).subarray(0, left);
    left -= bytes.length;
    const step = turn.chunkBytes ?? Math.max(bytes.length, 1);
    for (let at = 0; at < bytes.length; at += step) {
      if (!(await write(response, bytes.subarray(at, at + step)))) return;
      if (turn.chunkBytes !== undefined) await tick();
    }
    if (left <= 0) {
      // The client must receive the written bytes before the socket closes.
      await new Promise<void>((resolve) => response.write("", () => resolve()));
      await tick();
      response.destroy();
      return;
    }
  }
  response.end();
}

function sendWhole(response: ServerResponse, turn: Turn, { api }: RecordedRequest): void {
  const said = turn.said ?? [];
  const body = turn.body ?? (api === "chat" ? toChatCompletion(said, turn) : toResponse(said, turn));
  const text = typeof body === "string" ? body : JSON.stringify(body);
  response.writeHead(turn.status ?? 200, { "content-type": "application/json", ...turn.headers });
  if (turn.cutAfterBytes === undefined) {
    response.end(text);
    return;
  }
  response.write(text.slice(0, turn.cutAfterBytes), () => setImmediate(() => response.destroy()));
}

const errorBody = (message: string): Json => ({
  error: { message, type: "invalid_request_error", param: null, code: null },
});

/** On a free port of loopback. Dispose it to end it and whatever it still answers. */
export async function startOpenAIServer(...turns: readonly Script[]): Promise<OpenAIServer> {
  const script: Script[] = [...turns];
  const requests: RecordedRequest[] = [];
  const answer = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = incoming.url ?? "/";
    const api = path.endsWith("/chat/completions") ? "chat" : "responses";
    if (incoming.method !== "POST" || !(api === "chat" || path.endsWith("/responses"))) {
      sendWhole(response, { status: 404, body: errorBody(`No such path: ${path}`) }, { api } as RecordedRequest);
      return;
    }
    const ended = Promise.withResolvers<"whole" | "aborted">();
    response.once("close", () => ended.resolve(response.writableFinished ? "whole" : "aborted"));
    const body = await readBody(incoming);
    const { headers } = incoming;
    const request: RecordedRequest = { api, path, headers, body, at: performance.now(), ended: ended.promise };
    requests.push(request);
    const next = script.shift() ?? { status: 500, body: errorBody("The script has no more turns") };
    const given = typeof next === "function" ? await next(request) : next;
    const turn: Turn = Array.isArray(given) ? { said: given as readonly Said[] } : (given as Turn);
    if (turn.delayMs !== undefined) {
      const { delayMs } = turn;
      await new Promise((resolve) => setTimeout(resolve, delayMs));
    }
    const isFailure = turn.status !== undefined && turn.status >= 400;
    if (body.stream === true && !isFailure) await sendStream(response, turn, request);
    else sendWhole(response, turn, request);
  };
  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((cause: unknown) => {
      if (response.headersSent) response.destroy();
      else
        sendWhole(response, { status: 500, body: errorBody(String(cause)) }, { api: "responses" } as RecordedRequest);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    baseURL: `http://127.0.0.1:${port}/v1`,
    requests,
    script: (...more) => void script.push(...more),
    get left() {
      return script.length;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
