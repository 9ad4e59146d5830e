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

const ADD_CELL = { typescript: "x += 1; x", python: "x += 1\nx" } as const;
const LOOP_CELL = {
  typescript: "console.log('begun'); for (;;);",
  python: "import asyncio\nprint('begun')\nawait asyncio.sleep(0)\nwhile True:\n    pass",
} as const;
type SessionLanguage = keyof typeof ADD_CELL;
const SESSION_LANGUAGES = ["typescript", "python"] as const;

async function open(tenantId: string, language: SessionLanguage): Promise<Session> {
  const session = await glovebox.openSession({ tenantId, language });
  onTestFinished(() => session.close());
  expect(codeOf(await session.run(language === "python" ? "x = 0" : "let x = 0"))).toBe("ok");
  return session;
}

async function expectCells(session: Session, language: SessionLanguage): Promise<void> {
  for (let n = 1; n <= CALLS; n += 1) expect(outputOf(await session.run(ADD_CELL[language]))).toBe(n);
}

async function startLoopingSessions(tenantId: string, language: SessionLanguage): Promise<Endless> {
  const sessions = await Promise.all([open(tenantId, language), open(tenantId, language)]);
  return await startEndless(sessions.map((session) => (options) => session.run(LOOP_CELL[language], options)));
}

/** Each kind of code that computes without end. Starting it is what costs, so all the others of its tenant run next to it. */
const LOOPING: readonly (readonly [what: string, start: (tenantId: string) => Promise<Endless>])[] = [
  ["four calls of a tool in JavaScript", (tenantId) => startLoops(tenantId, "javascript", 4)],
  ["four calls of a tool in Python", (tenantId) => startLoops(tenantId, "python", 4)],
  ["two sessions in TypeScript", (tenantId) => startLoopingSessions(tenantId, "typescript")],
  ["two sessions in Python", (tenantId) => startLoopingSessions(tenantId, "python")],
];

test.for(LOOPING)("tools and sessions in both languages go on while %s compute without end", async ([, start]) => {
  const tenantId = newTenant();
  // The tools are known, and have processes that the other code may take.
  for (const language of ["javascript", "python"] as const) {
    await glovebox.addTool({ name: `add-${language}`, source: ADD[language], language }, { tenantId });
    await expectAnswers(tenantId, `add-${language}`);
  }
  const sessions = await Promise.all(SESSION_LANGUAGES.map((language) => open(tenantId, language)));
  const { ended } = await start(tenantId);
  // At once: the longer the endless code runs, the more CPU time it takes from other tests.
  const calls = (["javascript", "python"] as const).map((language) => expectAnswers(tenantId, `add-${language}`));
  const cells = SESSION_LANGUAGES.flatMap((language, index) => [
    expectCells(sessions[index] as Session, language),
    open(tenantId, language).then((session) => expectCells(session, language)),
  ]);
  await Promise.all([...calls, ...cells]);
  expect(ended).toEqual([]);
});

describe("next to a tool that computes without end", () => {
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
