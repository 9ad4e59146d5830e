// The version of this package, for whoever asks what it is speaking to.
import { readFileSync } from "node:fs";

let version: string | undefined;

/** Read once: an MCP server tells it with each request. */
export function packageVersion(): string {
  if (version === undefined) {
    const manifest = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
    version = (JSON.parse(manifest) as { readonly version: string }).version;
  }
  return version;
}
