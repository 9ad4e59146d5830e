// The calls that a call has made, and those that they made in turn: each is a call of its own with a page of its own.

import type { TreeCall } from "glovebox/client";
import type { JSX } from "preact";
import { Badge, ErrorBox, Loading, Time } from "../../parts/controls.tsx";
import { VirtualList } from "../../parts/virtual-list.tsx";
import { formatCount, formatMs } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { urlOf } from "../../state/router.ts";
import { client } from "../../state/session.ts";

const REFRESH_MS = 1_000;
const ROW_HEIGHT = 32;
const INDENT = 16;
/** Deeper calls are not indented further: the name must fit. */
const MAX_INDENTED = 8;

interface CallTreeProps {
  readonly tenantId: string;
  readonly id: string;
  readonly isOver: boolean;
}

export function CallTree({ tenantId, id, isOver }: CallTreeProps): JSX.Element {
  const { value, error, reload } = useResource(
    `tree ${id} ${isOver}`,
    () => client.tenant(tenantId).callTree(id),
    isOver ? undefined : REFRESH_MS,
  );
  if (value === undefined) return error === undefined ? <Loading /> : <ErrorBox error={error} onRetry={reload} />;
  if (value.length <= 1) {
    return (
      <p class="faint">
        {isOver ? "The call made no calls of other tools." : "The call has not called another tool yet."}
      </p>
    );
  }
  return (
    <VirtualList
      count={value.length}
      rowHeight={ROW_HEIGHT}
      label="Nested calls"
      class="call-tree"
      isShrinking
      hasHeader
      header={
        <div class="tree-row head" role="presentation">
          <span>Tool</span>
          <span>
            <span class="wide">Outcome</span>
          </span>
          <span class="wide">Version</span>
          <span class="number">Duration</span>
          <span class="number wide">CPU time</span>
          <span class="number wide">Log lines</span>
          <span class="wide">Time</span>
        </div>
      }
      keyOf={(index) => value[index]?.id ?? ""}
      row={(index) => <TreeRow tenantId={tenantId} call={value[index] as TreeCall} isSelf={index === 0} />}
    />
  );
}

interface TreeRowProps {
  readonly tenantId: string;
  readonly call: TreeCall;
  readonly isSelf: boolean;
}

function TreeRow({ tenantId, call, isSelf }: TreeRowProps): JSX.Element {
  const { id, depth, tool, version, state, code, durationMs, cpuMs, logs, createdAt } = call;
  return (
    <div class="tree-row">
      <span class="strong" style={{ paddingLeft: `${Math.min(depth, MAX_INDENTED) * INDENT}px` }}>
        {depth > 0 ? (
          <span class="faint" aria-hidden="true">
            └{" "}
          </span>
        ) : null}
        {depth > 0 ? <span class="hidden">{`level ${depth}: `}</span> : null}
        {isSelf ? tool : <a href={urlOf(["t", tenantId, "calls", id])}>{tool}</a>}
      </span>
      <span title={code ?? undefined}>
        {state === "waiting_for_approval" ? <Badge tone="warn">waiting</Badge> : <Badge>{state}</Badge>}
      </span>
      <span class="faint wide">{version === null ? "–" : `v${version}`}</span>
      <span class="number">{formatMs(durationMs)}</span>
      <span class="number wide">{formatMs(cpuMs)}</span>
      <span class="number wide">{formatCount(logs)}</span>
      <span class="faint wide">
        <Time at={createdAt} />
      </span>
    </div>
  );
}
