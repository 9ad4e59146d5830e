// Decides about a version that waits for approval, because it requests more than the live one.

import type { JSX } from "preact";
import { request } from "../../state/session.ts";
import { Button } from "../controls.tsx";

interface VersionDecisionProps {
  /** Path of the version in the API. */
  readonly path: string;
  readonly onDecided: () => void;
}

/** Two buttons, which stand in a row with others. */
export function VersionDecision({ path, onDecided }: VersionDecisionProps): JSX.Element {
  const decide = async (decision: "approve" | "deny"): Promise<void> => {
    await request("POST", `${path}/${decision}`);
    onDecided();
  };
  return (
    <>
      <Button kind="primary" onClick={() => decide("approve")}>
        Approve
      </Button>
      <Button kind="danger" onClick={() => decide("deny")}>
        Deny
      </Button>
    </>
  );
}
