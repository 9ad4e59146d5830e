// Writes the reference pages that follow from the code: options, limits, error codes, the command line, the HTTP API, and the API by TypeDoc.
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { Application } from "typedoc";
import { USAGE } from "../src/cli/usage.ts";
import { ERROR_CODES, UNAVAILABLE_REASONS } from "../src/sandbox/contract/errors.ts";
import { LIMITS } from "../src/sandbox/contract/limits.ts";
import { REQUEST_ERRORS } from "../src/server/http/request-error.ts";
import { toHttpApiPage } from "./http-api.ts";
import { toOptionsPage } from "./options.ts";

const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));
const cell = (text: string): string => text.replaceAll("|", "\\|");
const yesNo = (value: boolean): string => (value ? "yes" : "no");

function toLimitsPage(): string {
  const rows = Object.entries(LIMITS).map(
    ([name, { min, default: initial, max, about }]) =>
      `| \`${name}\` | ${initial.toLocaleString("en")} | ${min.toLocaleString("en")} to ${max.toLocaleString("en")} | ${cell(about)} |`,
  );
  return `# Limits

The host, a tenant, a tool and a call may each set limits; the lowest value applies. The unit is in the name.

| limit | default | allowed | bounds |
|---|---|---|---|
${rows.join("\n")}
`;
}

function toErrorsPage(): string {
  const codes = Object.entries(ERROR_CODES).map(
    ([code, { audience, http, recoverable, userMessage }]) =>
      `| [\`${code}\`](errors/${code}.md) | ${http} | ${audience} | ${yesNo(recoverable)} | ${cell(userMessage)} |`,
  );
  const reasons = Object.entries(UNAVAILABLE_REASONS).map(
    ([reason, { http, recoverable }]) => `| \`${reason}\` | ${http} | ${yesNo(recoverable)} |`,
  );
  return `# Error codes

Each failure has one of these codes. The audience says who may read \`message\` and \`details\`; \`userMessage\` is safe for everyone.
"Recoverable" means that the same caller may succeed with other arguments or by trying again.

| code | HTTP | audience | recoverable | \`userMessage\` |
|---|---|---|---|---|
${codes.join("\n")}

## Codes of requests to a server

\`glovebox serve\` answers with the codes above, and with these for requests that it does not accept.

| code | HTTP |
|---|---|
${Object.entries(REQUEST_ERRORS)
  .map(([code, http]) => `| [\`${code}\`](errors/${code}.md) | ${http} |`)
  .join("\n")}

## Reasons of TOOL_UNAVAILABLE

\`error.details.reason\` has one of these values, and \`toHttpStatus\` returns its status.

| reason | HTTP | recoverable |
|---|---|---|
${reasons.join("\n")}
`;
}

const toCliPage = (): string => `# Command line

\`\`\`text
${USAGE}
\`\`\`
`;

await mkdir(path("reference"), { recursive: true });
await writeFile(path("reference/limits.md"), toLimitsPage());
await writeFile(path("reference/error-codes.md"), toErrorsPage());
await writeFile(path("reference/command-line.md"), toCliPage());
await writeFile(path("reference/options.md"), toOptionsPage());
await writeFile(path("reference/http-api.md"), await toHttpApiPage());

/** Documents that stay where readers of a repository expect them. Links from them into docs/ become relative to the copy. */
const PROJECT = {
  ARCHITECTURE: "ARCHITECTURE.md",
  CHANGELOG: "CHANGELOG.md",
  CONTRIBUTING: "CONTRIBUTING.md",
  SECURITY: "SECURITY.md",
  THREATS: "THREATS.md",
  examples: "examples/README.md",
};
await mkdir(path("project"), { recursive: true });
for (const [name, file] of Object.entries(PROJECT)) {
  const text = await readFile(path(`../${file}`), "utf8");
  await writeFile(path(`project/${name}.md`), text.replaceAll(/\]\((?:\.\.\/)?docs\//g, "](../"));
}

const app = await Application.bootstrapWithPlugins({
  plugin: ["typedoc-plugin-markdown"],
  entryPoints: [
    "../src/host/index.ts",
    "../src/sandbox/guest/tool.ts",
    "../src/client/index.ts",
    "../src/server/index.ts",
    "../src/host/agent/index.ts",
    "../src/host/openai/index.ts",
    "../src/host/code-mode/index.ts",
    "../src/host/mcp/server/index.ts",
    "../src/host/testing/index.ts",
    "../src/host/adapters/ai-sdk.ts",
    "../src/host/adapters/openai-agents.ts",
  ].map(path),
  tsconfig: path("../tsconfig.json"),
  skipErrorChecking: true,
  excludePrivate: true,
  excludeInternal: true,
  disableSources: true,
  readme: "none",
  logLevel: "Error",
  outputs: [{ name: "markdown", path: path("reference/api") }],
});
const project = await app.convert();
if (project === undefined) throw new Error("TypeDoc could not read the entry points");
await app.generateOutputs(project);
if (app.logger.hasErrors()) process.exitCode = 1;
