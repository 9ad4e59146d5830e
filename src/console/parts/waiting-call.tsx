// Says why a call does not run yet, and where a person decides about it.
import type { JSX } from "preact";
import { urlOf } from "../state/router.ts";

export const WaitingCall = ({ tenantId }: { readonly tenantId: string }): JSX.Element => (
  <p class="card" role="status">
    This call has not run: it waits until someone approves or denies it.{" "}
    <a href={urlOf(["t", tenantId, "approvals"])}>Go to the approvals</a>
  </p>
);
