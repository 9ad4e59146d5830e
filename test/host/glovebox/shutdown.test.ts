// A host that receives a stop signal while calls run: every call gets its result first, and no process is left.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { constants } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import { closeOnSignals } from "../../../src/host/glovebox/shutdown.ts";
import { codeOf, makeGlovebox } from "../../support/host-zone.ts";
import { expectDead } from "../../support/processes.ts";
import { watchRejections } from "../../support/unhandled-rejections.ts";

const SCRIPT = fileURLToPath(new URL("../../support/shutdown-script.ts", import.meta.url));

interface Line {
  readonly id?: string;
  readonly code?: string;
  readonly pids?: readonly number[];
}

interface Ended {
  /** Each call's code, in the order in which the host printed them. */
  readonly said: ReadonlyMap<string, string | undefined>;
  readonly pids: readonly number[];
  readonly exit: readonly [exitCode: number | null, signal: NodeJS.Signals | null];
}

/** Runs a host and sends it SIGTERM after each of the lines that `isCue` accepts. */
async function endHost(drainMs: number, mode: "alone" | "listener", isCue: (line: Line) => boolean): Promise<Ended> {
  const host = spawn(process.execPath, [SCRIPT, String(drainMs), mode], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void host.kill("SIGKILL"));
  const exit = once(host, "exit") as Promise<[number | null, NodeJS.Signals | null]>;
  const said = new Map<string, string | undefined>();
  let pids: readonly number[] = [];
  for await (const text of createInterface({ input: host.stdout })) {
    const line = JSON.parse(text) as Line;
    if (line.id !== undefined) said.set(line.id, line.code);
    if (line.pids !== undefined) pids = line.pids;
    if (isCue(line)) host.kill("SIGTERM");
  }
  return { said, pids, exit: await exit };
}

const areRunning = ({ pids }: Line): boolean => pids !== undefined;

describe("SIGTERM", () => {
  test("lets calls finish and rejects new ones; sent again, it ends what runs at once, and then the process", async () => {
    // The first signal alone would end the host after five minutes.
    const { said, pids, exit } = await endHost(300_000, "alone", (line) => areRunning(line) || line.id === "soon");
    expect([...said].slice(0, 2)).toEqual([
      ["late", "TOOL_UNAVAILABLE"],
      ["soon", "ok"],
    ]);
    expect(Object.fromEntries([...said].slice(2))).toEqual({ never: "CANCELLED", loop: "CANCELLED" });
    expect(exit).toEqual([null, "SIGTERM"]);
    await expectDead(pids);
  });

  test("ends what still runs after drainMs, and leaves the end of the process to a host that listens too", async () => {
    const { said, exit } = await endHost(300, "listener", areRunning);
    expect([...said.keys()]).toContain("heard");
    expect([said.get("never"), said.get("loop")]).toEqual(["CANCELLED", "CANCELLED"]);
    expect([...said.keys()].at(-1)).toBe("closed");
    expect(exit).toEqual([7, null]);
  });
});

test("a glovebox whose close() throws keeps no other from being closed", async () => {
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
  await using glovebox = await makeGlovebox(options);
  expect(count()).toEqual(before);
  if (Object.keys(options).length > 0) return;
  await glovebox.addTool({ name: "one", source: "export default () => 1" });
  expect(codeOf(await glovebox.execute({ id: "c", toolName: "one" }))).toBe("ok");
  expect(count()).toEqual(before);
});

describe("Glovebox.close()", () => {
  test("waits for what runs, and rejects new calls", async () => {
    const opened = Promise.withResolvers<null>();
    const asked = Promise.withResolvers<void>();
    const gate = defineCapability({
      name: "gate",
      inputSchema: {},
      outputSchema: {},
      handler: () => {
        asked.resolve();
        return opened.promise;
      },
    });
    await using glovebox = await makeGlovebox({ capabilities: [gate], limits: { timeoutMs: 60_000 } });
    await glovebox.addTool({ name: "waits", source: "export default (_, ctx) => ctx.gate()" }, { grant: ["gate"] });
    const call = () => glovebox.execute({ id: "c", toolName: "waits" });
    const running = call();
    await asked.promise;
    const closing = glovebox.close({ drainMs: 60_000 });
    expect(codeOf(await call())).toBe("TOOL_UNAVAILABLE");
    opened.resolve(null);
    expect(codeOf(await running)).toBe("ok");
    await closing;
  });

  test("ends what runs when drainMs has passed", async () => {
    await using glovebox = await makeGlovebox({ limits: { timeoutMs: 60_000 } });
    await glovebox.addTool({ name: "never", source: "export default () => new Promise(() => {})" });
    const running = glovebox.execute({ id: "c", toolName: "never" });
    await glovebox.close({ drainMs: 100 });
    expect(codeOf(await running)).toBe("CANCELLED");
  });

  test("leaves no listener for signals behind", async () => {
    const before = process.listenerCount("SIGTERM");
    const shutdown = { signals: ["SIGTERM"] } as const;
    const gloveboxes = await Promise.all([makeGlovebox({ shutdown }), makeGlovebox({ shutdown })]);
    expect(process.listenerCount("SIGTERM")).toBe(before + 1);
    await Promise.all(gloveboxes.map((glovebox) => glovebox.close()));
    expect(process.listenerCount("SIGTERM")).toBe(before);
  });
});
