// What run and dev take alike: on whose behalf a tool is called, with what, and within which limits.
import type { PartialLimits } from "../../sandbox/limits.ts";
import { type EgressRequest, readEgress } from "./egress.ts";
import type { InputChoice } from "./input.ts";
import { type Arguments, readLimit, UsageError } from "./usage.ts";

export const CALL_OPTIONS = {
  input: { type: "string" },
  "input-file": { type: "string" },
  tenant: { type: "string" },
  "timeout-ms": { type: "string" },
  "cpu-ms": { type: "string" },
  "memory-mib": { type: "string" },
  "allow-fetch": { type: "string", multiple: true },
  secret: { type: "string", multiple: true },
  grant: { type: "string", multiple: true },
  "log-places": { type: "boolean" },
} as const;

export interface CallOptions {
  readonly input: Omit<InputChoice, "stdin">;
  readonly tenantId: string;
  readonly limits: PartialLimits;
  readonly egress: EgressRequest;
  /** What the tool is granted, by name. */
  readonly grant: readonly string[];
  readonly logPlaces: boolean;
}

/** @throws {UsageError} for a limit out of its bounds, an empty tenant, a host that is none, a secret without its variable */
export function readCallOptions({ values }: Arguments, env: NodeJS.ProcessEnv): CallOptions {
  const text = (name: string): string | undefined => values[name] as string | undefined;
  const tenantId = text("tenant") ?? "default";
  if (tenantId === "") throw new UsageError("--tenant: expected an id, got an empty text");
  const egress = readEgress(values, env);
  return {
    input: { json: text("input"), file: text("input-file") },
    tenantId,
    limits: {
      timeoutMs: readLimit("timeout-ms", values["timeout-ms"], "timeoutMs"),
      cpuMs: readLimit("cpu-ms", values["cpu-ms"], "cpuMs"),
      memoryMiB: readLimit("memory-mib", values["memory-mib"], "memoryMiB"),
    },
    egress,
    grant: [...egress.grant, ...((values.grant as readonly string[] | undefined) ?? [])],
    logPlaces: values["log-places"] === true,
  };
}
