// The releases of a tool: which versions run, with which share and success, and how to change it.

import type { Release, VersionStats } from "glovebox/client";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Button, Empty, Facts, Time } from "../../parts/controls.tsx";
import { ConfirmButton } from "../../parts/forms/dialog-form.tsx";
import { SelectField, TextField } from "../../parts/forms/fields.tsx";
import { Who } from "../../parts/who.tsx";
import { isAnswer, unchanged } from "../../state/changes.ts";
import { formatCount, formatMs, formatPercent } from "../../state/format.ts";
import type { FormProps } from "../../state/props.ts";
import type { LoadedResource } from "../../state/resource.ts";
import { can, client, request } from "../../state/session.ts";
import { pathOf, type ToolData, type ToolProps } from "./tool-data.ts";

/** Returns the rule by which a release goes back to its previous versions, in words. */
const describeRollback = (rule: Release["rollback"]): string =>
  rule === null
    ? "never"
    : `when over ${formatPercent(rule.errorRate)} of at least ${formatCount(rule.minCalls)} calls failed`;

export function Releases({ data, ...tool }: ToolProps & { readonly data: LoadedResource<ToolData> }): JSX.Element {
  const { versions, releases, stats } = data.value as ToolData;
  const ready = versions.filter(({ state }) => state === "ready").map(({ version }) => String(version));
  return (
    <div class="stack">
      {releases.length === 0 ? (
        <Empty title="Nothing is released">Calls of this tool fail until a version is live.</Empty>
      ) : null}
      {releases.map((release) => (
        <ReleaseCard key={release.alias} {...tool} release={release} stats={stats} reload={data.reload} />
      ))}
      {can("releases:write") && ready.length > 0 ? (
        <ReleaseForm {...tool} ready={ready} releases={releases} onDone={data.reload} />
      ) : null}
    </div>
  );
}

interface ReleaseCardProps extends ToolProps {
  readonly release: Release;
  readonly stats: readonly VersionStats[];
  readonly reload: () => void;
}

function ReleaseCard({ tenantId, name, release, stats, reload }: ReleaseCardProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const total = release.versions.reduce((sum, { weight }) => sum + weight, 0);
  const rollBack = async (): Promise<void> => {
    try {
      await tenant.rollback(name, release.alias, { ifMatch: release.etag });
    } catch (thrown) {
      if (!isAnswer(thrown, "PRECONDITION_FAILED")) throw thrown;
      // A second rollback would go back to what the first one has undone.
      throw new Error(
        `The alias ${release.alias} has been changed since this page was loaded, so nothing was rolled back`,
      );
    } finally {
      reload();
    }
  };
  return (
    <section class="card stack">
      <div class="row spread">
        <h2>{release.alias}</h2>
        {can("releases:write") ? (
          <div class="row">
            <Button onClick={rollBack}>Roll back</Button>
            <ConfirmButton
              label="Delete"
              title={`Delete the alias ${release.alias}?`}
              action="Delete the alias"
              onConfirm={async () => {
                await tenant.deleteRelease(name, release.alias);
                reload();
              }}
            >
              {release.alias === "live"
                ? "Calls of this tool that name no alias fail until a version is live again."
                : "Calls that name this alias fail from now on."}
            </ConfirmButton>
          </div>
        ) : null}
      </div>
      <ul class="weights">
        {release.versions.map(({ version: own, weight }) => {
          const stat = stats.find((each) => each.version === own);
          return (
            <li key={own}>
              <strong>v{own}</strong>
              <span class="share-track">
                <i class="bar execute" style={{ width: `${(weight / total) * 100}%` }} />
              </span>
              <span>{formatPercent(weight / total)}</span>
              <span class="faint">
                {stat === undefined
                  ? "no calls in the last hour"
                  : `${formatCount(stat.calls)} calls in the last hour, ${formatPercent(stat.calls === 0 ? 0 : stat.failed / stat.calls)} failed, median ${formatMs(stat.p50)}`}
              </span>
            </li>
          );
        })}
      </ul>
      <Facts
        facts={[
          ["Changed", <Time key="at" at={release.updatedAt} isAge />],
          ["By", <Who key="by" id={release.changedBy} tenantId={tenantId} />],
          ["Automatic rollback", describeRollback(release.rollback)],
        ]}
      />
    </section>
  );
}

interface ReleaseFormProps extends ToolProps, FormProps {
  /** Versions that can be released, the newest first. */
  readonly ready: readonly string[];
  readonly releases: readonly Release[];
}

function ReleaseForm({ tenantId, name, ready, releases, onDone }: ReleaseFormProps): JSX.Element {
  const tenant = client.tenant(tenantId);
  const [alias, setAlias] = useState("live");
  const [version, setVersion] = useState(ready[0] ?? "");
  const [percent, setPercent] = useState("100");
  const [goesBack, setGoesBack] = useState<"keep" | "never" | "failures">("keep");
  const [failures, setFailures] = useState("20");
  const [minCalls, setMinCalls] = useState("20");
  const share = Number(percent);
  const isRollbackValid =
    goesBack !== "failures" ||
    (/^\d+(?:\.\d+)?$/.test(failures) && Number(failures) <= 100 && /^[1-9]\d{0,5}$/.test(minCalls));
  const isValid =
    isRollbackValid && share > 0 && share <= 100 && version !== "" && /^[a-z][a-z0-9_-]{0,62}$/.test(alias);
  const release = async (): Promise<void> => {
    const shown = releases.find((one) => one.alias === alias);
    // The shares of the other versions are computed from what the page shows: another operator may have released since.
    const { items } = await request<{ items: readonly Release[] }>("GET", `${pathOf({ tenantId, name })}/releases`);
    const condition = unchanged(
      `The alias ${alias}`,
      shown,
      items.find((one) => one.alias === alias),
      ["versions", "rollback"],
    );
    const before = shown?.versions.filter((one) => one.version !== Number(version)) ?? [];
    // Shares are relative: alone, the version would get all calls.
    if (share < 100 && before.length === 0)
      throw new Error(
        `There is no other version that the other calls of ${alias} could stay on: release it with 100 %`,
      );
    const total = before.reduce((sum, { weight }) => sum + weight, 0);
    const others =
      share === 100
        ? []
        : before.map((one) => ({ version: one.version, weight: (one.weight / total) * (100 - share) }));
    const released = [...others, { version: Number(version), weight: share }];
    const policy = { errorRate: Number(failures) / 100, minCalls: Number(minCalls) };
    const rollback = { keep: undefined, never: null, failures: policy }[goesBack];
    await tenant.setRelease(name, alias, released, { ...condition, rollback });
    onDone();
  };
  return (
    <form class="card stack narrow" onSubmit={(event) => event.preventDefault()}>
      <h2>Release a version</h2>
      <TextField
        label="Alias"
        value={alias}
        onInput={setAlias}
        hint="Calls run the alias live unless they name another one."
      />
      <SelectField
        label="Version"
        value={version}
        options={ready.map((one) => [one, `v${one}`] as const)}
        onInput={setVersion}
      />
      <TextField
        label="Share of the calls in %"
        value={percent}
        onInput={setPercent}
        hint="Less than 100 makes a canary: the other calls stay on the current versions."
      />
      <SelectField
        label="Automatic rollback"
        value={goesBack}
        options={[
          ["keep", "unchanged"],
          ["never", "never"],
          ["failures", "when too many calls fail"],
        ]}
        onInput={(value) => setGoesBack(value as typeof goesBack)}
      />
      {goesBack === "failures" ? (
        <>
          <TextField label="Failed calls at most, in %" value={failures} onInput={setFailures} />
          <TextField
            label="Calls before the rate counts"
            value={minCalls}
            onInput={setMinCalls}
            hint="Calls of one version, from its release on."
          />
        </>
      ) : null}
      <Button kind="primary" type="submit" disabled={!isValid} onClick={release}>
        Release
      </Button>
    </form>
  );
}
