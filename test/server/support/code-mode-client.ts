// A client of a tenant's code mode under test.
import { Client, type ElicitResult, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

/** What run_code and get_run answer. */
export interface CodeOutput {
  readonly status: string;
  readonly value?: unknown;
  readonly error?: { readonly code: string; readonly message: string };
  readonly hint?: string;
  readonly logs?: readonly string[];
  readonly run?: {
    readonly id: string;
    readonly waits: readonly { readonly id: number; readonly kind: string; readonly message?: string }[];
  };
}

export interface CodeClient extends AsyncDisposable {
  readonly client: Client;
  /** Runs code, in JavaScript unless the arguments name a language. */
  run(code: string, more?: object, signal?: AbortSignal): Promise<CodeOutput>;
  get(id: string): Promise<CodeOutput>;
  /** Returns the text of a result that is an error. */
  failure(name: string, args: object): Promise<string>;
}

export async function connectCodeMode(
  url: string,
  tenant: string,
  key: string,
  onElicit?: (request: { readonly params: object }) => Promise<ElicitResult>,
  mode: "auto" | "legacy" = "auto",
): Promise<CodeClient> {
  const capabilities = onElicit === undefined ? {} : { elicitation: { form: {} } };
  const client = new Client({ name: "test", version: "1.0.0" }, { capabilities, versionNegotiation: { mode } });
  if (onElicit !== undefined) client.setRequestHandler("elicitation/create", onElicit);
  const headers = { authorization: `Bearer ${key}` };
  const endpoint = new URL(`${url}/v1/tenants/${tenant}/code-mode/mcp`);
  await client.connect(new StreamableHTTPClientTransport(endpoint, { requestInit: { headers } }) as never);
  const call = async (name: string, args: object, signal?: AbortSignal) =>
    await client.callTool(
      { name, arguments: args as never },
      { timeout: 600_000, ...(signal === undefined ? {} : { signal }) },
    );
  const outputOf = async (calling: ReturnType<typeof call>): Promise<CodeOutput> => {
    const { isError, content, structuredContent } = await calling;
    if (isError === true) throw new Error(JSON.stringify(content));
    return structuredContent as unknown as CodeOutput;
  };
  return {
    client,
    run: (code, more = {}, signal) => outputOf(call("run_code", { code, language: "javascript", ...more }, signal)),
    get: (id) => outputOf(call("get_run", { id })),
    failure: async (name, args) => {
      const { isError, content } = await call(name, args);
      if (isError !== true) throw new Error("Expected an error");
      return JSON.stringify(content);
    },
    [Symbol.asyncDispose]: () => client.close(),
  };
}
