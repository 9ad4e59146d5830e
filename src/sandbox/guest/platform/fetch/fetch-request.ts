// Request (Fetch standard, 5.4). Options for browsers only (mode, credentials, cache …) are validated, stored and reported without effect.

import { defineInterface, requireArguments, toDictionary } from "../shared/webidl.ts";
import type { Body } from "./fetch-body.ts";
import { type BodyMembers, defineBodyMembers, extractBody } from "./fetch-content.ts";
import { copyHeaders, Headers, headerListOf, isToken } from "./fetch-headers.ts";
import { pickFields, showAs } from "./fetch-inspect.ts";
import type { Stream } from "./fetch-platform.ts";
import { type ParsedUrl, parseUrl } from "./fetch-url.ts";
import { tagOf, toByteString, toEnum, toUsvString } from "./fetch-webidl.ts";

export interface Signal {
  readonly aborted: boolean;
  readonly reason: unknown;
  addEventListener(type: "abort", listener: () => void): void;
  removeEventListener(type: "abort", listener: () => void): void;
}
declare const AbortSignal: (abstract new () => Signal) & { any(signals: readonly Signal[]): Signal };
declare const AbortController: new () => { readonly signal: Signal };

const REFERRER_POLICIES = [
  "",
  "no-referrer",
  "no-referrer-when-downgrade",
  "same-origin",
  "origin",
  "strict-origin",
  "origin-when-cross-origin",
  "strict-origin-when-cross-origin",
  "unsafe-url",
] as const;
const MODES = ["cors", "navigate", "no-cors", "same-origin"] as const;
const CREDENTIALS = ["omit", "same-origin", "include"] as const;
const CACHES = ["default", "no-store", "reload", "no-cache", "force-cache", "only-if-cached"] as const;
const REDIRECTS = ["follow", "error", "manual"] as const;
const DUPLEXES = ["half"] as const;
const PRIORITIES = ["high", "low", "auto"] as const;
const FORBIDDEN_METHOD = /^(?:connect|trace|track)$/i;
const NORMALIZED_METHOD = /^(?:delete|get|head|options|post|put)$/i;
const SIMPLE_METHODS: readonly string[] = ["GET", "HEAD", "POST"];

export interface RequestState {
  method: string;
  url: ParsedUrl;
  referrer: string;
  referrerPolicy: (typeof REFERRER_POLICIES)[number];
  mode: (typeof MODES)[number];
  credentials: (typeof CREDENTIALS)[number];
  cache: (typeof CACHES)[number];
  redirect: (typeof REDIRECTS)[number];
  integrity: string;
  keepalive: boolean;
  /** The signal whose abort aborts this request. */
  followed: Signal | undefined;
  headers: Headers;
  body: Body | null;
}

type Members = { readonly [member: string]: unknown };

/** Reads and converts the members of a RequestInit in alphabetical order, as Web IDL requires. */
function readInit(init: unknown) {
  const { body, cache, credentials, duplex, headers, integrity, keepalive, method, mode, priority, ...rest } =
    pick(init);
  const { redirect, referrer, referrerPolicy, signal, window } = rest;
  return {
    body,
    cache: toEnum(cache, CACHES, "Request: cache"),
    credentials: toEnum(credentials, CREDENTIALS, "Request: credentials"),
    duplex: toEnum(duplex, DUPLEXES, "Request: duplex"),
    headers: headers === undefined ? undefined : new Headers(headers),
    integrity: integrity === undefined ? undefined : `${integrity as string}`,
    keepalive: keepalive === undefined ? undefined : Boolean(keepalive),
    method: method === undefined ? undefined : toByteString(method, "Request: method"),
    mode: toEnum(mode, MODES, "Request: mode"),
    priority: toEnum(priority, PRIORITIES, "Request: priority"),
    redirect: toEnum(redirect, REDIRECTS, "Request: redirect"),
    referrer: referrer === undefined ? undefined : toUsvString(referrer),
    referrerPolicy: toEnum(referrerPolicy, REFERRER_POLICIES, "Request: referrerPolicy"),
    signal: toSignal(signal),
    window,
  };
}
type RequestInit = ReturnType<typeof readInit>;

const hasMembers = (init: RequestInit): boolean => Object.values(init).some((member) => member !== undefined);

const MEMBERS = [
  "body",
  "cache",
  "credentials",
  "duplex",
  "headers",
  "integrity",
  "keepalive",
  "method",
  "mode",
  "priority",
  "redirect",
  "referrer",
  "referrerPolicy",
  "signal",
  "window",
] as const;

/** Reads the members of an object, including inherited ones. */
function pick(init: unknown): Members {
  const source = toDictionary(init, "Request");
  return Object.fromEntries(MEMBERS.map((member) => [member, source[member]]));
}

/** Returns undefined if no signal is given, and null if none is wanted. */
function toSignal(value: unknown): Signal | null | undefined {
  if (value === undefined || value === null) return value;
  if (typeof value === "object" && tagOf(value) === "AbortSignal" && value instanceof AbortSignal) return value;
  throw new TypeError("Request: expected signal to be an AbortSignal");
}

/** @throws {TypeError} when the text is not a method, or fetch does not allow it */
export function toMethod(text: string): string {
  if (!isToken(text)) throw new TypeError(`Request: expected a method, got "${text.slice(0, 100)}"`);
  if (FORBIDDEN_METHOD.test(text)) throw new TypeError(`Request: the method ${text} is not allowed`);
  return NORMALIZED_METHOD.test(text) ? text.toUpperCase() : text;
}

function toReferrer(text: string): string {
  if (text === "") return "no-referrer";
  const { href } = parseUrl(text);
  return href === "about:client" ? "client" : href;
}

function freshState(url: ParsedUrl): RequestState {
  if (url.hasCredentials) throw new TypeError("Request: expected a URL without a user name and password");
  return {
    method: "GET",
    url,
    referrer: "client",
    referrerPolicy: "",
    mode: "cors",
    credentials: "same-origin",
    cache: "default",
    redirect: "follow",
    integrity: "",
    keepalive: false,
    followed: undefined,
    headers: new Headers(),
    body: null,
  };
}

/** Applies all members except headers and body. */
function applyInit(state: RequestState, init: RequestInit): void {
  if (init.window !== undefined && init.window !== null) throw new TypeError("Request: expected window to be null");
  if (init.mode === "navigate") throw new TypeError('Request: the mode "navigate" is for browsers only');
  if (init.referrer !== undefined) state.referrer = toReferrer(init.referrer);
  state.referrerPolicy = init.referrerPolicy ?? state.referrerPolicy;
  state.mode = init.mode ?? state.mode;
  state.credentials = init.credentials ?? state.credentials;
  state.cache = init.cache ?? state.cache;
  if (state.cache === "only-if-cached" && state.mode !== "same-origin") {
    throw new TypeError('Request: cache "only-if-cached" needs mode "same-origin"');
  }
  state.redirect = init.redirect ?? state.redirect;
  state.integrity = init.integrity ?? state.integrity;
  state.keepalive = init.keepalive ?? state.keepalive;
  if (init.method !== undefined) state.method = toMethod(init.method);
  if (init.signal !== undefined) state.followed = init.signal ?? undefined;
  if (state.mode === "no-cors" && !SIMPLE_METHODS.includes(state.method)) {
    throw new TypeError(`Request: mode "no-cors" allows ${SIMPLE_METHODS.join(", ")}, got ${state.method}`);
  }
}

/** Uses the body of the init, or the body of the request that is copied. */
function applyBody(state: RequestState, init: RequestInit, inherited: Body | null): void {
  const isGiven = init.body !== undefined && init.body !== null;
  if ((isGiven || inherited !== null) && (state.method === "GET" || state.method === "HEAD")) {
    throw new TypeError(`Request: a request of method ${state.method} has no body`);
  }
  if (!isGiven) {
    state.body =
      inherited === null
        ? null
        : inherited.moved("Cannot construct a Request with a Request object that has already been used.");
    return;
  }
  const { body, type } = extractBody(init.body);
  if (body.parts === undefined) {
    if (state.keepalive) throw new TypeError("Request: a body that is a stream cannot be kept alive");
    if (init.duplex === undefined) throw new TypeError('Request: a body that is a stream needs duplex: "half"');
  }
  const list = headerListOf(state.headers);
  if (type !== undefined && !list.has("content-type")) list.append("Content-Type", type);
  state.body = body;
}

export let requestState: (request: Request) => RequestState;
export let isRequest: (value: object) => boolean;

export interface Request extends BodyMembers {}
// biome-ignore lint/suspicious/noUnsafeDeclarationMerging: defineBodyMembers() adds these members to the prototype
export class Request {
  #state: RequestState;
  #signal: Signal | undefined;

  static {
    requestState = (request) => request.#state;
    isRequest = (value) => #state in value;
  }

  constructor(...args: readonly [input: unknown, init?: unknown]) {
    requireArguments("Request", 1, args.length);
    const [input] = args;
    const init = readInit(args[1]);
    const other = typeof input === "object" && input !== null && #state in input ? input.#state : undefined;
    const state: RequestState = other === undefined ? freshState(parseUrl(input)) : { ...other };
    this.#state = state;
    if (other !== undefined) {
      state.headers = copyHeaders(other.headers);
      if (hasMembers(init)) {
        state.referrer = "client";
        state.referrerPolicy = "";
        if (state.mode === "navigate") state.mode = "same-origin";
      }
    }
    applyInit(state, init);
    if (init.headers !== undefined) state.headers = init.headers;
    applyBody(state, init, other?.body ?? null);
  }

  get method(): string {
    return this.#state.method;
  }
  get url(): string {
    return this.#state.url.href;
  }
  get headers(): Headers {
    return this.#state.headers;
  }
  get destination(): string {
    return this.#state && "";
  }
  get referrer(): string {
    const { referrer } = this.#state;
    return referrer === "client" ? "about:client" : referrer === "no-referrer" ? "" : referrer;
  }
  get referrerPolicy(): string {
    return this.#state.referrerPolicy;
  }
  get mode(): string {
    return this.#state.mode;
  }
  get credentials(): string {
    return this.#state.credentials;
  }
  get cache(): string {
    return this.#state.cache;
  }
  get redirect(): string {
    return this.#state.redirect;
  }
  get integrity(): string {
    return this.#state.integrity;
  }
  get keepalive(): boolean {
    return this.#state.keepalive;
  }
  get isReloadNavigation(): boolean {
    return this.#state === undefined;
  }
  get isHistoryNavigation(): boolean {
    return this.#state === undefined;
  }
  /** Created when it is first read. Until then the request uses the given signal directly. */
  get signal(): Signal {
    const { followed } = this.#state;
    this.#signal ??= followed === undefined ? new AbortController().signal : AbortSignal.any([followed]);
    return this.#signal;
  }
  get duplex(): "half" {
    return this.#state && "half";
  }
  get body(): Stream | null {
    return this.#state.body?.stream ?? null;
  }
  get bodyUsed(): boolean {
    return this.#state.body?.isUsed ?? false;
  }

  clone(): Request {
    const state = this.#state;
    if (state.body?.isUnusable) throw new TypeError("unusable");
    const cloned = new Request("about:blank");
    const headers = copyHeaders(state.headers);
    cloned.#state = { ...state, headers, body: state.body?.clone() ?? null };
    return cloned;
  }
}

defineBodyMembers(Request.prototype, requestState);
defineInterface("Request", Request);
const SHOWN = [
  "method",
  "url",
  "headers",
  "referrer",
  "referrerPolicy",
  "mode",
  "credentials",
  "cache",
  "redirect",
  "integrity",
  "keepalive",
] as const;
showAs("Request", Request, (request) => pickFields(request, SHOWN));
