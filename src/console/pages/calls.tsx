// The calls of a tenant, or of all tenants: a live list with filters that the URL holds.

import type { Call } from "glovebox/client";
import type { JSX } from "preact";
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Badge, Empty, ErrorBox, Loading, PageHead, Time } from "../parts/controls.tsx";
import { VirtualList } from "../parts/virtual-list.tsx";
import { formatMs, formatNumber } from "../state/format.ts";
import { useResource } from "../state/resource.ts";
import { address, navigate, setQuery, urlOf } from "../state/router.ts";
import { request } from "../state/session.ts";

interface Page {
  readonly items: readonly Call[];
  readonly next: string | null;
}
interface Running {
  readonly id: string;
  readonly tool: string;
  readonly state: string;
  readonly startedAt: number;
}

const PAGE = 200;
/** Rows that the page keeps: a tail of an hour must not fill the memory. */
const MAX_ROWS = 100_000;
const ROW_HEIGHT = 32;
const REFRESH_MS = 1_500;
/** A call appears when it has ended, below newer ones that ended earlier: now and then, this time in ms is loaded again. */
const OVERLAP_MS = 30_000;
const OVERLAP_EVERY = 4;
/** Pages that are loaded to reach the calls that the list has. */
const MAX_NEW_PAGES = 10;
const STATES = ["succeeded", "failed", "cancelled", "running", "queued"];
const FILTERS = ["tool", "version", "state", "minMs", "text"] as const;

export function Calls({ tenantId }: { readonly tenantId: string | undefined }): JSX.Element {
  const { query } = address.value;
  const filter = Object.fromEntries(FILTERS.map((name) => [name, query[name] === "" ? undefined : query[name]]));
  const path = tenantId === undefined ? "/v1/calls" : `/v1/tenants/${encodeURIComponent(tenantId)}/calls`;
  const key = `${path} ${JSON.stringify(filter)}`;
  const list = useCallList(key, path, filter);
  const running = useResource(
    `running ${tenantId}`,
    async (signal): Promise<readonly Running[]> => {
      if (tenantId === undefined) return [];
      const url = `/v1/tenants/${encodeURIComponent(tenantId)}/running-calls`;
      return (await request<{ readonly items: readonly Running[] }>("GET", url, { signal })).items;
    },
    REFRESH_MS,
  );
  const isFiltered = FILTERS.some((name) => filter[name] !== undefined);
  return (
    <>
      <PageHead title="Calls">
        <span class="faint" role="status">
          {list.isLive ? `${formatNumber(list.rows.length)} loaded, live` : "Loading…"}
        </span>
      </PageHead>
      <Filters query={query} />
      {list.error === undefined ? null : <ErrorBox error={list.error} />}
      {(running.value ?? []).length === 0 || tenantId === undefined ? null : (
        <ul class="running" aria-label="Running calls">
          {running.value?.map(({ id, tool, state, startedAt }) => (
            <li key={id}>
              <Badge tone="info">{state}</Badge> <a href={urlOf(["t", tenantId, "calls", id])}>{tool}</a> since{" "}
              <Time at={startedAt} isAge />
            </li>
          ))}
        </ul>
      )}
      {list.rows.length > 0 ? (
        <CallTable rows={list.rows} hasTenants={tenantId === undefined} onEnd={list.loadMore} />
      ) : list.isLive ? (
        isFiltered ? (
          <Empty title="No call matches these filters">
            <button type="button" class="button plain" onClick={() => navigate(urlOf(address.value.path))}>
              Clear the filters
            </button>
          </Empty>
        ) : (
          <Empty
            title="No calls yet"
            command={`npx glovebox call NAME --input '{}'${tenantId === undefined ? "" : ` --tenant ${tenantId}`}`}
          >
            Each call of a tool appears here as soon as it ends, and as long as it runs.
          </Empty>
        )
      ) : list.error === undefined ? (
        <Loading />
      ) : null}
    </>
  );
}

interface CallList {
  readonly rows: readonly Call[];
  readonly error: unknown;
  readonly isLive: boolean;
  readonly loadMore: () => void;
}

interface ListState {
  readonly key: string;
  readonly rows: readonly Call[];
  readonly next: string | null;
  readonly error: unknown;
  readonly isLive: boolean;
}

const emptyState = (key: string): ListState => ({
  key,
  rows: [],
  next: null,
  error: undefined,
  isLive: false,
});

/** Loads pages of calls, the newest first, and adds new calls at the beginning. */
function useCallList(key: string, path: string, filter: { readonly [name: string]: string | undefined }): CallList {
  const [state, setState] = useState<ListState>(() => emptyState(key));
  const isLoadingMore = useRef(false);
  const current = state.key === key ? state : emptyState(key);
  const latest = useRef(current);
  latest.current = current;
  useEffect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    let round = 0;
    const { signal } = stop;
    const load = (cursor?: string): Promise<Page> =>
      request<Page>("GET", path, { query: { ...filter, limit: PAGE, cursor }, signal });
    const refresh = async (): Promise<void> => {
      if (document.visibilityState === "visible") {
        try {
          round += 1;
          const since = round % OVERLAP_EVERY === 0 ? Date.now() - OVERLAP_MS : Number.POSITIVE_INFINITY;
          const page = await loadUntil(load, latest.current.rows[0]?.id, since);
          if (!signal.aborted) setState((before) => addNewest(before.key === key ? before : emptyState(key), page));
        } catch (error) {
          if (!signal.aborted) setState((before) => ({ ...(before.key === key ? before : emptyState(key)), error }));
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
    const { rows, next } = latest.current;
    const last = rows.at(-1);
    if (isLoadingMore.current || next === null || last === undefined || rows.length >= MAX_ROWS) return;
    isLoadingMore.current = true;
    request<Page>("GET", path, { query: { ...filter, limit: PAGE, cursor: last.id } })
      .then(
        (page) =>
          setState((before) =>
            before.key === key && before.rows.at(-1)?.id === last.id
              ? { ...before, rows: [...before.rows, ...page.items], next: page.next }
              : before,
          ),
        (error: unknown) => setState((before) => ({ ...before, error })),
      )
      .finally(() => {
        isLoadingMore.current = false;
      });
  }, [key]);
  return { rows: current.rows, error: current.error, isLive: current.isLive, loadMore };
}

/** Loads the newest calls, as far back as the one that is known and the time `since`. With more than ten pages of new ones, the list begins anew. */
async function loadUntil(
  load: (cursor?: string) => Promise<Page>,
  knownId: string | undefined,
  since: number,
): Promise<Page> {
  let page = await load();
  for (let pages = 1; pages < MAX_NEW_PAGES && knownId !== undefined; pages += 1) {
    const last = page.items.at(-1);
    if (page.next === null || last === undefined || (last.id <= knownId && last.createdAt <= since)) break;
    const more = await load(last.id);
    page = { items: [...page.items, ...more.items], next: more.next };
  }
  return page;
}

/** Replaces the rows that the newest page has, and keeps those below it, unless calls between them are missing. */
function addNewest(before: ListState, page: Page): ListState {
  const last = page.items.at(-1);
  const live = { ...before, isLive: true, error: undefined };
  if (last === undefined) return { ...live, rows: [], next: null };
  const first = before.rows[0];
  const hasGap = first !== undefined && first.id < last.id && page.next !== null;
  const kept = hasGap ? [] : before.rows.filter(({ id }) => id < last.id);
  const isUnchanged =
    kept.length + page.items.length === before.rows.length &&
    page.items.every((call, index) => isSame(call, before.rows[index]));
  if (isUnchanged && before.isLive) return before.error === undefined ? before : live;
  return {
    ...live,
    rows: [...page.items, ...kept].slice(0, MAX_ROWS),
    next: kept.length === 0 ? page.next : before.next,
  };
}

const isSame = (one: Call, other: Call | undefined): boolean => one.id === other?.id && one.state === other.state;

function Filters({ query }: { readonly query: { readonly [name: string]: string } }): JSX.Element {
  const input = (name: (typeof FILTERS)[number], label: string, type = "search"): JSX.Element => (
    <input
      type={type as "search"}
      aria-label={label}
      placeholder={label}
      value={query[name] ?? ""}
      onChange={(event) => setQuery({ [name]: event.currentTarget.value })}
    />
  );
  return (
    <search class="filters">
      {input("tool", "Tool")}
      {input("version", "Version", "number")}
      <select
        aria-label="Outcome"
        value={query.state ?? ""}
        onChange={(event) => setQuery({ state: event.currentTarget.value })}
      >
        <option value="">Any outcome</option>
        {STATES.map((state) => (
          <option key={state} value={state}>
            {state}
          </option>
        ))}
      </select>
      {input("minMs", "At least … ms", "number")}
      {input("text", "Text in input, output, error or logs")}
    </search>
  );
}

interface CallTableProps {
  readonly rows: readonly Call[];
  readonly hasTenants: boolean;
  readonly onEnd: () => void;
}

function CallTable({ rows, hasTenants, onEnd }: CallTableProps): JSX.Element {
  return (
    <VirtualList
      count={rows.length}
      rowHeight={ROW_HEIGHT}
      label="Calls"
      class={hasTenants ? "calls with-tenants" : "calls"}
      onEnd={onEnd}
      keyOf={(index) => rows[index]?.id ?? ""}
      header={
        <div class="call-row head" role="presentation">
          <span>Outcome</span>
          {hasTenants ? <span>Tenant</span> : null}
          <span>Tool</span>
          <span>Version</span>
          <span>Result</span>
          <span class="number">Duration</span>
          <span>Time</span>
        </div>
      }
      row={(index) => <CallRow call={rows[index] as Call} hasTenants={hasTenants} />}
    />
  );
}

/** The first words of an output or an error. */
function summaryOf({ error, output, omitted }: Call): string {
  if (error !== null) return `${error.code}: ${error.message}`.slice(0, 200);
  if (omitted.includes("output")) return "large output";
  return output === null ? "" : JSON.stringify(output).slice(0, 200);
}

function CallRow({ call, hasTenants }: { readonly call: Call; readonly hasTenants: boolean }): JSX.Element {
  const { id, tenantId, tool, version, state, createdAt, endedAt } = call;
  const summary = summaryOf(call);
  return (
    <a class="call-row" href={urlOf(["t", tenantId, "calls", id])}>
      <span>
        <Badge>{state}</Badge>
      </span>
      {hasTenants ? <span>{tenantId}</span> : null}
      <span class="strong">{tool}</span>
      <span class="faint">{version === null ? "–" : `v${version}`}</span>
      <span class="summary" title={summary}>
        {summary}
      </span>
      <span class="number">{endedAt === null ? "–" : formatMs(endedAt - createdAt)}</span>
      <span class="faint">
        <Time at={createdAt} />
      </span>
    </a>
  );
}
