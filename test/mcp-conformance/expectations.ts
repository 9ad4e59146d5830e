// What of the suite is expected to fail, and why. Nothing that is scored is in here: what a requirement set only runs for show may be.

export type Leg = "server" | "client";

export interface Expectation {
  readonly leg: Leg;
  /** Names of scenarios begin with this. */
  readonly scenarios: string;
  readonly reason: string;
}

export const REVISIONS = ["2025-11-25", "2026-07-28"] as const;
export type Revision = (typeof REVISIONS)[number];

export const EXPECTED_FAILURES: readonly Expectation[] = [
  {
    leg: "server",
    scenarios: "tasks-",
    reason:
      "The extension io.modelcontextprotocol/tasks is not offered: a call is answered by the request that made it",
  },
  ...["auth/client-credentials-", "auth/enterprise-managed-authorization", "auth/dpop", "auth/wif-jwt-bearer"].map(
    (scenarios): Expectation => ({
      leg: "client",
      scenarios,
      reason:
        "An extension of OAuth: what it takes is the host's to bring, as its authProvider; the suite's driver signs in as a person",
    }),
  ),
];
