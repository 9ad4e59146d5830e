// glovebox doctor on this machine: every layer that holds is shown by a denied action.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { diagnose } from "../../../src/host/doctor/doctor.ts";
import { BUILT_IN_LAYERS, LAYER_NAMES } from "../../../src/host/workers/hardening/layers.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

describe("diagnose()", () => {
  test("shows each layer with evidence, and four hostile tools that were stopped", async () => {
    const { layers, tools, ok } = await diagnose();
    expect(layers.map(({ layer }) => layer)).toEqual(LAYER_NAMES);
    const states = new Map(layers.map(({ layer, state }) => [layer, state]));
    for (const layer of BUILT_IN_LAYERS) expect([layer, states.get(layer)]).toEqual([layer, "holds"]);
    expect(layers.filter(({ state }) => state === "broken")).toEqual([]);
    for (const { state, evidence } of layers) if (state === "holds") expect(evidence).not.toBe("");
    for (const { state, evidence } of layers) if (state === "missing") expect(evidence).toMatch(/^to get it: /);
    expect(tools.filter((tool) => !tool.ok)).toEqual([]);
    expect(ok).toBe(true);
    await using glovebox = await makeGlovebox();
    expect(Object.fromEntries(states)).toEqual(glovebox.hardening);
  });
});

describe("glovebox doctor", () => {
  test("prints its findings, and exits with 0 if all active layers hold", async () => {
    const main = fileURLToPath(new URL("../../../src/cli/main.ts", import.meta.url));
    // A failure says which layer or attack it was, or by which signal the command ended.
    const ended = await promisify(execFile)(process.execPath, [main, "doctor"]).catch((thrown: object) => thrown);
    const { code = 0, signal = null, stdout, stderr } = ended as { [field: string]: unknown };
    expect({ code, signal, stderr }, String(stdout)).toEqual({ code: 0, signal: null, stderr: "" });
    for (const layer of LAYER_NAMES) expect(stdout).toContain(layer);
    expect(stdout).toMatch(/read file: ERR_ACCESS_DENIED/);
    expect(stdout).toMatch(/an endless loop: TOOL_TIMEOUT/);
  });
});
