// Writes the page of `glovebox run --trace`: one HTML file with the console's components and the call in it, which needs no server.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { packageVersion } from "../../host/config/package-version.ts";
import type { ToolResult } from "../../host/contract/tool-call.ts";
import { toJson } from "../../host/index.ts";
import { toWriteError, UsageError } from "../usage.ts";

/** Folder into which the build puts the page's parts: in the package, and in the cache for a command line that runs from its sources. */
const FOLDER = import.meta.url.endsWith(".ts") ? "../../../node_modules/.cache/glovebox/trace/" : "../../trace/";

function readPart(name: string): string {
  try {
    return readFileSync(fileURLToPath(new URL(`${FOLDER}${name}`, import.meta.url)), "utf8");
  } catch {
    throw new UsageError("--trace: the page was not built. Build it with: npm run build:console");
  }
}

const hashOf = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

export interface Trace {
  /** Ms since 1970. */
  readonly startedAt: number;
  readonly input: unknown;
  readonly result: ToolResult;
}

/**
 * Writes the page.
 * @throws {UsageError} if the file cannot be written, or the page was not built
 */
export function writeTracePage(file: string, { startedAt, input, result }: Trace): void {
  // A script ends at `</script` wherever it is.
  const script = readPart("trace.js").replaceAll("</script", "<\\/script");
  const style = readPart("trace.css");
  const shown = result.success ? { ...result, output: toJson(result.output) } : result;
  const trace = JSON.stringify({ startedAt, version: packageVersion(), input, result: shown }).replaceAll(
    "<",
    "\\u003c",
  );
  const policy = `default-src 'none'; script-src ${hashOf(script)}; style-src ${hashOf(style)}; img-src data:; base-uri 'none'; form-action 'none'`;
  const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>Trace of a call</title><style>${style}</style></head>
<body><div id="app"></div><script type="application/json" id="trace">${trace}</script><script>${script}</script></body></html>
`;
  try {
    writeFileSync(file, page);
  } catch (thrown) {
    throw toWriteError(`--trace: ${file}`, thrown);
  }
}
