// Response (Fetch standard, 5.5).

import { defineInterface, requireArguments, toDictionary } from "../shared/webidl.ts";
import { Body, readAll } from "./fetch-body.ts";
import { type BodyMembers, defineBodyMembers, type Extracted, extractBody } from "./fetch-content.ts";
import { copyHeaders, GuestHeaderList, Headers, headerListOf, makeHeaders } from "./fetch-headers.ts";
import { pickFields, showAs } from "./fetch-inspect.ts";
import type { Stream } from "./fetch-platform.ts";
import { parseUrl } from "./fetch-url.ts";
import { encodeUtf8 } from "./fetch-utf8.ts";
import { toByteString } from "./fetch-webidl.ts";

const NULL_BODY_STATUSES: readonly number[] = [101, 103, 204, 205, 304];
const REDIRECT_STATUSES: readonly number[] = [301, 302, 303, 307, 308];
export const isNullBodyStatus = (status: number): boolean => NULL_BODY_STATUSES.includes(status);

/** Pattern of a reason-phrase: tabs, spaces, visible characters and the upper half of Latin-1. */
const REASON_PHRASE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Converts to Web IDL's unsigned short. A value that is not a number becomes 0. */
const toUnsignedShort = (value: unknown): number => Math.trunc(Number(value)) & 0xffff;

type ResponseType = "default" | "basic" | "error";

interface ResponseState {
  readonly type: ResponseType;
  readonly url: string;
  readonly redirected: boolean;
  readonly status: number;
  readonly statusText: string;
  readonly headers: Headers;
  readonly body: Body | null;
}

/** Status and headers that the host has received. */
export interface GuestResponseHead {
  readonly status: number;
  readonly statusText: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly url: string;
  readonly redirected: boolean;
}

export let isResponse: (value: object) => boolean;
let responseState: (response: Response) => ResponseState;
export let makeResponse: (head: GuestResponseHead, body: Body | null) => Response;
/** Reads the whole body and passes it to a check before the tool receives the response. */
export let settleBody: (response: Response, look: (bytes: Uint8Array) => Promise<void>) => Promise<void>;

function initialize(init: unknown, extracted: Extracted | null, type?: string): ResponseState {
  const { headers, status, statusText } = toDictionary(init, "Response");
  // Web IDL reads the members of a dictionary in alphabetical order.
  const made = new Headers(headers);
  const code = status === undefined ? 200 : toUnsignedShort(status);
  const phrase = statusText === undefined ? "" : toByteString(statusText, "Response: statusText");
  if (code < 200 || code > 599) throw new RangeError(`Response: expected a status of 200 to 599, got ${code}`);
  if (!REASON_PHRASE.test(phrase)) throw new TypeError("Response: expected a statusText without control characters");
  if (extracted !== null) {
    if (isNullBodyStatus(code)) throw new TypeError(`Response: a response of status ${code} has no body`);
    const contentType = type ?? extracted.type;
    const list = headerListOf(made);
    if (contentType !== undefined && !list.has("content-type")) list.append("Content-Type", contentType);
  }
  return {
    type: "default",
    url: "",
    redirected: false,
    status: code,
    statusText: phrase,
    headers: made,
    body: extracted?.body ?? null,
  };
}

function jsonText(data: unknown): string {
  const text = JSON.stringify(data) as string | undefined;
  if (text === undefined) throw new TypeError(`Response.json: expected a JSON value, got ${typeof data}`);
  return text;
}

export interface Response extends BodyMembers {}
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: defineBodyMembers() adds these members to the prototype
export class Response {
  #state: ResponseState;

  static {
    responseState = (response) => response.#state;
    isResponse = (value) => #state in value;
    settleBody = async (response, look) => {
      const { body } = response.#state;
      const bytes = body === null ? new Uint8Array(0) : await readAll(body.take());
      await look(bytes);
      if (body !== null) response.#state = { ...response.#state, body: Body.ofParts([bytes]) };
    };
    makeResponse = ({ status, statusText, headers, url, redirected }, body) => {
      const response = new Response();
      const list = makeHeaders(GuestHeaderList.from(headers), "immutable");
      response.#state = { type: "basic", url, redirected, status, statusText, headers: list, body };
      return response;
    };
  }

  constructor(body: unknown = null, init: unknown = undefined) {
    const options = toDictionary(init, "Response");
    this.#state = initialize(options, body === null || body === undefined ? null : extractBody(body));
  }

  static error(): Response {
    const response = new Response();
    const headers = makeHeaders(new GuestHeaderList(), "immutable");
    response.#state = { ...response.#state, type: "error", status: 0, headers };
    return response;
  }

  static json(...args: readonly [data: unknown, init?: unknown]): Response {
    requireArguments("Response.json", 1, args.length);
    const body = Body.ofParts([encodeUtf8(jsonText(args[0]))]);
    const response = new Response();
    response.#state = initialize(args[1], { body, type: undefined }, "application/json");
    return response;
  }

  static redirect(...args: readonly [url: unknown, status?: unknown]): Response {
    requireArguments("Response.redirect", 1, args.length);
    const { href } = parseUrl(args[0]);
    const status = args[1] === undefined ? 302 : toUnsignedShort(args[1]);
    if (!REDIRECT_STATUSES.includes(status)) {
      throw new RangeError(`Response.redirect: expected a status of ${REDIRECT_STATUSES.join(", ")}, got ${status}`);
    }
    const response = new Response();
    const headers = makeHeaders(GuestHeaderList.from([["Location", href]]), "immutable");
    response.#state = { ...response.#state, status, headers };
    return response;
  }

  get type(): ResponseType {
    return this.#state.type;
  }
  get url(): string {
    const { url } = this.#state;
    const hash = url.indexOf("#");
    return hash < 0 ? url : url.slice(0, hash);
  }
  get redirected(): boolean {
    return this.#state.redirected;
  }
  get status(): number {
    return this.#state.status;
  }
  get ok(): boolean {
    const { status } = this.#state;
    return status >= 200 && status <= 299;
  }
  get statusText(): string {
    return this.#state.statusText;
  }
  get headers(): Headers {
    return this.#state.headers;
  }
  get body(): Stream | null {
    return this.#state.body?.stream ?? null;
  }
  get bodyUsed(): boolean {
    return this.#state.body?.isUsed ?? false;
  }

  clone(): Response {
    const { body, headers } = this.#state;
    if (body?.isUnusable) throw new TypeError("Response.clone: Body has already been consumed.");
    const cloned = new Response();
    cloned.#state = { ...this.#state, headers: copyHeaders(headers), body: body?.clone() ?? null };
    return cloned;
  }
}

defineBodyMembers(Response.prototype, responseState);
defineInterface("Response", Response);
// Without `body`, because reading it would create a stream.
const SHOWN = ["status", "statusText", "headers", "bodyUsed", "ok", "redirected", "type", "url"] as const;
showAs("Response", Response, (response) => pickFields(response, SHOWN));
