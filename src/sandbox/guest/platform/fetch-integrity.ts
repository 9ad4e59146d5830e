// Subresource Integrity: checks the bytes of a response against the hashes in its request.
import { digests, toBase64 } from "./fetch-platform.ts";

/** From weakest to strongest. Only the strongest algorithm in the metadata is used. */
const ALGORITHMS = ["sha256", "sha384", "sha512"] as const;
const EXPRESSION = /^(sha256|sha384|sha512)-([A-Za-z0-9+/_-]+)={0,2}(?:\?.*)?$/i;

const toPlain = (base64: string): string => base64.replace(/[=]+$/, "").replaceAll("-", "+").replaceAll("_", "/");

/** Ignores expressions that are not a known hash. Metadata without a known hash matches any bytes. */
export async function matchesIntegrity(bytes: Uint8Array, metadata: string): Promise<boolean> {
  const expressions = metadata.split(/[\t\n\f\r ]+/).flatMap((word) => {
    const found = EXPRESSION.exec(word);
    if (found === null) return [];
    const [, algorithm = "", value = ""] = found;
    return [{ rank: (ALGORITHMS as readonly string[]).indexOf(algorithm.toLowerCase()), value: toPlain(value) }];
  });
  if (expressions.length === 0) return true;
  const strongest = Math.max(...expressions.map(({ rank }) => rank));
  const name = (ALGORITHMS[strongest] as string).replace("sha", "SHA-");
  const digest = toPlain(toBase64(new Uint8Array(await digests().digest(name, bytes))));
  return expressions.some(({ rank, value }) => rank === strongest && value === digest);
}
