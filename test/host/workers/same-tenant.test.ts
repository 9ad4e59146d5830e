// Calls that compute without end next to other tools and sessions of the same tenant, in both languages: the others run meanwhile. Python
// runs one call in a process, so each such call takes one.
import { availableParallelism } from "node:os";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { Session } from "../../../src/host/sessions/session.ts";
import { codeOf, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";

type Language = "javascript" | "python";

const LOOP = {
  javascript: "export default (_, ctx) => { ctx.log('begun'); for (;;); };",
  // A line is sent when the code waits for something.
  python:
    "import asyncio\nasync def main(input):\n    print('begun')\n    await asyncio.sleep(0)\n    while True:\n        pass",
} as const;
const ADD = {
  javascript: "export default ({ n }) => n + 1;",
  python: "def main(input):\n    return input['n'] + 1",
} as const;
/** Far longer than the calls of a test take. The test ends the endless calls itself. */
const LONG_MS = 240_000;
/** An owner's priority falls within some tenths of a second. From then on it gets another process only for a reason. */
const DEMOTION_MS = 500;
const CALLS = 2;

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({
    tenancy: "multi",
    cache: PYTHON_CACHE,
    limits: { timeoutMs: LONG_MS, cpuMs: LONG_MS, queueMs: LONG_MS },
    workers: { max: 32 },
  });
});
afterAll(() => glovebox.close());

let tenants = 0;
function newTenant(): string {
  tenants += 1;
  return `t${tenants}`;
}

/** Runs that compute until their test has finished. */
interface Endless {
  /** Codes of those that have ended. */
  readonly ended: readonly string[];
  readonly begun: () => number;
}

type Run = (options: { readonly signal: AbortSignal; readonly onLog: () => void }) => Promise<ToolResult>;

/** Starts runs that compute without end, and waits until some of them do. */
async function startEndless(runs: readonly Run[], running: number = runs.length): Promise<Endless> {
  const ended: string[] = [];
  let begun = 0;
  const controller = new AbortController();
  const onLog = (): void => {
    begun += 1;
  };
  const all = runs.map((run) => run({ signal: controller.signal, onLog }).then((result) => ended.push(codeOf(result))));
  onTestFinished(async () => {
    controller.abort();
    await Promise.all(all);
  });
  await expect.poll(() => begun, { timeout: LONG_MS }).toBeGreaterThanOrEqual(running);
  await pause(DEMOTION_MS);
  return { ended, begun: () => begun };
}

/** Starts calls of a tool that computes without end. Those in Python take a process each: at least one runs, and some wait for it. */
async function startLoops(tenantId: string, language: Language, count: number, name = "loop"): Promise<Endless> {
  await glovebox.addTool({ name, source: LOOP[language], language }, { tenantId });
  const loop: Run = (options) => glovebox.execute({ id: "l", toolName: name }, { ...options, tenantId });
  const running = language === "python" ? 1 : count;
  return await startEndless(
    Array.from({ length: count }, () => loop),
    running,
  );
}

async function expectAnswers(tenantId: string, toolName: string): Promise<void> {
  for (let n = 0; n < CALLS; n += 1) {
    const result = await glovebox.execute({ id: "a", toolName, arguments: { n } }, { tenantId });
    expect(outputOf(result)).toBe(n + 1);
  }
}

const SITUATIONS: readonly (readonly [language: Language, count: number, loops: Language])[] = [
  ["python", 4, "python"],
  ["python", 4, "javascript"],
  ["javascript", 4, "python"],
  ["javascript", 4, "javascript"],
];

describe("next to a tool that computes without end", () => {
  test.for(SITUATIONS)("calls of a tool in %s end while %i calls in %s go on", async ([language, count, loops]) => {
    const tenantId = newTenant();
    await glovebox.addTool({ name: "add", source: ADD[language], language }, { tenantId });
    // The tool is known, and has a process that the other one may take.
    await expectAnswers(tenantId, "add");
    const { ended } = await startLoops(tenantId, loops, count);
    await expectAnswers(tenantId, "add");
    expect(ended).toEqual([]);
  });

  test("calls of a tool in Python that is called for the first time end", async () => {
    const tenantId = newTenant();
    await glovebox.addTool({ name: "add", source: ADD.python, language: "python" }, { tenantId });
    const { ended } = await startLoops(tenantId, "python", 1);
    await expectAnswers(tenantId, "add");
    expect(ended).toEqual([]);
  });

  test("calls of a tool in Python end while two tools in Python compute without end", async () => {
    const tenantId = newTenant();
    await glovebox.addTool({ name: "add", source: ADD.python, language: "python" }, { tenantId });
    const first = await startLoops(tenantId, "python", 2);
    await glovebox.addTool({ name: "loop2", source: `${LOOP.python}\n# 2`, language: "python" }, { tenantId });
    const second = await startEndless([
      (options) => glovebox.execute({ id: "l", toolName: "loop2" }, { ...options, tenantId }),
    ]);
    await expectAnswers(tenantId, "add");
    expect([...first.ended, ...second.ended]).toEqual([]);
  });

  test("calls of that tool in Python get no more processes than an owner may have", async () => {
    const tenantId = newTenant();
    await glovebox.addTool({ name: "add", source: ADD.python, language: "python" }, { tenantId });
    const { begun } = await startLoops(tenantId, "python", availableParallelism() + 2);
    // Each of these leaves a process idle that the waiting calls must not take.
    await expectAnswers(tenantId, "add");
    expect(begun()).toBeLessThanOrEqual(availableParallelism());
  });
});

describe("sessions next to", () => {
  const ADD_CELL = { typescript: "x += 1; x", python: "x += 1\nx" } as const;
  const LOOP_CELL = {
    typescript: "console.log('begun'); for (;;);",
    python: "import asyncio\nprint('begun')\nawait asyncio.sleep(0)\nwhile True:\n    pass",
  } as const;
  type SessionLanguage = keyof typeof ADD_CELL;
  const LANGUAGES = ["typescript", "python"] as const;

  async function open(tenantId: string, language: SessionLanguage): Promise<Session> {
    const session = await glovebox.openSession({ tenantId, language });
    onTestFinished(() => session.close());
    expect(codeOf(await session.run(language === "python" ? "x = 0" : "let x = 0"))).toBe("ok");
    return session;
  }

  async function expectCells(session: Session, language: SessionLanguage): Promise<void> {
    for (let n = 1; n <= CALLS; n += 1) expect(outputOf(await session.run(ADD_CELL[language]))).toBe(n);
  }

  const PAIRS = LANGUAGES.flatMap((language) => LANGUAGES.map((loops) => [language, loops] as const));

  test.for(PAIRS)("sessions that compute without end: those in %s go on, those in %s loop", async (languages) => {
    const [language, loops] = languages;
    const tenantId = newTenant();
    const session = await open(tenantId, language);
    const looping = await Promise.all([open(tenantId, loops), open(tenantId, loops)]);
    const { ended } = await startEndless(looping.map((other) => (options) => other.run(LOOP_CELL[loops], options)));
    await expectCells(session, language);
    await expectCells(await open(tenantId, language), language);
    expect(ended).toEqual([]);
  });

  test.for([
    ["typescript", "python"],
    ["python", "python"],
    ["typescript", "javascript"],
    ["python", "javascript"],
  ] as const)("tools that compute without end: a session in %s, tools in %s", async ([language, loops]) => {
    const tenantId = newTenant();
    const session = await open(tenantId, language);
    const { ended } = await startLoops(tenantId, loops, 4);
    await expectCells(session, language);
    await expectCells(await open(tenantId, language), language);
    expect(ended).toEqual([]);
  });
});
