// Runs the examples that need a model, against a local server that speaks OpenAI's protocol with a scripted model.
import { expect, onTestFinished, test } from "vitest";
import { type FinishedExample, runExample, TEST_TIMEOUT_MS, useHome } from "../support/example-process.ts";
import { type OpenAIServer, type Said, type Script, startOpenAIServer } from "../support/openai-server.ts";

const home = useHome();
const call = (id: string, name: string, args: unknown): Said => ({ type: "call", id, name, arguments: args });
const say = (text: string): Said => ({ type: "text", text });

async function runWith(
  path: string,
  ...script: Script[]
): Promise<FinishedExample & { readonly server: OpenAIServer }> {
  const server = await startOpenAIServer(...script);
  onTestFinished(() => server[Symbol.asyncDispose]());
  const env = { OPENAI_BASE_URL: server.baseURL, OPENAI_API_KEY: "test", OPENAI_MODEL: "test-model" };
  return { ...(await runExample(path, home(), env)), server };
}

/** Results of calls in the last request to the model. */
function shownResults({ requests }: OpenAIServer): readonly unknown[] {
  const items = requests.at(-1)?.body.input ?? [];
  return (items as readonly { readonly type?: string; readonly output?: unknown }[])
    .filter(({ type }) => type === "function_call_output")
    .map(({ output }) => output);
}

test("agent-loop.ts pauses for an approval, and resumes", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code, stdout, stderr, server } = await runWith(
    "agent-loop.ts",
    [call("c1", "find_order", { orderId: 1007 })],
    [call("c2", "refund", { orderId: 1007 }), call("c3", "refund", { orderId: 8 })],
    [say("The lamp is refunded.")],
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout.split("\n")).toEqual(
    expect.arrayContaining([
      '> find_order {"orderId":1007}',
      '< {"item":"lamp","price":40}',
      'Decisions: {"c2":{"approved":true},"c3":{"approved":false,"reason":"Only order 1007 may be refunded"}}',
      '< {"refunded":1007}',
      "The lamp is refunded.",
    ]),
  );
  expect(stdout).toContain("The run finished after 60 output tokens");
  expect(server.left).toBe(0);
  expect(server.requests[0]?.body.model).toBe("test-model");
  expect(shownResults(server)).toEqual([
    '{"item":"lamp","price":40}',
    '{"refunded":1007}',
    expect.stringContaining("APPROVAL_REQUIRED"),
  ]);
});

test("ai-sdk.ts goes on after a call that failed", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code, stdout, stderr, server } = await runWith(
    "ai-sdk.ts",
    [call("c1", "distance", { from: "Berlin", to: "Pariss" })],
    [call("c2", "distance", { from: "Berlin", to: "Paris" })],
    [say("About 880 km.")],
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(
    /> distance .*Pariss.*\n< .*Unknown city: Pariss.*\n> distance .*\n< \{"km":8\d\d\}\nAbout 880 km\./,
  );
  expect(server.left).toBe(0);
  expect(shownResults(server).at(-1)).toMatch(/^\{"km":8\d\d\}$/);
});

test("openai-agents.ts gives each agent the tools of its tenant", { timeout: TEST_TIMEOUT_MS }, async () => {
  const { code, stdout, stderr, server } = await runWith(
    "openai-agents.ts",
    [call("c1", "discount", { amount: 80 })],
    [say("It is 72 euros.")],
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^Clerk of acme has (?:add_tax, discount|discount, add_tax)\nClerk of globex has add_tax\n/);
  expect(stdout).toContain('> discount {"amount":80}\n< {"total":72}\nIt is 72 euros.\n');
  expect(server.left).toBe(0);
});

test("code-mode.ts gives the model two tools, and mends what the type check rejects", {
  timeout: TEST_TIMEOUT_MS,
}, async () => {
  const code = `const orders = await tools.list_orders({ month: "2026-05" });
    const totals = {} as Record<string, number>;
    for (const { customer, total } of orders) totals[customer] = (totals[customer] ?? 0) + total;
    return Object.entries(totals).sort(([, a], [, b]) => b - a)[0];`;
  const {
    code: exit,
    stdout,
    stderr,
    server,
  } = await runWith(
    "code-mode.ts",
    [call("c1", "search_tools", { query: "orders of a month" })],
    [call("c2", "run_code", { code: code.replace("{ month:", "{ moth:") })],
    [call("c3", "run_code", { code })],
    [say("Ada spent most: 52.")],
  );
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" });
  expect(stdout).toContain("tools.list_orders(input: {");
  expect(stdout).toMatch(/"status":"rejected","diagnostics":\[\{"line":1,.*moth/);
  expect(stdout).toMatch(/"status":"ok","value":\["Ada",52\],"calls":\[\{"tool":"list_orders","count":1/);
  expect(stdout).toContain("Ada spent most: 52.");
  expect(server.left).toBe(0);
  const tools = server.requests[0]?.body.tools as readonly { readonly name: string }[];
  expect(tools.map(({ name }) => name).sort()).toEqual(["run_code", "search_tools"]);
});

test("code-mode-frameworks.ts runs code in both frameworks", { timeout: TEST_TIMEOUT_MS }, async () => {
  const code = `const ways = await Promise.all([["Berlin", "Paris"], ["Paris", "Berlin"]].map(([from, to]) => tools.distance({ from: from!, to: to! })));
    return ways.reduce((sum, { km }) => sum + km, 0);`;
  const script: Script[] = [[call("c1", "run_code", { code })], [say("It is 1756 km.")]];
  const { code: exit, stdout, stderr, server } = await runWith("code-mode-frameworks.ts", ...script, ...script);
  expect({ exit, stderr }).toEqual({ exit: 0, stderr: "" });
  expect(stdout).toBe("AI SDK: It is 1756 km.\nAgents SDK: It is 1756 km.\n");
  expect(shownResults(server).join()).toContain('"status":"ok","value":1756');
  expect(server.left).toBe(0);
});
