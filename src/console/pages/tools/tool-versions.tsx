// The versions of a tool, and the differences between two of them in code, definition and permissions.

import type { ToolVersion } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Badge, Button, Empty, ErrorBox, Loading, Time } from "../../parts/controls.tsx";
import { ConfirmButton } from "../../parts/forms/dialog-form.tsx";
import { VersionDecision } from "../../parts/forms/version-decision.tsx";
import { Table } from "../../parts/table.tsx";
import { DiffView } from "../../parts/values/diff-view.tsx";
import { MAX_ITEMS } from "../../state/collect.ts";
import { formatCount, formatJson, formatPercent } from "../../state/format.ts";
import { useResource } from "../../state/resource.ts";
import { urlOf } from "../../state/router.ts";
import { can, client } from "../../state/session.ts";
import { loadSource, pathOf, type ToolData, type ToolProps } from "./tool-data.ts";

export function Versions({
  tenantId,
  name,
  data,
  reload,
}: ToolProps & { readonly data: ToolData; readonly reload: () => void }): JSX.Element {
  const { versions, releases, stats } = data;
  const [pair, setPair] = useState<readonly [number, number]>();
  const weightOf = (version: number): string => {
    const found = releases.flatMap(({ alias, versions: released }) => {
      const total = released.reduce((sum, { weight }) => sum + weight, 0);
      const own = released.find((one) => one.version === version);
      return own === undefined ? [] : [`${alias} ${formatPercent(own.weight / total)}`];
    });
    return found.join(", ");
  };
  return (
    <div class="stack">
      <Table<ToolVersion>
        caption="Versions"
        items={versions}
        keyOf={({ version }) => String(version)}
        empty={<Empty title="No versions" />}
        columns={[
          { name: "Version", cell: ({ version }) => `v${version}` },
          { name: "State", cell: ({ state }) => <Badge>{state}</Badge> },
          { name: "Runs as", cell: ({ version }) => weightOf(version) || "–" },
          {
            name: "Calls",
            isNumber: true,
            cell: ({ version }) => {
              const own = stats.find((one) => one.version === version);
              return own === undefined
                ? "–"
                : `${formatCount(own.calls)}, ${formatPercent(own.calls === 0 ? 0 : own.failed / own.calls)} failed`;
            },
          },
          { name: "Capabilities", cell: ({ grant }) => (grant.length === 0 ? "none" : grant.join(", ")) },
          {
            name: "Uploaded",
            cell: ({ createdAt, createdBy }) => (
              <span title={createdBy}>
                <Time at={createdAt} isAge />
              </span>
            ),
          },
          {
            name: "Actions",
            cell: ({ version, state }) => (
              <Actions
                tenantId={tenantId}
                name={name}
                version={version}
                state={state}
                before={versions.find((one) => one.version < version)?.version}
                isDeletable={version !== versions[0]?.version && weightOf(version) === ""}
                onCompare={(before) => setPair([before, version])}
                reload={reload}
              />
            ),
          },
        ]}
      />
      {versions.length < MAX_ITEMS ? null : (
        <p class="faint">The newest {MAX_ITEMS} versions are shown. The API lists all of them.</p>
      )}
      {pair === undefined ? null : <Comparison tenantId={tenantId} name={name} pair={pair} versions={versions} />}
    </div>
  );
}

interface ActionsProps extends ToolProps, Pick<ToolVersion, "version" | "state"> {
  /** The version before it; undefined for the oldest one. */
  readonly before: number | undefined;
  /** Whether no alias runs it, and it is not the latest one. */
  readonly isDeletable: boolean;
  readonly onCompare: (before: number) => void;
  readonly reload: () => void;
}

function Actions(props: ActionsProps): JSX.Element {
  const { tenantId, name, version, state, before, isDeletable, onCompare, reload } = props;
  return (
    <div class="row">
      {state === "waiting_for_approval" && can("tools:approve") ? (
        <VersionDecision path={`${pathOf({ tenantId, name })}/versions/${version}`} onDecided={reload} />
      ) : null}
      {before === undefined ? null : (
        <Button kind="plain" onClick={() => onCompare(before)}>
          Compare with v{before}
        </Button>
      )}
      {state === "ready" && can("calls:replay") ? (
        <a
          class="button plain"
          href={urlOf(["t", tenantId, "tools", name], { tab: "rehearse", version: String(version) })}
        >
          Rehearse
        </a>
      ) : null}
      {isDeletable && can("tools:deploy") ? (
        <ConfirmButton
          label="Delete"
          title={`Delete version ${version}?`}
          action="Delete the version"
          onConfirm={async () => {
            await client.tenant(tenantId).deleteVersion(name, version);
            reload();
          }}
        >
          Its code is removed, and no alias can go back to it. Its calls stay in the list.
        </ConfirmButton>
      ) : null}
    </div>
  );
}

interface ComparisonProps extends ToolProps {
  readonly pair: readonly [number, number];
  readonly versions: readonly ToolVersion[];
}

function Comparison({ tenantId, name, pair, versions }: ComparisonProps): JSX.Element {
  const [from, to] = pair;
  const { value, error } = useResource(
    `diff ${tenantId} ${name} ${from} ${to}`,
    async () => [await loadSource({ tenantId, name }, from), await loadSource({ tenantId, name }, to)] as const,
  );
  if (error !== undefined) return <ErrorBox error={error} />;
  if (value === undefined) return <Loading />;
  const [before, after] = value;
  const definitionOf = (version: number): string => {
    const found = versions.find((one) => one.version === version);
    const { definition, grant, limits, isolateLifetime } = found ?? {};
    return formatJson({ definition, grant, limits, isolateLifetime });
  };
  const paths = [...new Set([...Object.keys(before.files), ...Object.keys(after.files)])].toSorted();
  return (
    <section class="stack">
      <h2>
        v{from} → v{to}
      </h2>
      <DiffView name="Definition and permissions" before={definitionOf(from)} after={definitionOf(to)} />
      {paths.map((path) => (
        <DiffView key={path} name={path} before={before.files[path] ?? ""} after={after.files[path] ?? ""} />
      ))}
    </section>
  );
}
