// Who is signed in, and the client for the API. The session is a cookie that scripts cannot read; an embedded page has a token instead.
import { computed, effect, type ReadonlySignal, type Signal, signal } from "@preact/signals";
import { ApiError, createClient, type GloveboxClient } from "glovebox/client";
import { noteServerTime, serverNow } from "./clock.ts";
import { clearStored } from "./storage.ts";

export interface Me {
  readonly keyId: string;
  /** Null for a key of the platform. */
  readonly tenantId: string | null;
  readonly scopes: readonly string[];
  /** When the key, token or session expires, in ms since 1970 by the server's clock; null if it does not. */
  readonly expiresAt: number | null;
}

/** Undefined until the server has answered; null if no user is signed in. */
export const me: Signal<Me | null | undefined> = signal(undefined);
export const isPlatform: ReadonlySignal<boolean> = computed(() => me.value?.tenantId === null);

/** The token of an embedded page, from the fragment of its URL, which browsers send to no server. */
const embedToken = new URLSearchParams(location.hash.slice(1)).get("token") ?? undefined;
if (embedToken !== undefined) history.replaceState(null, "", location.pathname + location.search);
export const isEmbedded: boolean = embedToken !== undefined;
/** Whether the page is in a frame of another page. One that was loaded again there has lost its token. */
export const isFramed: boolean = isEmbedded || globalThis.parent !== globalThis.self;

const unreachable = signal(false);
/** Whether the latest request got no response. */
export const isUnreachable: ReadonlySignal<boolean> = unreachable;

async function send(input: RequestInfo | URL, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (!isEmbedded) headers.delete("authorization");
  headers.set("x-glovebox-console", "1");
  const response = await fetch(input, { ...init, headers, credentials: isEmbedded ? "omit" : "same-origin" }).catch(
    (error: unknown) => {
      // A request that the page itself has ended says nothing about the server.
      if (init.signal?.aborted !== true) unreachable.value = true;
      throw error;
    },
  );
  unreachable.value = false;
  noteServerTime(response.headers.get("date"));
  if (response.status === 401 && me.value) me.value = null;
  return response;
}

export const client: GloveboxClient = createClient({ url: location.origin, key: embedToken ?? "cookie", fetch: send });

/** Sends one request of the API. */
export const request: GloveboxClient["request"] = (method, path, options) => client.request(method, path, options);

export const can = (scope: string): boolean => me.value?.scopes.includes(scope) === true;

export async function loadMe(): Promise<void> {
  try {
    me.value = await client.whoAmI();
  } catch (thrown) {
    if (!(thrown instanceof ApiError) || thrown.status !== 401) throw thrown;
    me.value = null;
  }
}

/** Time in ms before the end of a session from which the page says that it comes. */
const NOTICE_MS = 120_000;
/** Longest time in ms between two looks: timers stop while the machine sleeps, and have a longest time. */
const LOOK_MS = 60_000;
/** Shortest time in ms between two looks, for a server whose clock is behind what the page knows of it. */
const MIN_LOOK_MS = 1_000;

const ending = signal<number | undefined>(undefined);
/** When this session ends, in ms since 1970, from two minutes before on. */
export const endsAt: ReadonlySignal<number | undefined> = ending;

/** Says in time that the session ends, and asks the server when it has: a page that sends no requests would not learn it. */
export function watchExpiry(): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const look = async (expiresAt: number): Promise<void> => {
    const left = expiresAt - serverNow();
    ending.value = left > NOTICE_MS ? undefined : expiresAt;
    const nextMs = left > NOTICE_MS ? left - NOTICE_MS : left;
    timer = setTimeout(() => void look(expiresAt), Math.min(LOOK_MS, Math.max(MIN_LOOK_MS, nextMs)));
    // The server decides. Without an answer, the next look asks again.
    if (left <= 0) await loadMe().catch(() => {});
  };
  // Not at each answer of the server: the same time would be looked at again at once.
  const expiry = computed(() => me.value?.expiresAt ?? null);
  effect(() => {
    clearTimeout(timer);
    const expiresAt = expiry.value;
    ending.value = undefined;
    if (expiresAt !== null) void look(expiresAt);
  });
}

/** Signs in. @throws {ApiError} with status 401 if the key is not valid */
export async function signIn(key: string): Promise<void> {
  await request("POST", "/v1/console/sessions", { body: { key } });
  await loadMe();
  if (me.value === null) {
    throw new Error(
      "The browser did not keep the session. Allow cookies for this page, and open it over HTTPS or on the server's own machine",
    );
  }
}

export async function signOut(): Promise<void> {
  const { items } = await request<{ items: readonly { readonly id: string; readonly isCurrent: boolean }[] }>(
    "GET",
    "/v1/console/sessions",
  );
  const current = items.find(({ isCurrent }) => isCurrent);
  if (current !== undefined) await request("DELETE", `/v1/console/sessions/${current.id}`);
  // Unsaved code of this user.
  clearStored("sessionStorage");
  me.value = null;
}
