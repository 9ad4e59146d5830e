// Serves the console with a policy that lets it load nothing of another origin.
import type { ConsoleFiles } from "./console-files.ts";
import type { App } from "./context.ts";
import { RequestError } from "./request-error.ts";

const POLICY = [
  "default-src 'none'",
  ...[
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "media-src data:",
    "font-src 'self'",
  ],
  ...["base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"],
  // The editor checks code in a worker of its own: this policy creates the URL of that script and no other.
  ...["worker-src 'self'", "trusted-types glovebox-editor"],
];
/** Names of built files contain a hash of their content. */
const IMMUTABLE = "public, max-age=31536000, immutable";

/** Adds the page at `/console`. Each path without a file is one of the console's own pages. */
export function addConsolePage(app: App, files: ConsoleFiles | undefined, embedOrigins: readonly string[]): void {
  const ancestors = embedOrigins.length === 0 ? "'none'" : embedOrigins.join(" ");
  app.get("/", (c) => c.redirect("/console", 302));
  app.get("/console/*", async (c) => {
    const path = c.req.path.replace(/^\/console\/?/, "");
    const file = files?.get(path) ?? (path.startsWith("assets/") ? undefined : files?.get("index.html"));
    if (files === undefined)
      throw new RequestError("NOT_FOUND", "The console was not built. Build it with: npm run build:console");
    if (file === undefined) throw new RequestError("NOT_FOUND", "There is no such file");
    c.header("content-type", file.type);
    c.header("content-security-policy", `${POLICY.join("; ")}; frame-ancestors ${ancestors}`);
    // The policy says it, and this header cannot name origins.
    if (embedOrigins.length > 0) c.header("x-frame-options", undefined);
    c.header("cache-control", path.startsWith("assets/") ? IMMUTABLE : "no-cache");
    c.header("vary", "accept-encoding");
    if (!/\bbr\b/.test(c.req.header("accept-encoding") ?? "")) return c.body(await file.bytes());
    c.header("content-encoding", "br");
    return c.body(file.compressed);
  });
}
