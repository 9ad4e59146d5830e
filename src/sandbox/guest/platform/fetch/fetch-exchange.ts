// Sends one request over the `fetch` capability and receives its response. Both bodies are streamed, and either side can end the exchange.
import { withCode, withReason } from "../../error-text.ts";
import type { FetchChannel } from "../../fetch-channel.ts";
import { Body, type BodySource } from "./fetch-body.ts";
import { concat, fromBase64, toBase64 } from "./fetch-platform.ts";
import { ReadAhead } from "./fetch-read-ahead.ts";
import type { RequestState, Signal } from "./fetch-request.ts";
import { type GuestResponseHead, isNullBodyStatus, makeResponse, type Response } from "./fetch-response.ts";
import type { Pair } from "./fetch-webidl.ts";

/** Larger bodies are sent in pieces even if they are known, because the size of a message is limited. */
const WHOLE_BODY_BYTES = 4 * 1024 * 1024;
/** Size of a piece. In base64 it still is a message that the host parses at once. */
const PIECE_BYTES = 64 * 1024;

interface HostHead extends GuestResponseHead {
  readonly hasBody: boolean;
}
type HostChunk = { readonly base64: string } | { readonly done: true };

/** Prefix of the host's message for a network failure. */
const PREFIX = "The exchange failed: ";

/** Returns Node's error of a failed fetch for a reason without a code. */
export const fetchError = (message: string, reason: string, cause: unknown = new Error(reason)): TypeError =>
  withReason(new TypeError(message, { cause }), reason);

/**
 * Turns a network failure into Node's error: a TypeError whose cause has the reason and the code, such as `ECONNREFUSED`. Libraries that retry
 * compare the whole message. An error of the host's policy is returned unchanged.
 */
function toFetchError(error: unknown, message: string): unknown {
  const { code, networkCode, message: hostMessage } = (error ?? {}) as Partial<Record<string, unknown>>;
  if (code !== "TOOL_FAILED") return error;
  const isKnown = typeof hostMessage === "string" && hostMessage.startsWith(PREFIX);
  const reason = isKnown ? hostMessage.slice(PREFIX.length) : hostMessage;
  if (typeof networkCode === "string" && typeof reason === "string") {
    const cause = withCode(new Error(reason), networkCode);
    return withReason(new TypeError(message, { cause }), `${reason} (${networkCode})`);
  }
  return isKnown ? fetchError(message, hostMessage.slice(PREFIX.length)) : new TypeError(message, { cause: error });
}

type WireBody = null | { readonly base64: string } | { readonly stream: true };

function toWireBody(body: Body | null): WireBody {
  if (body === null) return null;
  const length = body.parts?.reduce((sum, part) => sum + part.byteLength, 0);
  if (body.parts === undefined || length === undefined || length > WHOLE_BODY_BYTES) return { stream: true };
  return { base64: toBase64(body.parts.length === 1 ? (body.parts[0] as Uint8Array) : concat(body.parts)) };
}

/** Parts of a request that an exchange uses. */
export interface FetchExchangeRequest extends Pick<RequestState, "method" | "url" | "redirect" | "body" | "followed"> {
  /** Headers as they are sent. */
  readonly headers: readonly Pair<string>[];
}

export interface OpenedResponse {
  readonly head: GuestResponseHead;
  /** Undefined if a response of this method and status has no body, as null in a Response. */
  readonly body: BodySource | undefined;
}

const NO_BYTES: BodySource = { next: async () => undefined, nextNow: () => undefined, cancel: () => {} };

export class Exchange {
  readonly #channel: FetchChannel;
  readonly #request: FetchExchangeRequest;
  readonly #signal: Signal | undefined;
  readonly #onAbort = (): void => this.#abort(this.#signal?.reason);
  #isOver = false;
  /** Rejects the pending promise of the guest: for the head, then for a chunk. */
  #rejectWaiting: ((reason: unknown) => void) | undefined;
  #upload: BodySource | undefined;
  #ahead: ReadAhead | undefined;
  #download: Body | undefined;
  /** Reason why no more chunks will arrive. */
  #failure: { readonly reason: unknown } | undefined;

  constructor(channel: FetchChannel, request: FetchExchangeRequest) {
    this.#channel = channel;
    this.#request = request;
    this.#signal = request.followed;
  }

  async run(): Promise<Response> {
    const { head, body } = await this.open();
    if (body === undefined) return makeResponse(head, null);
    if (body === NO_BYTES) return makeResponse(head, Body.ofParts([]));
    this.#download = Body.ofSource(body);
    return makeResponse(head, this.#download);
  }

  /** Sends the request. Resolves when the head of the response has arrived. */
  async open(): Promise<OpenedResponse> {
    const { method, url, headers, redirect, body } = this.#request;
    const wireBody = toWireBody(body);
    const upload = body?.take();
    if (wireBody !== null && "stream" in wireBody) this.#upload = upload;
    this.#signal?.addEventListener("abort", this.#onAbort);
    const hash = url.href.indexOf("#");
    try {
      const response = this.#sendMessage({
        op: "request",
        method,
        url: hash < 0 ? url.href : url.href.slice(0, hash),
        headers,
        body: wireBody,
        redirect,
      });
      if (this.#upload !== undefined) void this.#sendBody(this.#upload);
      return this.#respond((await this.#wait(response)) as HostHead);
    } catch (error) {
      this.#finish();
      throw toFetchError(error, "fetch failed");
    }
  }

  #sendMessage(message: { readonly op: string; readonly [field: string]: unknown }): Promise<unknown> {
    return this.#channel.request({ ...message, id: this.#channel.id });
  }

  /** Waits for a response of the host, or for the end of the exchange if that comes first. */
  #wait(response: Promise<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#rejectWaiting = reject;
      response.then(resolve, reject);
    });
  }

  #respond(head: HostHead): OpenedResponse {
    const isBodyless = this.#request.method === "HEAD" || isNullBodyStatus(head.status);
    if (!head.hasBody || isBodyless) this.#finish();
    if (isBodyless) return { head, body: undefined };
    if (!head.hasBody) return { head, body: NO_BYTES };
    this.#ahead = new ReadAhead({ next: () => this.#read(), cancel: () => this.#cancel() }, this.#channel.check);
    return { head, body: this.#ahead };
  }

  async #read(): Promise<Uint8Array | undefined> {
    if (this.#failure !== undefined) throw this.#failure.reason;
    if (this.#isOver) return undefined;
    try {
      const chunk = (await this.#wait(this.#sendMessage({ op: "read" }))) as HostChunk;
      if (!("done" in chunk)) return fromBase64(chunk.base64);
      this.#finish();
      return undefined;
    } catch (error) {
      this.#finish();
      const reason = toFetchError(error, "terminated");
      this.#failure ??= { reason };
      throw reason;
    }
  }

  async #sendBody(source: BodySource): Promise<void> {
    for (;;) {
      let bytes: Uint8Array | undefined;
      try {
        bytes = await source.next();
      } catch (error) {
        // The tool's own stream has failed, and no other component knows.
        this.#stop(new TypeError("fetch failed", { cause: error }));
        return;
      }
      if (this.#isOver || !(await this.#write(bytes))) return;
      if (bytes === undefined) break;
    }
    this.#upload = undefined;
  }

  /** Returns false if the host accepts no more data. Its response follows. */
  async #write(bytes: Uint8Array | undefined): Promise<boolean> {
    try {
      if (bytes === undefined) await this.#sendMessage({ op: "end" });
      else {
        for (let at = 0; at < bytes.byteLength && !this.#isOver; at += PIECE_BYTES) {
          await this.#sendMessage({ op: "write", base64: toBase64(bytes.subarray(at, at + PIECE_BYTES)) });
        }
      }
      return true;
    } catch (error) {
      if (this.#ahead === undefined) this.#rejectWaiting?.(error);
      this.#cancelUpload(error);
      return false;
    }
  }

  #abort(reason: unknown): void {
    this.#cancelUpload(reason);
    this.#stop(reason);
  }

  /** Ends the exchange from this side: pending promises reject with the reason, and the host releases the request. */
  #stop(reason: unknown): void {
    if (this.#isOver) return;
    this.#finish();
    this.#failure = { reason };
    this.#rejectWaiting?.(reason);
    this.#ahead?.fail(reason);
    this.#download?.fail(reason);
    this.#cancelAtHost();
  }

  #cancel(): void {
    if (this.#isOver) return;
    this.#finish();
    this.#cancelAtHost();
  }

  #cancelAtHost(): void {
    this.#sendMessage({ op: "cancel" }).catch(() => {});
  }

  #cancelUpload(reason: unknown): void {
    const upload = this.#upload;
    this.#upload = undefined;
    Promise.resolve(upload?.cancel(reason)).catch(() => {});
  }

  #finish(): void {
    this.#isOver = true;
    this.#cancelUpload(undefined);
    this.#signal?.removeEventListener("abort", this.#onAbort);
  }
}
