// Lists the scenarios that are expected to fail, with reasons. No scored scenario is among them.

export type Leg = "server" | "client";

export interface Expectation {
  readonly leg: Leg;
  /** Prefix of the scenarios' names. */
  readonly scenarios: string;
  readonly reason: string;
}

export const REVISIONS = ["2025-11-25", "2026-07-28"] as const;
export type Revision = (typeof REVISIONS)[number];

export const EXPECTED_FAILURES: readonly Expectation[] = [
  ...["auth/client-credentials-", "auth/enterprise-managed-authorization", "auth/dpop", "auth/wif-jwt-bearer"].map(
    (scenarios): Expectation => ({
      leg: "client",
      scenarios,
      reason:
        "An extension of OAuth that the host's authProvider would have to implement; the suite's driver signs in as a user",
    }),
  ),
];
