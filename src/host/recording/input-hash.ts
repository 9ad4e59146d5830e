// Hashes the input of a capability call, so that a replay recognizes it even if another version of the tool writes its keys in another order.
import { createHash } from "node:crypto";
import { toCanonicalJson } from "../json/canonical-json.ts";

/** Longest text that is brought into canonical form. A longer one is hashed as it is, since a large value would block the host. */
const MAX_CANONICAL_LENGTH = 256 * 1024;

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");

function canonical(text: string, change: (value: unknown) => unknown): string {
  if (text.length > MAX_CANONICAL_LENGTH) return text;
  try {
    return toCanonicalJson(change(JSON.parse(text)));
  } catch {
    // Not JSON, or nested too deeply. The broker rejects such an input.
    return text;
  }
}

/** Returns the SHA-256 of an input as canonical JSON. */
export const inputHashOf = (text: string): string => hash(canonical(text, (value) => value));

interface ExchangeInput {
  readonly op?: unknown;
  readonly id?: unknown;
}

/**
 * Returns the number of the HTTP exchange that an input of `fetch` belongs to. Versions of a tool may number their exchanges differently.
 * `isNotice`: the answer says nothing, and whether such an input is sent can depend on time.
 */
export function exchangeOf(
  text: string,
): { readonly id: number; readonly isRequest: boolean; readonly isNotice: boolean } | undefined {
  if (text.length > MAX_CANONICAL_LENGTH) return undefined;
  try {
    const { op, id } = JSON.parse(text) as ExchangeInput;
    return typeof id === "number"
      ? { id, isRequest: op === "request", isNotice: op === "cancel" || op === "closing" }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the hash of an input of `fetch` with another number of its exchange. */
export const exchangeHashOf = (text: string, id: number): string =>
  hash(canonical(text, (value) => ({ ...(value as object), id })));
