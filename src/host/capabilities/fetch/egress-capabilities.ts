// Creates the capabilities fetch and secrets, which share one set of secrets for each call.
import type { Capability, CapabilityContext } from "../capability.ts";
import type { EgressPolicy, SecretPolicies } from "./egress-policy.ts";
import { createFetchCapability } from "./fetch.ts";
import { CallSecrets, createSecretsCapability } from "./secrets.ts";

/** The egress policy and secrets of a call's tenant. */
export interface EgressOfTenant {
  readonly egress: EgressPolicy;
  readonly secrets: SecretPolicies;
}

/** @param ofCall returns the policy for a call; called at most once for each capability and call */
export function createEgress(ofCall: (context: CapabilityContext) => EgressOfTenant): readonly Capability[] {
  const open = (context: CapabilityContext): CallSecrets => {
    return new CallSecrets(ofCall(context).secrets, context);
  };
  const secretsOf = (context: CapabilityContext): CallSecrets => context.perCall(open);
  return [
    createFetchCapability({ policyOf: (context) => ofCall(context).egress, secretsOf }),
    createSecretsCapability(secretsOf),
  ];
}
