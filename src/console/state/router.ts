// The address of the page: its path below /console, and its query, which holds filters, so that every view has a link.
import { type ReadonlySignal, signal } from "@preact/signals";
import { readStored, removeStored, store } from "./storage.ts";

const BASE = "/console";

interface Address {
  /** Decoded segments of the path below `/console`. */
  readonly path: readonly string[];
  readonly query: { readonly [name: string]: string };
}

function read(): Address {
  const path = location.pathname.slice(BASE.length).split("/");
  return {
    path: path.filter((part) => part !== "").map((part) => decode(part)),
    query: Object.fromEntries(new URLSearchParams(location.search)),
  };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

const current = signal<Address>(read());
export const address: ReadonlySignal<Address> = current;

/** Returns the URL of a page. Undefined values of the query are left out. */
export function urlOf(
  path: readonly (string | number)[],
  query: { readonly [name: string]: string | undefined } = {},
): string {
  const params = new URLSearchParams(
    Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined && pair[1] !== ""),
  );
  const text = path.map((part) => `/${encodeURIComponent(part)}`).join("");
  return `${BASE}${text}${params.size === 0 ? "" : `?${params}`}`;
}

export function navigate(url: string, { isReplaced = false }: { readonly isReplaced?: boolean } = {}): void {
  if (isReplaced) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
  const before = current.value.path.join("/");
  current.value = read();
  if (before !== current.value.path.join("/")) scrollTo(0, 0);
}

/** Changes the query of this page. */
export function setQuery(changes: { readonly [name: string]: string | undefined }): void {
  const { path, query } = current.value;
  navigate(urlOf(path, { ...query, ...changes }), { isReplaced: true });
}

const RETURN_KEY = "glovebox-return";

/** Keeps the address of this page, to which a sign-in at an identity provider does not lead back by itself. */
export function keepAddress(): void {
  if (current.value.path.length > 0) store("sessionStorage", RETURN_KEY, urlOf(current.value.path, withoutOutcome()));
}

/** Goes to the address that was kept before the sign-in, if this page is the one to which the provider leads. */
export function returnToKeptAddress(): void {
  const kept = readStored("sessionStorage", RETURN_KEY);
  removeStored("sessionStorage", RETURN_KEY);
  const { path, query } = current.value;
  if (path.length === 0 && kept?.startsWith(`${BASE}/`) === true) navigate(kept, { isReplaced: true });
  // A later visit of this page must not report the failure of an earlier sign-in.
  else if (query["sign-in"] !== undefined) navigate(urlOf(path, withoutOutcome()), { isReplaced: true });
}

const withoutOutcome = (): Address["query"] =>
  Object.fromEntries(Object.entries(current.value.query).filter(([name]) => name !== "sign-in"));

/** Follows links within the console without loading the page again. */
export function startRouter(): void {
  addEventListener("popstate", () => {
    current.value = read();
  });
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const isPlain = event.button === 0 && !(event.metaKey || event.ctrlKey || event.shiftKey || event.altKey);
    if (link === null || !isPlain || link.target !== "" || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !link.pathname.startsWith(BASE)) return;
    // A link to a part of this page, such as the one that skips the navigation, moves the focus.
    if (link.hash !== "" && link.pathname === location.pathname && link.search === location.search) return;
    event.preventDefault();
    navigate(link.pathname + link.search);
  });
}
