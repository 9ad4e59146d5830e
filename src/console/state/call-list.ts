// The list of calls: pages of it, the newest first, to which new calls are added. A page of a filtered list covers a part of the calls, and may
// contain few of them or none: the list continues at `next` until it is null.
import type { Call } from "glovebox/client";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { toVisibleText } from "../../host/util/visible-text.ts";
import { serverNow } from "./clock.ts";
import { request } from "./session.ts";

export interface CallListPage {
  readonly items: readonly ListedCall[];
  /** Id below which the list continues; null at its end. */
  readonly next: string | null;
}

const PAGE = 200;
/** Rows that the page keeps: a tail of an hour must not fill the memory. */
const MAX_ROWS = 100_000;
const REFRESH_MS = 1_500;
/** A call appears when it has ended, below newer ones that ended earlier: now and then, this time in ms is loaded again. */
const OVERLAP_MS = 30_000;
const OVERLAP_EVERY = 4;
/** Pages that are loaded to reach the calls that the list has. */
const MAX_NEW_PAGES = 10;
/** Pages with few matches that are searched before the user decides whether to go on. The server looks at 20,000 calls for each. */
const MAX_SEARCHED_PAGES = 5;
const FEW = PAGE / 2;

/** Longest text in characters that a row shows of an output or an error. */
const MAX_SUMMARY = 200;

/** What a row of the list shows of a call. */
export interface ListedCall
  extends Pick<Call, "id" | "tenantId" | "tool" | "version" | "state" | "createdAt" | "endedAt"> {
  /** The first words of the output or the error. */
  readonly summary: string;
  readonly isFailed: boolean;
}

function summaryOf({ error, output, omitted }: Call): string {
  if (error !== null) return `${error.code}: ${error.message}`.slice(0, MAX_SUMMARY);
  if (omitted.includes("output")) return "large output";
  return output === null ? "" : JSON.stringify(output).slice(0, MAX_SUMMARY);
}

/** Returns the row of a call. The whole inputs and outputs of 100,000 calls would fill the memory. */
export function toRow(call: Call): ListedCall {
  const { id, tenantId, tool, version, state, createdAt, endedAt, error } = call;
  // A copy: engines keep the whole of a text of which a part is kept.
  const summary = JSON.parse(JSON.stringify(toVisibleText(summaryOf(call)))) as string;
  return { id, tenantId, tool, version, state, createdAt, endedAt, summary, isFailed: error !== null };
}

/** Digits of the time in an id, after its prefix. */
const DIGITS = "0123456789abcdefghjkmnpqrstvwxyz";
const TIME_LENGTH = 10;

/** Returns the time in ms since 1970 at which a call began, from its id. */
export const timeOfId = (id: string): number =>
  [...id.slice("call_".length, "call_".length + TIME_LENGTH)].reduce(
    (time, digit) => time * DIGITS.length + DIGITS.indexOf(digit),
    0,
  );

export interface CallList {
  readonly rows: readonly ListedCall[];
  readonly error: unknown;
  /** Whether the newest calls are loaded. */
  readonly isLive: boolean;
  /** Id to which the calls are loaded; null if all are. */
  readonly searchedTo: string | null;
  /** Whether the search stopped before the end of the list, and goes on with {@link searchOn}. */
  readonly isPaused: boolean;
  readonly loadMore: () => void;
  readonly searchOn: () => void;
}

export interface ListState {
  readonly key: string;
  readonly rows: readonly ListedCall[];
  readonly next: string | null;
  /** Where the newest page ended that the latest refresh loaded. */
  readonly newestEnd: string;
  readonly isPaused: boolean;
  readonly error: unknown;
  readonly isLive: boolean;
}

export const emptyState = (key: string): ListState => ({
  key,
  rows: [],
  next: null,
  newestEnd: "",
  isPaused: false,
  error: undefined,
  isLive: false,
});

/** Returns an id that the list is known to reach; undefined before the first page. */
const reachedBy = ({ rows, newestEnd, isLive }: ListState): string | undefined => {
  if (!isLive) return undefined;
  const first = rows[0]?.id ?? "";
  return first > newestEnd ? first : newestEnd;
};

/**
 * Loads the newest calls, as far back as an id that the list reaches and the time `since`. With more than ten pages of new ones, the list
 * begins anew.
 */
export async function loadNewest(
  load: (cursor?: string) => Promise<CallListPage>,
  state: ListState,
  since: number,
): Promise<CallListPage & { readonly newestEnd: string }> {
  const reached = reachedBy(state);
  let page = await load();
  const newestEnd = page.next ?? "";
  for (let pages = 1; pages < MAX_NEW_PAGES && reached !== undefined && page.next !== null; pages += 1) {
    if (page.next <= reached && timeOfId(page.next) <= since) break;
    const more = await load(page.next);
    page = { items: [...page.items, ...more.items], next: more.next };
  }
  return { ...page, newestEnd };
}

/** Replaces the rows that the newest page covers, and keeps those below it, unless calls between them are missing. */
export function addNewest(
  before: ListState,
  { items, next, newestEnd }: CallListPage & { readonly newestEnd: string },
): ListState {
  const reached = reachedBy(before);
  const isJoined = reached !== undefined && (next === null || next <= reached);
  const live = { ...before, newestEnd, isLive: true, error: undefined };
  const end = next ?? "";
  const kept = isJoined ? before.rows.filter(({ id }) => id < end) : [];
  const isUnchanged =
    isJoined &&
    kept.length + items.length === before.rows.length &&
    items.every((call, index) => isSame(call, before.rows[index]));
  if (isUnchanged && before.error === undefined && before.newestEnd === newestEnd) return before;
  if (isUnchanged) return live;
  const all = [...items, ...kept];
  const rows = all.slice(0, MAX_ROWS);
  // The list reaches as far as before, where that is further back.
  const wholeNext = !isJoined ? next : next === null || before.next === null ? null : min(next, before.next);
  return {
    ...live,
    rows,
    next: rows.length < all.length ? (rows.at(-1)?.id ?? null) : wholeNext,
    isPaused: isJoined && before.isPaused && wholeNext !== null,
  };
}

const min = (one: string, other: string): string => (one < other ? one : other);
const isSame = (one: ListedCall, other: ListedCall | undefined): boolean =>
  one.id === other?.id && one.state === other.state;

/** Loads pages of calls, the newest first, and adds new calls at the beginning. */
export function useCallList(
  key: string,
  path: string,
  filter: { readonly [name: string]: string | undefined },
): CallList {
  const [state, setState] = useState<ListState>(() => emptyState(key));
  /** The next page of this list that is loading. That of another list does not delay it, and does not change it. */
  const more = useRef({ signal: AbortSignal.abort(), isLoading: false });
  const searched = useRef(0);
  const current = state.key === key ? state : emptyState(key);
  const latest = useRef(current);
  latest.current = current;
  /** Changes the state of this list: not of another, for which the page has waited too. */
  const change = (changed: (before: ListState) => ListState): void =>
    setState((before) => changed(before.key === key ? before : emptyState(key)));
  const load = async (cursor?: string, signal?: AbortSignal): Promise<CallListPage> => {
    const query = { ...filter, limit: PAGE, cursor };
    const page = await request<{ readonly items: readonly Call[]; readonly next: string | null }>("GET", path, {
      query,
      ...(signal && { signal }),
    });
    return { items: page.items.map(toRow), next: page.next };
  };

  useEffect(() => {
    const stop = new AbortController();
    const { signal } = stop;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let round = 0;
    searched.current = 0;
    more.current = { signal, isLoading: false };
    const refresh = async (): Promise<void> => {
      if (document.visibilityState === "visible") {
        try {
          round += 1;
          const since = round % OVERLAP_EVERY === 0 ? serverNow() - OVERLAP_MS : Number.POSITIVE_INFINITY;
          const page = await loadNewest((cursor) => load(cursor, signal), latest.current, since);
          if (!signal.aborted) change((before) => addNewest(before, page));
        } catch (error) {
          if (!signal.aborted) change((before) => ({ ...before, error }));
        }
      }
      if (!signal.aborted) timer = setTimeout(() => void refresh(), REFRESH_MS);
    };
    void refresh();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key]);

  const loadMore = useCallback((): void => {
    const { rows, next, isPaused } = latest.current;
    const loading = more.current;
    const { signal } = loading;
    if (loading.isLoading || isPaused || next === null || rows.length >= MAX_ROWS) return;
    loading.isLoading = true;
    load(next, signal)
      .then(
        (page) => {
          if (signal.aborted) return;
          searched.current = page.items.length < FEW ? searched.current + 1 : 0;
          const isPaused = page.next !== null && searched.current >= MAX_SEARCHED_PAGES;
          setState((before) =>
            before.key === key && before.next === next
              ? { ...before, rows: [...before.rows, ...page.items], next: page.next, isPaused }
              : before,
          );
        },
        (error: unknown) => {
          if (!signal.aborted) change((before) => ({ ...before, error, isPaused: true }));
        },
      )
      .finally(() => {
        loading.isLoading = false;
      });
  }, [key]);
  const searchOn = useCallback((): void => {
    searched.current = 0;
    setState((before) => ({ ...before, isPaused: false }));
  }, []);

  return {
    rows: current.rows,
    error: current.error,
    isLive: current.isLive,
    isPaused: current.isPaused,
    searchedTo: current.next,
    loadMore,
    searchOn,
  };
}
