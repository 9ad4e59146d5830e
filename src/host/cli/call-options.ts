// The options that run, dev and mcp share: whose call it is, its input, its limits, and what the tool is granted.
import type { PartialLimits } from "../../sandbox/limits.ts";
import { type EgressRequest, readEgress } from "./egress.ts";
import type { InputChoice } from "./input.ts";
import { type Arguments, UsageError } from "./usage.ts";

export interface CallOptions {
  readonly input: InputChoice;
  readonly tenantId: string;
  readonly limits: PartialLimits;
  readonly egress: EgressRequest;
  /** Names of what the tool is granted. */
  readonly grant: readonly string[];
  readonly logPlaces: boolean;
}

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
    tenantId: text("tenant") ?? "default",
    limits: { timeoutMs: number("timeout-ms"), cpuMs: number("cpu-ms"), memoryMiB: number("memory-mib") },
    egress,
    grant: [...egress.grant, ...((values.grant as readonly string[] | undefined) ?? [])],
    logPlaces: values["log-places"] === true,
  };
}
