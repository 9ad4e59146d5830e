import { describe, expect, test } from "vitest";
import { PACE_CPU_MS, ToolPaces } from "../../../src/host/workers/scheduling/tool-pace.ts";
import type { WorkerToolProfile } from "../../../src/sandbox/protocol/host-messages.ts";

const newProfile = (): WorkerToolProfile => ({}) as WorkerToolProfile;
const recordTimes = (paces: ToolPaces, profile: WorkerToolProfile, times: number, cpuMs: number): void => {
  for (let n = 0; n < times; n += 1) paces.record(profile, cpuMs);
};

describe("ToolPaces", () => {
  test("knows a tool as short after three short calls", () => {
    const paces = new ToolPaces();
    const profile = newProfile();
    recordTimes(paces, profile, 2, 1);
    paces.record(profile, 20);
    recordTimes(paces, profile, 1, 1);
    expect(paces.paceOf(profile)).toBe("unknown");
    paces.record(profile, 1);
    expect(paces.paceOf(profile)).toBe("short");
    expect(paces.paceOf(newProfile())).toBe("unknown");
  });

  test("takes half of its proof from a tool for a call that is neither short nor long", () => {
    const paces = new ToolPaces();
    const profile = newProfile();
    recordTimes(paces, profile, 16, 1);
    for (const expected of ["short", "short", "unknown"]) {
      paces.record(profile, 20);
      expect(paces.paceOf(profile)).toBe(expected);
    }
  });

  test("counts an unknown tool's time that may belong to other calls only if it is short or long", () => {
    const paces = new ToolPaces();
    const profile = newProfile();
    recordTimes(paces, profile, 2, 1);
    paces.record(profile, 20, true);
    paces.record(profile, 1, true);
    expect(paces.paceOf(profile)).toBe("short");
    const other = newProfile();
    paces.record(other, 60, true);
    expect(paces.paceOf(other)).toBe("long");
  });

  test("knows a Python tool as short though each of its calls takes tens of ms", () => {
    const paces = new ToolPaces();
    const profile = newProfile();
    for (let n = 0; n < 3; n += 1) paces.record(profile, 40, false, PACE_CPU_MS.python);
    expect(paces.paceOf(profile)).toBe("short");
    paces.record(profile, 600, false, PACE_CPU_MS.python);
    expect(paces.paceOf(profile)).toBe("long");
  });

  test("knows a tool as long after one long call, until it has proved otherwise", () => {
    const paces = new ToolPaces();
    const profile = newProfile();
    paces.record(profile, 50);
    expect(paces.paceOf(profile)).toBe("long");
    recordTimes(paces, profile, 3, 1);
    expect(paces.paceOf(profile)).toBe("short");
  });

  test("ignores a long time that may belong to other calls", () => {
    const paces = new ToolPaces();
    const profile = newProfile();
    recordTimes(paces, profile, 3, 1);
    paces.record(profile, 60, true);
    paces.record(profile, 10, true);
    expect(paces.paceOf(profile)).toBe("short");
    paces.record(profile, 60);
    expect(paces.paceOf(profile)).toBe("long");
  });

  test("requires twice as many short calls each time that a short tool was long after all", () => {
    const paces = new ToolPaces();
    const profile = newProfile();
    recordTimes(paces, profile, 3, 1);
    for (const proof of [6, 12, 24]) {
      paces.recordLong(profile);
      recordTimes(paces, profile, proof - 1, 1);
      expect(paces.paceOf(profile)).toBe("long");
      paces.record(profile, 1);
      expect(paces.paceOf(profile)).toBe("short");
    }
  });
});
