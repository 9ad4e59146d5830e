// Tracks a request that the MCP server is answering: its share of the caller's quotas, and the signal that cancels its call. The request
// ends when its response was read, the client disconnects or stops reading, or its token expires.
import { rejectExpired } from "../authorization/authentication.ts";
import { BoundedBody, PART_BYTES } from "./bounded-body.ts";
import type { CallerQuota, Exceeded } from "./caller-quota.ts";
import type { HttpLimits, HttpQuotas } from "./http-limits.ts";
import { reject, rejectOverLimit, statusOfLimit } from "./rejection.ts";

/**
 * `listen`: the response is a stream of notifications. `call`: a JSON-RPC request. `message`: a notification, or the answer to a request of
 * the server. Messages do not count as requests: otherwise a client whose calls wait for its answers could not send them.
 */
export type RequestKind = "listen" | "call" | "message";

interface OpenRequestOptions {
  readonly kind: RequestKind;
  readonly owner: string;
  readonly limits: HttpLimits;
  readonly quotas: HttpQuotas;
  /** In ms since 1970; undefined for a caller without a token. */
  readonly expiresAtMs: number | undefined;
  /** Called once, at the end of the request. */
  readonly onEnd: () => void;
}

/** Names of the request kinds in error messages. */
const NAMES = { listen: "listen streams", call: "requests or unread responses", message: "messages" } as const;
/** Longest delay in ms that Node.js timers accept. */
const MAX_DELAY_MS = 2_147_483_647;

interface InnerRequest {
  /** The request without its body. */
  readonly request: Request;
  /** Controls the signal of `request`. */
  readonly controller: AbortController;
  /** Aborts when the client disconnects. */
  readonly client: AbortSignal;
}

function toInner({ method, headers, url, signal }: Request): InnerRequest {
  const controller = new AbortController();
  return { request: new Request(url, { method, headers, signal: controller.signal }), controller, client: signal };
}

class OpenRequest {
  /** The request without its body, with a signal that also aborts when the response is aborted. */
  readonly request: Request;
  readonly #options: OpenRequestOptions;
  readonly #client: AbortSignal;
  readonly #controller: AbortController;
  readonly #slot: CallerQuota | undefined;
  #body: BoundedBody | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isEnded = false;
  /** Whether the token expired before there was a response. */
  isExpired = false;

  private constructor(inner: InnerRequest, options: OpenRequestOptions, slot: CallerQuota | undefined) {
    this.request = inner.request;
    this.#controller = inner.controller;
    this.#client = inner.client;
    this.#options = options;
    this.#slot = slot;
  }

  /**
   * Opens a request, which takes one unit of the caller's quota. Returns the exceeded limit if there is none left.
   * @throws {TypeError} for a request that the Fetch standard does not allow, such as one with a password in its URL; the quota is unchanged
   */
  static open(client: Request, options: OpenRequestOptions): OpenRequest | { readonly exceeded: Exceeded } {
    const { kind, owner, quotas } = options;
    // Comes first because it can throw: what was taken from the quota before would never be released.
    const inner = toInner(client);
    const slot = { listen: quotas.listening, call: quotas.answering, message: undefined }[kind];
    // A caller with too many unread responses cannot start calls: their results would be dropped.
    const exceeded = (kind === "call" ? exceededOf(quotas.responseBytes, owner) : undefined) ?? slot?.take(owner, 1);
    if (exceeded !== undefined) return { exceeded };
    const open = new OpenRequest(inner, options, slot);
    open.#observeEnd();
    return open;
  }

  /** Returns the response for the client, limited by the caller's quotas. The request ends when the response was read or aborted. */
  async respond(response: Response): Promise<Response> {
    const { status, headers } = response;
    if (response.body === null) {
      this.end("read");
      return response;
    }
    const isStream = headers.get("content-type")?.startsWith("text/event-stream") === true;
    if (isStream)
      return new Response(
        this.#bound((body) => body.addFrom(sourceOf(response))),
        { status, headers },
      );
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (bytes.byteLength <= PART_BYTES) {
      this.end("read");
      return new Response(bytes, { status, headers });
    }
    let exceeded: Exceeded | undefined;
    const stream = this.#bound((body) => {
      exceeded = body.addAll(bytes);
    });
    if (exceeded !== undefined) {
      this.end("aborted");
      return rejectUnread(exceeded);
    }
    const sized = new Headers(headers);
    sized.set("Content-Length", String(bytes.byteLength));
    return new Response(stream, { status, headers: sized });
  }

  /** Ends the request and releases its quota. A second call has no effect. */
  end(outcome: "read" | "aborted"): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.#client.removeEventListener("abort", this.#onDisconnect);
    this.#slot?.give(this.#options.owner, 1);
    if (outcome === "aborted") this.#controller.abort();
    this.#options.onEnd();
  }

  #bound(fill: (body: BoundedBody) => void): ReadableStream<Uint8Array> {
    const { owner, limits, quotas } = this.#options;
    const body = new BoundedBody(
      {
        take: (bytes) => quotas.responseBytes.take(owner, bytes),
        give: (bytes) => quotas.responseBytes.give(owner, bytes),
        ended: (outcome) => this.end(outcome),
      },
      limits.unreadMs,
    );
    this.#body = body;
    fill(body);
    if (this.#isEnded) body.discard();
    return body.stream;
  }

  #onDisconnect = (): void => {
    if (this.#body === undefined) this.end("aborted");
    else this.#body.discard();
  };

  #observeEnd(): void {
    this.#client.addEventListener("abort", this.#onDisconnect, { once: true });
    if (this.#client.aborted) this.#onDisconnect();
    else this.#awaitExpiry();
  }

  #awaitExpiry(): void {
    const { expiresAtMs, kind, limits } = this.#options;
    if (expiresAtMs === undefined || expiresAtMs === Number.POSITIVE_INFINITY) return;
    const endsAtMs = kind === "listen" ? expiresAtMs : expiresAtMs + limits.expiredCallMs;
    const wait = (): void => {
      const leftMs = endsAtMs - Date.now();
      if (leftMs <= 0) this.#expire();
      else this.#timer = setTimeout(wait, Math.min(leftMs, MAX_DELAY_MS)).unref();
    };
    // Not synchronously, so that the request first gets a response that can be ended.
    this.#timer = setTimeout(wait, 0).unref();
  }

  #expire(): void {
    if (this.#body === undefined) {
      this.isExpired = true;
      this.#controller.abort();
    } else if (this.#options.kind === "listen") {
      this.#body.close();
    } else {
      this.#body.abort("the caller's token has expired");
    }
  }
}

/** Returns the limit that a further byte would exceed. */
function exceededOf(quota: CallerQuota, owner: string): Exceeded | undefined {
  const exceeded = quota.take(owner, 1);
  if (exceeded === undefined) quota.give(owner, 1);
  return exceeded;
}

function sourceOf({ body }: Response): ReadableStream<Uint8Array> {
  if (body === null) throw new Error("The response has no body");
  return body;
}

const rejectUnread = (exceeded: Exceeded): Response =>
  reject(
    statusOfLimit(exceeded),
    "The call has run, but its response was dropped: too many bytes of responses are unread (limits.responseBytes)",
  );

function tryOpen(client: Request, options: OpenRequestOptions): ReturnType<typeof OpenRequest.open> | undefined {
  try {
    return OpenRequest.open(client, options);
  } catch {
    return undefined;
  }
}

/**
 * Answers a request within the quotas of its caller.
 * @param answer receives the request without its body, with a signal that also aborts when the response is aborted
 */
export async function answerWithinLimits(
  client: Request,
  options: OpenRequestOptions,
  answer: (request: Request) => Promise<Response>,
): Promise<Response> {
  const open = tryOpen(client, options);
  if (open === undefined) {
    options.onEnd();
    return reject(400, "The request is not valid under the Fetch standard");
  }
  if ("exceeded" in open) {
    options.onEnd();
    return rejectOverLimit(open.exceeded, NAMES[options.kind]);
  }
  try {
    const response = await answer(open.request);
    if (!open.isExpired) return await open.respond(response);
    // The response will not be read, and its producer would wait for a reader.
    response.body?.cancel().catch(() => {});
    return await open.respond(rejectExpired());
  } catch (thrown) {
    open.end("aborted");
    throw thrown;
  }
}
