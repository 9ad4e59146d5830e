// What does Python cost: to start, to compute, to call the host, to keep ready? Compared with monty, an interpreter of a part of Python in
// process, and with a python3 that is started for each run.
import { execFile } from "node:child_process";
import { setTimeout as pause } from "node:timers/promises";
import { promisify } from "node:util";
import { createGlovebox, defineCapability, type Glovebox } from "../src/host/index.ts";
import { QUICK, report, reportLatencies, times } from "./support/measure.ts";
import { memoryOf } from "./support/memory.ts";
import { expectSuccess } from "./support/tools.ts";

const run = promisify(execFile);
const PYTHON = "/usr/bin/python3";
const SAMPLES = times(15, 3);
/** Between two calls a process makes its next isolate. */
const PAUSE_MS = times(1_000, 600);

const TRIVIAL = "1 + 1";
const COMPUTE = `
def collatz(limit):
    best = 0
    for n in range(1, limit):
        steps = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        if steps > best:
            best = steps
    return best
collatz(${times(3_000, 300)})
`;
const HOST_CALLS = 100;

/** A peer, that may not be installed. */
const MONTY: string = "@pydantic/monty";

interface Monty {
  run(options?: { readonly externalFunctions?: Readonly<Record<string, (...args: unknown[]) => unknown>> }): unknown;
}

async function loadMonty(): Promise<((code: string) => Monty) | { readonly reason: string }> {
  try {
    const { Monty } = (await import(MONTY)) as { readonly Monty: new (code: string) => Monty };
    return (code) => new Monty(code);
  } catch {
    return { reason: "it is not installed: npm install --prefix benchmarks" };
  }
}

/** The last expression's value, printed. */
const printed = (code: string): string => {
  const lines = code.trim().split("\n");
  return [...lines.slice(0, -1), `print(${lines.at(-1)})`].join("\n");
};

const monty = await loadMonty();
const leftOut = typeof monty === "function" ? [] : [{ name: "@pydantic/monty", reason: monty.reason }];

let calls = 0;
async function call(glovebox: Glovebox, toolName: string, args: object, tenantId: string): Promise<void> {
  calls += 1;
  const toolCall = { id: `c${calls}`, toolName, arguments: args };
  expectSuccess(await glovebox.execute(toolCall, { tenantId, timeoutMs: 60_000 }));
}

type Subjects = ReadonlyMap<string, () => Promise<unknown>>;

/** Measures the subjects alternately. Pauses are not counted. */
async function measure(name: string, question: string, subjects: Subjects, notes: readonly string[]): Promise<void> {
  const taken = new Map<string, number[]>([...subjects.keys()].map((subject) => [subject, []]));
  for (let sample = 0; sample <= SAMPLES; sample += 1) {
    for (const [subject, once] of subjects) {
      await pause(PAUSE_MS);
      const began = performance.now();
      await once();
      // The first is the warm-up.
      if (sample > 0) taken.get(subject)?.push(performance.now() - began);
    }
  }
  await reportLatencies({ name, question, taken, notes, leftOut });
}

const add = defineCapability({
  name: "add_one",
  inputSchema: { type: "number" },
  outputSchema: { type: "number" },
  handler: (n) => Number(n) + 1,
});
const HOST_TOOL = `
capabilities = {"add_one": True}
async def main(input, ctx):
    n = 0
    for _ in range(${HOST_CALLS}):
        n = await ctx.add_one(n)
    return n
`;

await using glovebox = await createGlovebox({
  tenancy: "multi",
  limits: { timeoutMs: 60_000, cpuMs: 60_000 },
  capabilities: [add],
  tools: { enabled: true, builtinTools: ["python_exec"] },
});
await glovebox.addTool(
  { name: "host", source: HOST_TOOL, language: "python", overrides: { capabilities: { add_one: true } } },
  { scope: "global" },
);
await glovebox.addTool(
  { name: "kept", source: "def main(input):\n    return 2", language: "python" },
  { scope: "global", isolateLifetime: "tool" },
);
let tenants = 0;

const python = (code: string) => async (): Promise<void> => {
  const { stdout } = await run(PYTHON, ["-I", "-c", printed(code)]);
  if (stdout.trim() === "") throw new Error("Expected python3 to print the value");
};
const inMonty = (code: string): Subjects =>
  typeof monty === "function"
    ? new Map([["@pydantic/monty, in this process", async () => monty(code).run()]])
    : new Map();

await measure(
  "python-start",
  "1 + 1, a new interpreter for each call",
  new Map([
    ["python3, a process for each", python(TRIVIAL)],
    ["python_exec, a tenant's next call", () => call(glovebox, "python_exec", { code: TRIVIAL }, "acme")],
    [
      "python_exec, a tenant's first call",
      () => {
        tenants += 1;
        return call(glovebox, "python_exec", { code: TRIVIAL }, `tenant-${tenants}`);
      },
    ],
    ['a tool with isolation "tool"', () => call(glovebox, "kept", {}, "acme")],
    ...inMonty(TRIVIAL),
  ]),
  [
    `${PAUSE_MS} ms between calls, so that a process may be kept ready. monty runs a part of Python, without a standard library.`,
  ],
);
await measure(
  "python-compute",
  "Collatz chains of the numbers below 3,000",
  new Map([
    ["python3, a process for each", python(COMPUTE)],
    ["python_exec", () => call(glovebox, "python_exec", { code: COMPUTE }, "acme")],
    ...inMonty(COMPUTE),
  ]),
  [],
);
const LOOP = `n = 0\nfor _ in range(${HOST_CALLS}):\n    n = add_one(n)\nn`;
await measure(
  "python-host-calls",
  `${HOST_CALLS} host calls, one after the other`,
  new Map<string, () => Promise<unknown>>([
    ["a Python tool", () => call(glovebox, "host", {}, "acme")],
    ...(typeof monty === "function"
      ? ([
          [
            "@pydantic/monty, in this process",
            async () => monty(LOOP).run({ externalFunctions: { add_one: (n) => Number(n) + 1 } }),
          ],
        ] as const)
      : []),
  ]),
  ["Ours cross two walls and are checked on both sides; monty's are calls of a function in its own process."],
);

await pause(QUICK ? 500 : 5_000);
const largest = glovebox.workerPids.map((pid) => memoryOf(pid)).sort((a, b) => b.rssMiB - a.rssMiB);
await report({
  name: "python-memory",
  question: "Memory of a process with a loaded interpreter",
  rows: Object.fromEntries(
    largest
      .slice(0, 3)
      .map(({ rssMiB, pssMiB }, index) => [
        `process ${index + 1} of ${largest.length}`,
        { "RSS MiB": Math.round(rssMiB), "Pss MiB": Math.round(pssMiB) },
      ]),
  ),
  notes: ["The three largest worker processes after the runs above; spare interpreters included."],
});
