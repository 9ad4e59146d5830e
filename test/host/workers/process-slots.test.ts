// Process slots: which owner gets one when none is free, and that a failure to get one does not stop other calls.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import type { ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const SLEEP = "export default async ({ ms }) => { await new Promise((done) => setTimeout(done, ms)); return ms; }";
/** Only SIGKILL of the process stops it. */
const HANG = "export default () => Array.prototype.indexOf.call({ length: 2 ** 53 - 1 }, 1);";

async function gloveboxOf(options: GloveboxOptions, tenants: readonly string[], tools: object): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", ...options });
  onTestFinished(() => glovebox.close());
  for (const tenantId of tenants) {
    for (const [name, source] of Object.entries(tools)) await glovebox.addTool({ name, source }, { tenantId });
  }
  return glovebox;
}

const call = (
  glovebox: Glovebox,
  toolName: string,
  tenantId: string,
  ms: number,
  timeoutMs = 60_000,
): Promise<ToolResult> => glovebox.execute({ id: "c", toolName, arguments: { ms } }, { tenantId, timeoutMs });

describe("WorkerPool with one process slot", () => {
  test("gives it to the next owner when its calls have ended, though its owner has more calls", async () => {
    const glovebox = await gloveboxOf({ workers: { max: 1, warmProcesses: 0 } }, ["busy", "other"], { sleep: SLEEP });
    let isOver = false;
    const keepBusy = async (): Promise<void> => {
      while (!isOver) await call(glovebox, "sleep", "busy", 50);
    };
    const busy = [keepBusy(), keepBusy(), keepBusy()];
    const other = await call(glovebox, "sleep", "other", 1);
    isOver = true;
    await Promise.all(busy);
    expect(codeOf(other)).toBe("ok");
  });

  test("lets an owner's calls pass its own definition extraction that waits for a process", async () => {
    // With a cache, another test could have built the same source.
    const glovebox = await gloveboxOf({ cache: false, workers: { max: 1, warmProcesses: 0 } }, ["acme"], {
      sleep: SLEEP,
    });
    // The process belongs to the first call until that ends.
    const stop = new AbortController();
    const long = glovebox.execute(
      { id: "long", toolName: "sleep", arguments: { ms: 120_000 } },
      { tenantId: "acme", timeoutMs: 120_000, signal: stop.signal },
    );
    let isLearned = false;
    const learning = glovebox
      .addTool({ name: "late", source: "export default () => 1" }, { tenantId: "acme" })
      .then((tool) => {
        isLearned = true;
        return tool;
      });
    expect(codeOf(await call(glovebox, "sleep", "acme", 1))).toBe("ok");
    expect(isLearned).toBe(false);
    stop.abort();
    expect(codeOf(await long)).toBe("CANCELLED");
    await expect(learning).resolves.toMatchObject({ name: "late" });
  });
});

describe("a process in which a call will not stop", () => {
  test("gets no more calls: the next one runs elsewhere", async () => {
    const glovebox = await gloveboxOf({ workers: { max: 4 } }, ["acme"], { sleep: SLEEP, hang: HANG });
    const hung = await Promise.all([call(glovebox, "hang", "acme", 0, 300), call(glovebox, "hang", "acme", 0, 300)]);
    expect(hung.map(codeOf)).toEqual(["TOOL_TIMEOUT", "TOOL_TIMEOUT"]);
    expect(outputOf(await call(glovebox, "sleep", "acme", 400))).toBe(400);
  });
});

describe("a host without file descriptors", () => {
  const SCRIPT = fileURLToPath(new URL("../../support/descriptors-script.ts", import.meta.url));

  test("answers OVERLOADED, stays alive, and serves calls again when some are free", async () => {
    const child = spawn("sh", ["-c", `ulimit -n 128; exec "${process.execPath}" "${SCRIPT}"`], {
      stdio: ["ignore", "pipe", "inherit"],
      // Must run before the test times out, because nothing else ends the process.
      timeout: 240_000,
      killSignal: "SIGKILL",
    });
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    const [code] = await once(child, "exit");
    expect([code, stdout]).toEqual([0, "OVERLOADED\nok\n"]);
  });
});
