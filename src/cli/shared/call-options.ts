// Reads the options that run, dev and mcp share: the tenant, the input, the limits, and the grants of a call.

import type { TenancyMode } from "../../host/tenants/tenancy.ts";
import type { PartialLimits } from "../../sandbox/contract/limits.ts";
import { type EgressRequest, readEgress } from "../commands/egress.ts";
import { type Arguments, UsageError } from "../usage.ts";
import type { InputChoice } from "./input.ts";

export interface CallFlags {
  readonly input: InputChoice;
  readonly tenant: TenantChoice;
  readonly limits: PartialLimits;
  readonly egress: EgressRequest;
  /** Names of the granted capabilities and engine features. */
  readonly grant: readonly string[];
  readonly logSourceLocations: boolean;
}

/** The tenant that `--tenant ID` selects; the Glovebox then has `tenancy: "multi"`. Without the option, it has a single tenant. */
export interface TenantChoice {
  /** Options for `createGlovebox`. */
  readonly host: { readonly tenancy: TenancyMode };
  /** Tenant scope for methods and calls. */
  readonly scope: { readonly tenantId?: string };
}

const chooseTenant = (tenantId: string | undefined): TenantChoice =>
  tenantId === undefined
    ? { host: { tenancy: "single" }, scope: {} }
    : { host: { tenancy: "multi" }, scope: { tenantId } };

/**
 * @param timeoutMs default of `--timeout-ms`. @default the default of the library
 * @throws {UsageError} for several inputs, an invalid host, or a secret whose environment variable is missing
 */
export function readCallOptions({ values, stdin }: Arguments, env: NodeJS.ProcessEnv, timeoutMs?: number): CallFlags {
  const text = (name: string): string | undefined => values[name] as string | undefined;
  const number = (name: string): number | undefined => (values[name] === undefined ? undefined : Number(values[name]));
  const input = { json: text("input"), file: text("input-file"), stdin };
  const sources = [input.json !== undefined, input.file !== undefined, stdin].filter(Boolean).length;
  if (sources > 1) throw new UsageError("Expected one of --input, --input-file and -, got several");
  const egress = readEgress(values, env);
  return {
    input,
    tenant: chooseTenant(text("tenant")),
    limits: { timeoutMs: number("timeout-ms") ?? timeoutMs, cpuMs: number("cpu-ms"), memoryMiB: number("memory-mib") },
    egress,
    grant: [...egress.grant, ...((values.grant as readonly string[] | undefined) ?? [])],
    logSourceLocations: values["log-source-locations"] === true,
  };
}
