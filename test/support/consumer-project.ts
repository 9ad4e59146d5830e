// Programs that use the packed package: one without optional peers, one with all of them. Each has its own copy of the package, which
// resolves only the packages that it depends on.
import { execFile } from "node:child_process";
import { mkdir, readFile, rename, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Uses of each entry, as a consumer writes them. */
const BARE = {
  root: `import { createGlovebox, type KvStore, ToolError, type ToolResult, ToolRouter, toHttpStatus } from "glovebox";
    export async function main(store: KvStore, signal: AbortSignal): Promise<number> {
      await using glovebox = await createGlovebox({ kv: store, telemetry: { captureContent: false }, hooks: [{ name: "h", validate: () => undefined }] });
      await glovebox.addTool({ name: "double", source: "export default ({ n }) => n * 2" });
      const result: ToolResult = await glovebox.execute({ id: "c1", toolName: "double", arguments: { n: 1 } }, { signal });
      return result.success ? 200 : toHttpStatus(result.error);
    }
    export const router: ToolRouter = new ToolRouter();
    export const error = new ToolError("TOOL_FAILED", "m");`,
  tool: `import { defineTool } from "glovebox/tool";
    export default defineTool({ description: "Doubles", execute: () => ({ doubled: 42 }) });`,
  agent: `import { AgentLoop, type AgentOutcome, type Model } from "glovebox/agent";
    import { ToolRouter } from "glovebox";
    export const run = (model: Model): Promise<AgentOutcome> =>
      new AgentLoop({ model, router: new ToolRouter() }).run({ messages: [{ role: "user", content: "Hello" }] });`,
  testing: `import { openTool } from "glovebox/testing";
    export const tool = openTool("./tool.ts");`,
  mcp: `import { createMcpHandler } from "glovebox/mcp";
    import type { Glovebox } from "glovebox";
    export const serve = (glovebox: Glovebox) => createMcpHandler(glovebox, { name: "tools" });`,
  client: `import { ApiError, type Call, GloveboxClient } from "glovebox/client";
    export const call = async (): Promise<Call> =>
      await new GloveboxClient({ url: "http://127.0.0.1:8080", key: "k" }).tenant("acme").call("double", { input: { n: 1 } });
    export const isMissing = (error: unknown): boolean => error instanceof ApiError && error.status === 404;`,
  server: `import { createServer, type ServerOptions } from "glovebox/server";
    export async function serve(options: ServerOptions): Promise<string> {
      await using server = await createServer(options);
      return server.url;
    }`,
  codeMode: `import { CodeMode, type CodeModeOptions, createCodeMode, TypeChecker } from "glovebox/code-mode";
    import type { Glovebox } from "glovebox";
    export const open = (glovebox: Glovebox, options: CodeModeOptions): CodeMode => createCodeMode(glovebox, options);
    export const checker = (): TypeChecker => new TypeChecker();`,
} as const;
/** The entries that a consumer without optional peers uses. `tsconfig-NAME.json` compiles each of them alone. */
export const BARE_ENTRIES: readonly string[] = Object.keys(BARE);

const WITH_PEERS = {
  root: `import { metrics, trace } from "@opentelemetry/api";
    import { createGlovebox } from "glovebox";
    export const glovebox = createGlovebox({
      telemetry: { tracerProvider: trace.getTracerProvider(), meterProvider: metrics.getMeterProvider() },
    });`,
  openai: `import { openaiChat, openaiResponses, toOpenAITools } from "glovebox/openai";
    import OpenAI from "openai";
    export const models = [openaiChat(new OpenAI(), { model: "m" }), openaiResponses(new OpenAI(), { model: "m" })];
    export const tools = toOpenAITools([], { api: "chat" });`,
  aiSdk: `import type { ToolSet } from "ai";
    import type { Glovebox } from "glovebox";
    import { toAISDKTools } from "glovebox/ai-sdk";
    export const toTools = (glovebox: Glovebox): ToolSet => toAISDKTools(glovebox);`,
  agents: `import { Agent } from "@openai/agents";
    import type { Glovebox } from "glovebox";
    import { toAgentsTools } from "glovebox/openai-agents";
    export const toAgent = (glovebox: Glovebox) => new Agent({ name: "a", tools: toAgentsTools(glovebox) });`,
} as const;

/** As strict as a consumer can be, and without the browser's types. Node's are there because the package depends on them. */
const TSCONFIG = {
  compilerOptions: {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    verbatimModuleSyntax: true,
    skipLibCheck: false,
    noEmit: true,
    module: "nodenext",
    target: "es2022",
    lib: ["es2022"],
    types: [],
  },
  include: ["*.ts"],
};

/**
 * Writes a project that has installed the tarball.
 * @param kind `peers` for one that has the optional peers as well
 * @returns the path of its tsconfig.json
 */
export async function writeConsumer(
  folder: string,
  tarball: string,
  modules: string,
  kind: "bare" | "peers",
): Promise<string> {
  const installed = join(folder, "node_modules");
  await mkdir(installed, { recursive: true });
  await run("tar", ["-xzf", tarball, "-C", installed]);
  await rename(join(installed, "package"), join(installed, "glovebox"));
  const manifest = JSON.parse(await readFile(join(installed, "glovebox", "package.json"), "utf8")) as Record<
    "dependencies" | "peerDependencies",
    Record<string, string>
  >;
  const names = [
    ...Object.keys(manifest.dependencies),
    ...(kind === "peers" ? Object.keys(manifest.peerDependencies) : []),
  ];
  for (const name of names) {
    await mkdir(dirname(join(installed, name)), { recursive: true });
    await symlink(join(modules, name), join(installed, name));
  }
  await writeFile(join(folder, "package.json"), JSON.stringify({ name: kind, private: true, type: "module" }));
  const withPeers = Object.entries(WITH_PEERS).map(([name, source]) => [`peers-${name}`, source]);
  const sources = kind === "bare" ? BARE : { ...BARE, ...Object.fromEntries(withPeers) };
  for (const [name, source] of Object.entries(sources)) await writeFile(join(folder, `${name}.ts`), `${source}\n`);
  const tsconfig = join(folder, "tsconfig.json");
  await writeFile(tsconfig, JSON.stringify(TSCONFIG));
  for (const name of BARE_ENTRIES) {
    const alone = { ...TSCONFIG, include: [`${name}.ts`] };
    await writeFile(join(folder, `tsconfig-${name}.json`), JSON.stringify(alone));
  }
  return tsconfig;
}
