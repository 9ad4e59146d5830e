// Marks the processes of a fleet that run an older version than others.
import type { JSX } from "preact";
import { formatNumber } from "../state/format.ts";
import type { VersionSpread } from "../state/versions.ts";
import { Badge } from "./controls.tsx";

interface SpreadProps {
  readonly spread: VersionSpread;
}

/** Says that some processes run an older version than others. */
export function UpgradeNote({ spread: { newest, total, older } }: SpreadProps): JSX.Element | null {
  if (older === 0) return null;
  return (
    <p class="card row">
      <Badge tone="warn">rolling upgrade</Badge>
      <span>
        {formatNumber(total - older)} of {formatNumber(total)} processes run version {newest}; {formatNumber(older)}{" "}
        {older === 1 ? "runs an older one" : "run older ones"}.
      </span>
    </p>
  );
}

export function Version({ version, spread }: SpreadProps & { readonly version: string }): JSX.Element {
  return (
    <span class="one-line">
      {version}
      {spread.older > 0 && version !== spread.newest ? <Badge tone="warn">older</Badge> : null}
    </span>
  );
}
