// A host that is told to end by a signal, with calls in it: every call has its result first, and no process is left.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, test, vi } from "vitest";
import type { GloveboxOptions } from "../../src/host/config.ts";
import { closeOnSignals } from "../../src/host/shutdown.ts";
import { codeOf, makeBox } from "../support/host-zone.ts";
import { expectDead } from "../support/processes.ts";
import { watchRejections } from "../support/unhandled-rejections.ts";

const SCRIPT = fileURLToPath(new URL("../support/shutdown-script.ts", import.meta.url));

interface Ended {
  readonly said: ReadonlyMap<string, string | undefined>;
  readonly pids: readonly number[];
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly durationMs: number;
}

interface Line {
  readonly id?: string;
  readonly code?: string;
  readonly pids?: readonly number[];
}

/** Sends SIGTERM as often as is said, as soon as the calls run. */
async function endHost(drainMs: number, mode: "alone" | "listener", signals = 1): Promise<Ended> {
  const host = spawn(process.execPath, [SCRIPT, String(drainMs), mode], { stdio: ["ignore", "pipe", "inherit"] });
  const exit = once(host, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const said = new Map<string, string | undefined>();
  let pids: readonly number[] = [];
  let began = 0;
  for await (const text of createInterface({ input: host.stdout })) {
    const line = JSON.parse(text) as Line;
    if (line.id !== undefined) said.set(line.id, line.code);
    if (line.pids === undefined) continue;
    pids = line.pids;
    began = performance.now();
    for (let sent = 0; sent < signals; sent += 1) {
      host.kill("SIGTERM");
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
  }
  const [exitCode, signal] = await exit;
  return { said, pids, exitCode, signal, durationMs: performance.now() - began };
}

describe("SIGTERM", () => {
  test("lets calls finish for a bounded time, ends the rest with results, and then the process", async () => {
    const { said, pids, signal, durationMs } = await endHost(2_000, "alone");
    expect(Object.fromEntries(said)).toEqual({
      late: "TOOL_UNAVAILABLE",
      soon: "ok",
      never: "CANCELLED",
      loop: "CANCELLED",
    });
    expect(signal).toBe("SIGTERM");
    expect(durationMs).toBeGreaterThan(1_900);
    expect(durationMs).toBeLessThan(5_000);
    await expectDead(pids);
  });

  test("sent again, ends what runs at once", async () => {
    const { said, signal, durationMs } = await endHost(60_000, "alone", 2);
    expect([said.get("soon"), said.get("never"), said.get("loop")]).toEqual(["CANCELLED", "CANCELLED", "CANCELLED"]);
    expect(signal).toBe("SIGTERM");
    expect(durationMs).toBeLessThan(5_000);
  });

  test("leaves the end of the process to a host that listens too", async () => {
    const { said, exitCode, signal } = await endHost(300, "listener");
    expect([...said.keys()]).toContain("heard");
    expect(said.get("never")).toBe("CANCELLED");
    expect([...said.keys()].at(-1)).toBe("closed");
    expect([exitCode, signal]).toEqual([7, null]);
  });
});

test("a box whose close() throws keeps no other from being closed", async () => {
  const rejections = watchRejections();
  const closed = vi.fn(async () => {});
  const fail = (): never => {
    throw new Error("broken");
  };
  using _broken = closeOnSignals({ close: fail }, ["SIGUSR2"], 0);
  using _other = closeOnSignals({ close: closed }, ["SIGUSR2"], 0);
  process.emit("SIGUSR2");
  await vi.waitFor(() => expect(closed).toHaveBeenCalledOnce());
  expect(await rejections()).toEqual([]);
});

test.for<[given: GloveboxOptions]>([
  [{}],
  [{ shutdown: undefined }],
  [{ shutdown: {} }],
  [{ shutdown: { drainMs: 100 } }],
  [{ shutdown: { signals: [] } }],
  [{ shutdown: false }],
])("createGlovebox(%j) installs no signal handler", async ([options]) => {
  const count = (): Record<string, number> =>
    Object.fromEntries(Object.keys(constants.signals).map((signal) => [signal, process.listenerCount(signal)]));
  const before = count();
  await using box = await makeBox(options);
  await box.addTool({ name: "one", source: "export default () => 1" });
  expect(codeOf(await box.execute({ id: "c", toolName: "one" }))).toBe("ok");
  expect(count()).toEqual(before);
});

describe("Glovebox.close()", () => {
  const SLEEP = "export default ({ ms }) => new Promise((done) => setTimeout(done, ms, ms))";

  test("waits for what runs as long as it is told to", async () => {
    await using box = await makeBox();
    await box.addTool({ name: "sleep", source: SLEEP });
    const call = (ms: number) => box.execute({ id: "c", toolName: "sleep", arguments: { ms } }, { timeoutMs: 30_000 });
    const calls = [call(200), call(20_000)];
    const closing = box.close({ drainMs: 1_500 });
    const late = await call(1);
    await closing;
    expect((await Promise.all(calls)).map(codeOf)).toEqual(["ok", "CANCELLED"]);
    expect(codeOf(late)).toBe("TOOL_UNAVAILABLE");
  });

  test("leaves no listener for signals behind", async () => {
    const before = process.listenerCount("SIGTERM");
    const shutdown = { signals: ["SIGTERM"] } as const;
    const boxes = await Promise.all([makeBox({ shutdown }), makeBox({ shutdown })]);
    expect(process.listenerCount("SIGTERM")).toBe(before + 1);
    await Promise.all(boxes.map((box) => box.close()));
    expect(process.listenerCount("SIGTERM")).toBe(before);
  });
});
