// EventSource (HTML, "server-sent events") over the guest's own fetch, so the host's rules, limits and secrets for requests apply.

import { EventStreamParser, type StreamedEvent } from "../../../contract/event-stream.ts";
import { describeValue } from "../../error-text.ts";
import { openFetchChannel } from "../../fetch-channel.ts";
import { writeLazily } from "../../log-lines.ts";
import { createDomException } from "../../module-loader.ts";
import { addPlatformType } from "../../platform-types.ts";
import { inContext, queueTask, startTimer } from "../../timers.ts";
import { TextDecoder, TextEncoder } from "../encoding/encoding.ts";
import { AbortController } from "../events/abort.ts";
import { defineHandlers, dispatch, Event, EventTarget, hasListeners } from "../events/events.ts";
import { ErrorEvent, MessageEvent } from "../events/messaging.ts";
import { fetch, type Response } from "../fetch/fetch.ts";
import { urls } from "../fetch/fetch-platform.ts";
import { defineConstants, defineInterface, requireArguments, toDictionary } from "../shared/webidl.ts";

const STATES = { CONNECTING: 0, OPEN: 1, CLOSED: 2 } as const;
/** Delay in ms before a reconnect, unless the server sends another one. */
const RECONNECT_MS = 1_000;
const EVENT_STREAM = /^\s*text\/event-stream\s*(?:;|$)/i;

let isEventSource: (value: unknown) => boolean;

function toHref(value: unknown): string {
  const text = `${value as string}`.toWellFormed();
  try {
    return new (urls().URL)(text).href;
  } catch {
    throw createDomException(
      `EventSource expected an absolute URL, got ${JSON.stringify(text.slice(0, 200))}`,
      "SyntaxError",
    );
  }
}

/** Encodes text as UTF-8 in the form of a header value. */
const toByteString = (text: string): string => String.fromCharCode(...new TextEncoder().encode(text));

export class EventSource extends EventTarget {
  static {
    isEventSource = (value) => typeof value === "object" && value !== null && #url in value;
  }

  readonly #url: string;
  readonly #withCredentials: boolean;
  readonly #stop = new AbortController();
  /** Runs a function as a task in the context in which the source was created. Resolves after it. */
  readonly #inTask: (run: () => void) => Promise<void>;
  #readyState: number = STATES.CONNECTING;
  #lastEventId = "";
  #reconnectMs = RECONNECT_MS;

  constructor(url: unknown, init: unknown = undefined) {
    requireArguments("EventSource", 1, arguments.length);
    super();
    this.#withCredentials = !!toDictionary(init, "EventSource").withCredentials;
    this.#url = toHref(url);
    // Throws at once if the tool has no grant for `fetch`. The requests open their own channels.
    openFetchChannel();
    const call = inContext((run: () => void) => run());
    this.#inTask = (run) =>
      new Promise((resolve) => {
        queueTask(() => {
          resolve();
          if (this.#readyState !== STATES.CLOSED) call(run);
        });
      });
    void this.#connect();
  }

  get url(): string {
    return this.#url;
  }
  get withCredentials(): boolean {
    return this.#withCredentials;
  }
  get readyState(): number {
    return this.#readyState;
  }

  close(): void {
    this.#readyState = STATES.CLOSED;
    this.#stop.abort();
  }

  /** Never rejects. */
  async #connect(): Promise<void> {
    try {
      const id = this.#lastEventId;
      const response = await fetch(this.#url, {
        headers: {
          accept: "text/event-stream",
          "cache-control": "no-cache",
          ...(id === "" ? {} : { "last-event-id": toByteString(id) }),
        },
        signal: this.#stop.signal,
      });
      await this.#read(response);
      await this.#reconnect(new Error("The server ended the stream"));
    } catch (error) {
      // A network error may be temporary. A rule of the host and a wrong response are permanent.
      if (error instanceof TypeError) await this.#reconnect(error);
      else await this.#fail(error);
    }
  }

  /** @throws what fetch throws, and an Error for a response that is not an event stream */
  async #read(response: Response): Promise<void> {
    const type = (response.headers as unknown as { get(name: string): string | null }).get("content-type") ?? "";
    if (response.status !== 200 || !EVENT_STREAM.test(type)) {
      Promise.resolve((response.body as ReadableStream | null)?.cancel()).catch(() => {});
      const got = `the status ${response.status} and the content type ${JSON.stringify(type.slice(0, 100))}`;
      throw new Error(`EventSource expected the status 200 and the content type text/event-stream, got ${got}`);
    }
    const { origin } = new (urls().URL)(response.url);
    await this.#inTask(() => {
      this.#readyState = STATES.OPEN;
      dispatch(this, new Event("open"), true);
    });
    const parser = new EventStreamParser(this.#lastEventId);
    const decoder = new TextDecoder();
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      for (const event of parser.push(decoder.decode(part.value, { stream: true }))) await this.#receive(event, origin);
      this.#lastEventId = parser.lastEventId;
      this.#reconnectMs = parser.retryMs ?? this.#reconnectMs;
    }
  }

  #receive({ type, data, lastEventId }: StreamedEvent, origin: string): Promise<void> {
    return this.#inTask(() => {
      this.#lastEventId = lastEventId;
      dispatch(this, new MessageEvent(type, { data, lastEventId, origin }), true);
    });
  }

  /** Implements "reestablish the connection" (HTML). */
  async #reconnect(error: Error): Promise<void> {
    await this.#inTask(() => {
      this.#readyState = STATES.CONNECTING;
      dispatch(this, new ErrorEvent("error", { error, message: error.message }), true);
    });
    if (this.#readyState !== STATES.CONNECTING) return;
    startTimer("EventSource", this.#reconnectMs, () => {
      if (this.#readyState === STATES.CONNECTING) void this.#connect();
    });
  }

  /** Implements "fail the connection" (HTML). */
  async #fail(error: unknown): Promise<void> {
    await this.#inTask(() => {
      this.#readyState = STATES.CLOSED;
      const { message = describeValue(error) } = (error ?? {}) as { readonly message?: string };
      if (hasListeners(this, "error")) dispatch(this, new ErrorEvent("error", { error, message }), true);
      else writeLazily("error", () => `The EventSource failed: ${message}`);
    });
  }
}

defineConstants(EventSource, STATES);
defineHandlers(EventSource, ["open", "message", "error"]);
defineInterface("EventSource", EventSource);
// An EventSource cannot be cloned or transferred.
addPlatformType({ owns: isEventSource });
