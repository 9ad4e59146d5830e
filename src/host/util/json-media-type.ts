// Checks the Content-Type of a body with JSON, which is always in UTF-8 (RFC 8259). Read as UTF-8, a body in another charset would be another value.
import { MIMEType } from "node:util";

/** Returns what is wrong with a Content-Type header; undefined for JSON in UTF-8. */
export function describeNonJson(header: string | null | undefined): string | undefined {
  const expected = "Expected Content-Type: application/json";
  const [essence, ...parameters] = header?.split(";") ?? [];
  if (essence?.trim().toLowerCase() !== "application/json") return expected;
  if (parameters.length === 0) return undefined;
  const charset = charsetOf(header ?? "");
  return charset === undefined || /^utf-?8$/i.test(charset) ? undefined : `${expected}, in UTF-8`;
}

function charsetOf(header: string): string | undefined {
  try {
    return new MIMEType(header).params.get("charset") ?? undefined;
  } catch {
    return undefined;
  }
}
