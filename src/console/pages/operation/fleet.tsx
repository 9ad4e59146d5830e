// The machines that run calls: pools with their load, executors, and the replicas of the server. Executors are drained here.

import type { Fleet } from "glovebox/client";
import type { JSX } from "preact";
import { Badge, Empty, ErrorBox, Loading, PageHead, Time } from "../../parts/controls.tsx";
import { FleetHelp } from "../../parts/fleet-help.tsx";
import { LoadBar } from "../../parts/load-bar.tsx";
import { Table } from "../../parts/table.tsx";
import { UpgradeNote, Version } from "../../parts/version-spread.tsx";
import { formatCount, formatMs, formatNumber } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { urlOf } from "../../state/router.ts";
import { client } from "../../state/session.ts";
import { spreadOf, type VersionSpread } from "../../state/versions.ts";
import { type ExecutorState, Executors, isConnected, STATE_TONES } from "./fleet-executors.tsx";

const REFRESH_MS = 2_000;

export function FleetPage(): JSX.Element {
  const { value, error, reload } = useResource("fleet", () => client.fleet(), REFRESH_MS);
  return (
    <>
      <PageHead title="Fleet" />
      {error === undefined ? null : <ErrorBox error={error} onRetry={reload} />}
      {value !== undefined ? <Parts fleet={value} reload={reload} /> : error === undefined ? <Loading /> : null}
    </>
  );
}

interface FleetProps {
  readonly fleet: Fleet;
  readonly spread: VersionSpread;
}

interface PartsProps {
  readonly fleet: Fleet;
  readonly reload: () => void;
}

function Parts({ fleet, reload }: PartsProps): JSX.Element {
  const { executors, pools, replicas, usesExecutors } = fleet;
  const connected = executors.filter(isConnected);
  const liveReplicas = replicas.filter(({ state }) => state === "live");
  const spread = spreadOf([...connected, ...liveReplicas].map(({ version }) => version));
  return (
    <>
      {executors.length > 0 ? <Figures fleet={fleet} spread={spread} /> : null}
      <UpgradeNote spread={spread} />
      {executors.length === 0 && pools.length === 0 ? <FleetHelp usesExecutors={usesExecutors} /> : null}
      {pools.length > 0 ? <Pools pools={pools} hasPeers={replicas.length > 1} /> : null}
      {executors.length > 0 ? <Executors fleet={fleet} spread={spread} reload={reload} /> : null}
      {executors.length === 0 && pools.length > 0 ? <FleetHelp usesExecutors={usesExecutors} /> : null}
      <Replicas fleet={fleet} spread={spread} />
    </>
  );
}

function Figures({ fleet: { executors, pools, replicas }, spread }: FleetProps): JSX.Element {
  const count = (state: ExecutorState): number => executors.filter((one) => one.state === state).length;
  const sum = (name: "busy" | "slots" | "queued"): number => pools.reduce((total, pool) => total + pool[name], 0);
  const lost = count("silent") + count("rejected");
  const oldestMs = Math.max(0, ...pools.map((pool) => pool.oldestMs));
  const tiles: readonly (readonly [name: string, value: string, isBad?: boolean])[] = [
    ["Executors", formatNumber(count("live"))],
    ["Draining", formatNumber(count("draining"))],
    ["Lost", formatNumber(lost), lost > 0],
    ["Busy slots", `${formatCount(sum("busy"))} of ${formatCount(sum("slots"))}`],
    ["Waiting calls", formatCount(sum("queued"))],
    ["Longest wait", formatMs(oldestMs)],
    ["Servers", formatNumber(replicas.filter(({ state }) => state === "live").length)],
    ["Version", spread.newest ?? "–"],
  ];
  return (
    <ul class="tiles">
      {tiles.map(([name, value, isBad]) => (
        <li key={name} class={isBad === true ? "bad" : ""}>
          <span>{name}</span>
          <strong>{value}</strong>
        </li>
      ))}
    </ul>
  );
}

interface PoolsProps {
  readonly pools: Fleet["pools"];
  /** Whether the server has several processes. Each has a queue of its own for synchronous calls. */
  readonly hasPeers: boolean;
}

function Pools({ pools, hasPeers }: PoolsProps): JSX.Element {
  return (
    <>
      <h2>Pools</h2>
      <Table
        caption="Pools"
        items={pools}
        keyOf={({ pool }) => pool}
        empty={<Empty title="No pools" />}
        columns={[
          { name: "Pool", cell: ({ pool }) => <a href={urlOf(["fleet"], { pool })}>{pool}</a> },
          {
            name: "Load",
            cell: ({ busy, slots, executors }) =>
              executors === 0 ? (
                <span class="bad-text">no executor accepts calls</span>
              ) : (
                <LoadBar busy={busy} slots={slots} />
              ),
          },
          { name: "Executors", isNumber: true, cell: ({ executors }) => formatNumber(executors) },
          { name: "Draining", isNumber: true, cell: ({ draining }) => formatNumber(draining) },
          { name: "Waiting calls", isNumber: true, cell: ({ queued }) => formatCount(queued) },
          {
            name: "Longest wait",
            isNumber: true,
            cell: ({ queued, oldestMs }) => (queued === 0 ? "–" : formatMs(oldestMs)),
          },
        ]}
      />
      {hasPeers ? (
        <p class="faint">
          Waiting asynchronous calls are those of all server processes. Other waiting calls are those of the process
          that answers this page.
        </p>
      ) : null}
    </>
  );
}

function Replicas({ fleet: { replicas, replicaId, at }, spread }: FleetProps): JSX.Element {
  return (
    <>
      <h2>Server processes</h2>
      <Table
        caption="Server processes"
        items={replicas}
        keyOf={({ id }) => id}
        empty={<Empty title="No server process" />}
        columns={[
          {
            name: "Process",
            cell: ({ id }) => (
              <span class="one-line">
                <code>{id}</code>
                {id === replicaId ? <span class="faint">answers this page</span> : null}
              </span>
            ),
          },
          { name: "State", cell: ({ state }) => <Badge tone={STATE_TONES[state]}>{state}</Badge> },
          { name: "Version", cell: ({ version }) => <Version version={version} spread={spread} /> },
          { name: "Started", cell: ({ startedAt }) => <Time at={startedAt} isAge now={at} /> },
          { name: "Last seen", cell: ({ seenAt }) => <Time at={seenAt} isAge now={at} /> },
        ]}
      />
    </>
  );
}
