// Reads the version of this package, which Glovebox sends to MCP clients and servers.
import { readFileSync } from "node:fs";

let version: string | undefined;

/** Returns the version in package.json. Cached, since an MCP server sends it with each request. */
export function packageVersion(): string {
  if (version === undefined) {
    const manifest = readFileSync(new URL("../../../package.json", import.meta.url), "utf8");
    version = (JSON.parse(manifest) as { readonly version: string }).version;
  }
  return version;
}
