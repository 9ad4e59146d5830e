// The executors of the fleet page: filters that live in the URL, the load of each, and the button that drains one.

import type { Executor, Fleet } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Empty, Time } from "../../parts/controls.tsx";
import { ConfirmButton } from "../../parts/forms/dialog-form.tsx";
import { LoadBar } from "../../parts/load-bar.tsx";
import { Table } from "../../parts/table.tsx";
import { Version } from "../../parts/version-spread.tsx";
import { formatCount, formatNumber } from "../../state/format.ts";
import { address, setQuery, urlOf } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";
import type { VersionSpread } from "../../state/versions.ts";

/** Rows of the table. Others are found by the filters. */
const MAX_ROWS = 500;

export type ExecutorState = Executor["state"];
/** What needs attention comes first. */
const ORDER: readonly ExecutorState[] = ["silent", "rejected", "draining", "live"];
export const STATE_TONES: { readonly [state in ExecutorState]: string } = {
  live: "good",
  draining: "info",
  silent: "bad",
  rejected: "bad",
};
const MEANINGS: { readonly [state in ExecutorState]: string } = {
  live: "It accepts calls",
  draining: "It finishes its calls, and ends",
  silent: "It has ended, is frozen, or cannot reach NATS",
  rejected: "It has violated the protocol, and gets no calls for a minute",
};

export const isConnected = ({ state }: Executor): boolean => state === "live" || state === "draining";

interface ExecutorsProps {
  readonly fleet: Fleet;
  readonly reload: () => void;
  readonly spread: VersionSpread;
}

/** An executor that this page has drained. Another process may have its id later. */
interface Drained {
  readonly id: string;
  readonly startedAt: number;
}

export function Executors({ fleet: { executors, at }, spread, reload }: ExecutorsProps): JSX.Element {
  const { pool = "", state = "", find = "" } = address.value.query;
  const [drained, setDrained] = useState<readonly Drained[]>([]);
  const matches = executors
    .filter((one) => (pool === "" || one.pool === pool) && (state === "" || one.state === state))
    .filter(({ id, version }) => `${id} ${version}`.toLowerCase().includes(find.toLowerCase()))
    .toSorted((one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state));
  const ended = drained.filter(
    (one) => !executors.some(({ id, startedAt }) => id === one.id && startedAt === one.startedAt),
  );
  const drain = async ({ id, startedAt }: Executor): Promise<void> => {
    await client.drainExecutor(id);
    setDrained((before) => [...before.filter((one) => one.id !== id), { id, startedAt }]);
    reload();
  };
  return (
    <>
      <h2>Executors</h2>
      <Filters pools={[...new Set(executors.map((one) => one.pool))]} pool={pool} state={state} find={find} />
      <p class="faint" role="status">
        {ended.length === 0 ? null : `Drained and ended: ${ended.map(({ id }) => id).join(", ")}. `}
        {can("fleet:write") ? null : "Draining needs a key with the scope fleet:write. "}
        {matches.length > MAX_ROWS ? `The first ${MAX_ROWS} of ${formatNumber(matches.length)} are shown.` : null}
      </p>
      <Table
        caption="Executors"
        items={matches.slice(0, MAX_ROWS)}
        keyOf={({ id }) => id}
        empty={
          <Empty title="No executor matches these filters">
            <a class="button plain" href={urlOf(["fleet"])}>
              Show all
            </a>
          </Empty>
        }
        columns={[
          { name: "Executor", cell: ({ id }) => <code>{id}</code> },
          { name: "Pool", cell: (one) => one.pool },
          {
            name: "State",
            cell: (one) => (
              <span title={MEANINGS[one.state]}>
                <Badge tone={STATE_TONES[one.state]}>{one.state}</Badge>
              </span>
            ),
          },
          { name: "Version", cell: ({ version }) => <Version version={version} spread={spread} /> },
          { name: "Languages", cell: ({ languages }) => languages.join(", ") },
          {
            name: "Load",
            cell: (one) =>
              isConnected(one) ? (
                <LoadBar busy={one.busy} slots={one.slots} />
              ) : (
                <span class="faint">{MEANINGS[one.state]}</span>
              ),
          },
          { name: "Bundles", isNumber: true, cell: ({ bundles }) => formatCount(bundles) },
          { name: "Started", cell: ({ startedAt }) => <Time at={startedAt} isAge now={at} /> },
          { name: "Last seen", cell: ({ seenAt }) => <Time at={seenAt} isAge now={at} /> },
          {
            name: "Actions",
            cell: (one) =>
              one.state === "live" && can("fleet:write") ? (
                <ConfirmButton
                  label="Drain"
                  title={`Drain the executor ${one.id}?`}
                  action="Drain the executor"
                  onConfirm={() => drain(one)}
                >
                  It accepts no more calls, finishes the {formatNumber(one.busy)} that it runs, and ends. If a
                  supervisor starts its process again, it comes back with an empty queue.
                </ConfirmButton>
              ) : null,
          },
        ]}
      />
    </>
  );
}

interface FiltersProps {
  readonly pools: readonly string[];
  readonly pool: string;
  readonly state: string;
  readonly find: string;
}

function Filters({ pools, pool, state, find }: FiltersProps): JSX.Element {
  return (
    <search class="filters">
      <input
        type="search"
        aria-label="Find in Executors"
        placeholder="Id or version"
        value={find}
        onInput={(event) => setQuery({ find: event.currentTarget.value })}
      />
      <select aria-label="Pool" value={pool} onChange={(event) => setQuery({ pool: event.currentTarget.value })}>
        <option value="">All pools</option>
        {[...new Set([...pools, ...(pool === "" ? [] : [pool])])].toSorted().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
      <select aria-label="State" value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
        <option value="">All states</option>
        {ORDER.toReversed().map((name) => (
          <option key={name} value={name}>
            {name}
          </option>
        ))}
      </select>
    </search>
  );
}
