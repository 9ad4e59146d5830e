// Attacks in Python, in the tables of python/. Each must end with its expected code, a responsive host and bounded memory.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PartialLimits } from "../../src/sandbox/contract/limits.ts";
import { sampleAttacks } from "../support/attack-sample.ts";
import { expectIdle } from "../support/processes.ts";
import { DEATH_MS, MemoryWatch, promptly } from "./assertions.ts";
import { CPU_ATTACKS } from "./python/cpu.ts";
import { PROBES } from "./python/escape.ts";
import { BOMB_MEMORY_MIB, MEMORY_ATTACKS, REJECTED_BOMBS } from "./python/memory.ts";
import { OUTPUT_ATTACKS } from "./python/output.ts";
import { SPOILS_OWN_RESULT, TRACES } from "./python/state.ts";
import { PythonArena, type PythonAttack, type PythonProbe } from "./python/support.ts";

/** Timeout in ms of the preparation, on a machine that other work keeps busy. */
const PATIENCE_MS = 400_000;
/** An attack needs its own interpreter, which takes a second to start, so a run takes a sample of this size. */
const SHARE = 8;

let arena: PythonArena;
let memory: MemoryWatch;
/** The largest limit of an attack; the interpreter itself is another 128 MiB. */
const MEMORY_MIB = 256 + 128;

beforeAll(async () => {
  arena = await PythonArena.open();
  memory = new MemoryWatch(() => arena.glovebox.workerPids, MEMORY_MIB);
}, PATIENCE_MS);
afterAll(async () => {
  memory[Symbol.dispose]();
  await arena[Symbol.asyncDispose]();
});

/** Those that do no harm share an interpreter; the others have one each. */
const outputAttacks = [
  ...OUTPUT_ATTACKS.filter(({ isHarmless }) => isHarmless),
  ...sampleAttacks(
    OUTPUT_ATTACKS.filter(({ isHarmless }) => !isHarmless),
    0,
    SHARE,
  ),
];

const GROUPS: readonly (readonly [string, readonly PythonAttack[]])[] = [
  ["time", sampleAttacks(CPU_ATTACKS, 0, SHARE)],
  ["memory", sampleAttacks(MEMORY_ATTACKS, 0, SHARE)],
  ["what leaves it", outputAttacks],
];

describe.for(GROUPS)("an attack in Python on %s", ([, attacks]) => {
  test.for(attacks.map((attack) => [attack.name, attack] as const))("%s", { timeout: PATIENCE_MS }, ([, attack]) =>
    promptly(() => arena.strike(attack)),
  );

  test("leaves nothing running, its memory bounded and others served", async () => {
    await arena.expectServed();
    await expectIdle(() => arena.glovebox.workerPids, DEATH_MS);
    await memory.expectBounded();
  });
});

const PROBE_GROUPS: readonly (readonly [string, readonly PythonProbe[], PartialLimits?])[] = [
  ["a way out of Python", PROBES],
  ["a bomb that Python itself rejects", sampleAttacks(REJECTED_BOMBS, 1, 2), { memoryMiB: BOMB_MEMORY_MIB }],
];

describe.for(PROBE_GROUPS)("%s", ([group, probes, limits]) => {
  let answers: readonly string[];
  beforeAll(async () => {
    answers = await arena.tryAll(
      probes.map(([, code]) => code),
      group,
      limits,
    );
  }, PATIENCE_MS);

  test.for(probes.map(([name, , answer], index) => [name, answer, index] as const))("%s", ([, answer, index]) => {
    expect(answers[index]).toMatch(answer);
  });
});

describe("what a run in Python leaves behind", () => {
  const reads = TRACES.map(([, , read]) => read);
  const found: (readonly string[])[] = [];
  beforeAll(async () => {
    const honest = TRACES.filter(([name]) => !SPOILS_OWN_RESULT.test(name)).map(([, write]) => write);
    const left = await arena.tryAll(honest, "leaves");
    expect(left.filter((answer) => answer.startsWith("raised"))).toEqual([]);
    for (const [name, write] of TRACES) if (SPOILS_OWN_RESULT.test(name)) await arena.run(write, "leaves");
    found.push(await arena.tryAll(reads, "leaves"), await arena.tryAll(reads, "another tenant"));
  }, PATIENCE_MS);

  test.for(TRACES.map(([name, , , clean], index) => [name, clean, index] as const))("%s", ([, clean, index]) => {
    for (const answers of found) expect(answers[index]).toMatch(clean);
    expect(found).toHaveLength(2);
  });
});
