// The options that run, dev and mcp share: whose call it is, its input, its limits, and what the tool is granted.

import type { TenancyMode } from "../../host/tenants/tenancy.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { type EgressRequest, readEgress } from "../commands/egress.ts";
import { type Arguments, UsageError } from "../usage.ts";
import type { InputChoice } from "./input.ts";

export interface CallOptions {
  readonly input: InputChoice;
  readonly tenant: TenantChoice;
  readonly limits: PartialLimits;
  readonly egress: EgressRequest;
  /** Names of what the tool is granted. */
  readonly grant: readonly string[];
  readonly logPlaces: boolean;
}

/** What `--tenant ID` means: the Glovebox serves several tenants, and this one is served. Without it there is one tenant. */
export interface TenantChoice {
  /** For `createGlovebox`. */
  readonly host: { readonly tenancy: TenancyMode };
  /** For every method and call. */
  readonly scope: { readonly tenantId?: string };
}

const chooseTenant = (tenantId: string | undefined): TenantChoice =>
  tenantId === undefined
    ? { host: { tenancy: "single" }, scope: {} }
    : { host: { tenancy: "multi" }, scope: { tenantId } };

/** @throws {UsageError} for several inputs, an invalid host, a secret without its variable */
export function readCallOptions({ values, stdin }: Arguments, env: NodeJS.ProcessEnv): CallOptions {
  const text = (name: string): string | undefined => values[name] as string | undefined;
  const number = (name: string): number | undefined => (values[name] === undefined ? undefined : Number(values[name]));
  const input = { json: text("input"), file: text("input-file"), stdin };
  const sources = [input.json !== undefined, input.file !== undefined, stdin].filter(Boolean).length;
  if (sources > 1) throw new UsageError("Expected one of --input, --input-file and -, got several");
  const egress = readEgress(values, env);
  return {
    input,
    tenant: chooseTenant(text("tenant")),
    limits: { timeoutMs: number("timeout-ms"), cpuMs: number("cpu-ms"), memoryMiB: number("memory-mib") },
    egress,
    grant: [...egress.grant, ...((values.grant as readonly string[] | undefined) ?? [])],
    logPlaces: values["log-places"] === true,
  };
}
