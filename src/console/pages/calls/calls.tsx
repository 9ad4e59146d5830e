// The calls of a tenant, or of all tenants: a live list with filters that the URL holds.

import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Badge, Button, Empty, ErrorBox, Loading, PageHead, Time } from "../../parts/controls.tsx";
import { FilterField } from "../../parts/forms/fields.tsx";
import { VirtualList } from "../../parts/virtual-list.tsx";
import { type CallList, type ListedCall, timeOfId, useCallList } from "../../state/call-list.ts";
import { formatMs, formatNumber } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { address, navigate, setQuery, urlOf } from "../../state/router.ts";
import { request } from "../../state/session.ts";

interface Running {
  readonly id: string;
  readonly tool: string;
  readonly state: string;
  readonly startedAt: number;
}

const ROW_HEIGHT = 32;
const REFRESH_MS = 1_500;
const STATES = ["succeeded", "failed", "cancelled", "running", "queued", "waiting_for_approval"];
const FILTERS = ["tool", "version", "state", "nested", "minMs", "text"] as const;

export function CallsPage({ tenantId }: { readonly tenantId: string | undefined }): JSX.Element {
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
          {list.isLive ? `${formatNumber(list.rows.length)} loaded, live` : list.error === undefined ? "Loading…" : ""}
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
      ) : (
        <NoCalls list={list} isFiltered={isFiltered} tenantId={tenantId} />
      )}
      {isFiltered ? <Search list={list} /> : null}
    </>
  );
}

interface NoCallsProps {
  readonly list: CallList;
  readonly isFiltered: boolean;
  readonly tenantId: string | undefined;
}

/** What the page shows in place of an empty list. */
function NoCalls({ list, isFiltered, tenantId }: NoCallsProps): JSX.Element | null {
  if (!list.isLive) return list.error === undefined ? <Loading /> : null;
  // The search goes on.
  if (list.searchedTo !== null) return null;
  if (isFiltered) {
    return (
      <Empty title="No call matches these filters">
        <button type="button" class="button plain" onClick={() => navigate(urlOf(address.value.path))}>
          Clear the filters
        </button>
      </Empty>
    );
  }
  const tenant = tenantId === undefined ? "" : ` --tenant ${tenantId}`;
  return (
    <Empty title="No calls yet" command={`npx glovebox call NAME --input '{}'${tenant}`}>
      Each call of a tool appears here as soon as it ends, and as long as it runs.
    </Empty>
  );
}

/** Rows that fill the page. With fewer, the search goes on by itself. */
const FULL_PAGE = 50;

/** Says how far back a filtered list was searched, and goes on with the search while the page has room. */
function Search({ list }: { readonly list: CallList }): JSX.Element | null {
  const { rows, isLive, isPaused, searchedTo, loadMore, searchOn } = list;
  const isSearching = isLive && !isPaused && searchedTo !== null && rows.length < FULL_PAGE;
  useEffect(() => {
    if (isSearching) loadMore();
  }, [isSearching, searchedTo, rows.length, loadMore]);
  if (searchedTo === null || !(isSearching || isPaused)) return null;
  return (
    <div class="row">
      <span role="status">
        {isPaused ? "Searched" : "Searching"} back to <Time at={timeOfId(searchedTo)} />
        {rows.length === 0 ? ": no call matches so far" : ""}
      </span>
      {isPaused ? <Button onClick={searchOn}>Search further back</Button> : null}
    </div>
  );
}

function Filters({ query }: { readonly query: { readonly [name: string]: string } }): JSX.Element {
  const input = (name: (typeof FILTERS)[number], label: string, type?: "number"): JSX.Element => (
    <FilterField
      label={label}
      value={query[name] ?? ""}
      onFilter={(value) => setQuery({ [name]: value })}
      {...(type && { type })}
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
            {state.replaceAll("_", " ")}
          </option>
        ))}
      </select>
      <select
        aria-label="Nested calls"
        value={query.nested ?? ""}
        onChange={(event) => setQuery({ nested: event.currentTarget.value })}
      >
        <option value="">Calls of clients</option>
        <option value="true">With nested calls</option>
      </select>
      {input("minMs", "At least … ms", "number")}
      {input("text", "Text in input, output, error or logs")}
    </search>
  );
}

interface CallTableProps {
  readonly rows: readonly ListedCall[];
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
          <span>
            <span class="wide">Outcome</span>
          </span>
          {hasTenants ? <span>Tenant</span> : null}
          <span>Tool</span>
          <span class="wide">Version</span>
          <span class="wide">Result</span>
          <span class="number">Duration</span>
          <span>Time</span>
        </div>
      }
      row={(index) => <Row call={rows[index] as ListedCall} hasTenants={hasTenants} />}
    />
  );
}

function Row({ call, hasTenants }: { readonly call: ListedCall; readonly hasTenants: boolean }): JSX.Element {
  const { id, tenantId, tool, version, state, createdAt, endedAt, summary, isFailed } = call;
  return (
    <a class="call-row" href={urlOf(["t", tenantId, "calls", id])}>
      <span title={state.replaceAll("_", " ")}>
        {state === "waiting_for_approval" ? <Badge tone="warn">waiting</Badge> : <Badge>{state}</Badge>}
      </span>
      {hasTenants ? <span>{tenantId}</span> : null}
      <span class="strong">{tool}</span>
      <span class="faint wide">{version === null ? "–" : `v${version}`}</span>
      <span class={isFailed ? "summary bad-text" : "summary"} title={summary}>
        {summary}
      </span>
      <span class="number">{endedAt === null ? "–" : formatMs(endedAt - createdAt)}</span>
      <span class="faint">
        <Time at={createdAt} />
      </span>
    </a>
  );
}
