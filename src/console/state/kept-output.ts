// Whether the server has kept the output of a call. The policy of the tenant may say no, and a quota may be used up.
import type { Call } from "glovebox/client";

/** Bytes of the output null. */
const NULL_BYTES = 4;

export function isOutputKept({
  output,
  error,
  omitted,
  usage,
}: Pick<Call, "output" | "error" | "omitted" | "usage">): boolean {
  if (output !== null || error !== null) return true;
  const { outputBytes = 0 } = (usage ?? {}) as { readonly outputBytes?: number };
  return !omitted.includes("output") && outputBytes <= NULL_BYTES;
}
