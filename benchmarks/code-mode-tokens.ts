// Code mode against direct tool calls: 32 recorded tasks over 64 tools. Both ways run every call through the router and must reach the same
// answer. Counts model turns and tokens (o200k), and measures warm type checks. Usage: node benchmarks/code-mode-tokens.ts [--json]
import { isDeepStrictEqual } from "node:util";
import { encode } from "gpt-tokenizer/encoding/o200k_base";
import { createCodeMode, TypeChecker } from "../src/host/code-mode/index.ts";
import type { RunOutput } from "../src/host/code-mode/run-result.ts";
import { createGlovebox } from "../src/host/index.ts";
import { toOpenAITools } from "../src/host/openai/index.ts";
import { type Task, tasks } from "./code-mode-tasks/tasks.ts";
import { tools } from "./code-mode-tasks/tools.ts";

const tokensOf = (value: unknown): number => encode(typeof value === "string" ? value : JSON.stringify(value)).length;

/** A conversation as an API without a cache bills it: each turn sends everything before it again. */
class Conversation {
  #context: number;
  input = 0;
  output = 0;
  turns = 0;

  constructor(toolsTokens: number, prompt: string) {
    this.#context = toolsTokens + tokensOf(prompt);
  }

  /** Adds one turn of the model, and the results of its calls. */
  turn(said: unknown, results: readonly unknown[] = []): void {
    this.turns += 1;
    this.input += this.#context;
    const output = tokensOf(said);
    this.output += output;
    this.#context += output + results.reduce<number>((sum, result) => sum + tokensOf(result), 0);
  }
}

const glovebox = await createGlovebox({ limits: { timeoutMs: 60_000 }, shutdown: false });
for (const { name, run, ...definition } of tools) glovebox.router.register(name, definition, run as never);
const checker = new TypeChecker();
const codeMode = createCodeMode(glovebox, {
  typeChecker: checker,
  limits: { nestedCalls: 1_000, maxCapabilityCalls: 1_000 },
});

let ids = 0;
async function call(host: Pick<typeof glovebox, "execute">, toolName: string, args: object): Promise<unknown> {
  ids += 1;
  const result = await host.execute({ id: `c${ids}`, toolName, arguments: args });
  if (!result.success) throw new Error(`${toolName}: ${result.error.message}`);
  return result.output;
}

const directTools = tokensOf(toOpenAITools(await glovebox.router.listTools(), { api: "responses" }).tools);
const codeTools = tokensOf(toOpenAITools(await codeMode.listTools(), { api: "responses" }).tools);

async function runDirect(task: Task): Promise<{ readonly conversation: Conversation; readonly answer: unknown }> {
  const conversation = new Conversation(directTools, task.prompt);
  const answer = await task.direct(async (calls) => {
    const results = await Promise.all(calls.map(([name, args]) => call(glovebox, name, args)));
    conversation.turn(
      calls.map(([name, args]) => ({ name, arguments: args })),
      results,
    );
    return results as never[];
  });
  conversation.turn(answer);
  return { conversation, answer };
}

async function runCode(task: Task): Promise<{ readonly conversation: Conversation; readonly answer: unknown }> {
  const conversation = new Conversation(codeTools, task.prompt);
  const search = { query: task.query };
  conversation.turn({ name: "search_tools", arguments: search }, [await call(codeMode, "search_tools", search)]);
  const output = (await call(codeMode, "run_code", { code: task.code })) as RunOutput;
  if (output.status !== "ok") throw new Error(`${task.prompt}\n${JSON.stringify(output, null, 1)}`);
  conversation.turn({ name: "run_code", arguments: { code: task.code } }, [output]);
  conversation.turn(output.value);
  return { conversation, answer: output.value };
}

/** Tools that the code uses and the search did not show: the recorded plan would not be one that a model can write. */
async function missingFromSearch({ code, query }: Task): Promise<readonly string[]> {
  const shown = await codeMode.search({ query });
  const used = new Set([...code.matchAll(/tools\.(\w+)/g)].map(([, name]) => name as string));
  return [...used].filter((name) => !shown.includes(`tools.${name}(`));
}

interface Totals {
  turns: number;
  input: number;
  output: number;
}
const totals = { direct: { turns: 0, input: 0, output: 0 }, code: { turns: 0, input: 0, output: 0 } };
const add = (into: Totals, { turns, input, output }: Conversation): void => {
  into.turns += turns;
  into.input += input;
  into.output += output;
};
let notFound = 0;
for (const task of tasks) {
  const direct = await runDirect(task);
  const code = await runCode(task);
  if (!isDeepStrictEqual(direct.answer, code.answer)) {
    throw new Error(`${task.prompt}: ${JSON.stringify(direct.answer)} and ${JSON.stringify(code.answer)}`);
  }
  const missing = await missingFromSearch(task);
  if (missing.length > 0) notFound += 1;
  add(totals.direct, direct.conversation);
  add(totals.code, code.conversation);
}

const { typescript: declarations } = await codeMode.api();
const times: number[] = [];
for (let round = 0; round < 5; round += 1) {
  for (const { code } of tasks) {
    // Another text each time, so that nothing of the file is cached.
    const { durationMs } = await checker.check({ code: `${code}\n// ${round}`, declarations });
    times.push(durationMs);
  }
}
times.sort((a, b) => a - b);
const quantile = (share: number): number => Number((times[Math.floor((times.length - 1) * share)] ?? 0).toFixed(1));
const cold = new TypeChecker();
const first = await cold.check({ code: "return 1", declarations });
await cold[Symbol.asyncDispose]();

const report = {
  tools: tools.length,
  tasks: tasks.length,
  toolTokens: { direct: directTools, code: codeTools },
  ...totals,
  perTask: {
    direct: {
      turns: totals.direct.turns / tasks.length,
      tokens: (totals.direct.input + totals.direct.output) / tasks.length,
    },
    code: { turns: totals.code.turns / tasks.length, tokens: (totals.code.input + totals.code.output) / tasks.length },
  },
  tokensRatio: (totals.code.input + totals.code.output) / (totals.direct.input + totals.direct.output),
  tasksWhoseToolsOneSearchDidNotShow: notFound,
  typeCheckMs: {
    warmMedian: quantile(0.5),
    warmP95: quantile(0.95),
    warmMax: quantile(1),
    first: Number(first.durationMs.toFixed(1)),
    checks: times.length,
  },
};
console.log(JSON.stringify(report, null, process.argv.includes("--json") ? 0 : 2));
await codeMode.close();
await checker[Symbol.asyncDispose]();
await glovebox.close();
