// Calls under a debugger, with real processes and isolates: a call that stands at a breakpoint can be stopped at any time.
import { expect, test } from "vitest";
import { createInspectedGlovebox } from "../../../src/host/glovebox/create-glovebox.ts";
import type { InspectedIsolate, Inspector } from "../../../src/host/workers/process/inspected-isolate.ts";
import { outputOf } from "../../support/host-zone.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

type Json = { readonly [key: string]: unknown };

/** A debugger that stops each call at the tool's `debugger` statement. */
class Debugger implements Inspector {
  readonly closed = new Set<InspectedIsolate>();
  isolates: InspectedIsolate[] = [];
  #onPaused: () => void = () => {};
  #onResponse: (response: Json) => void = () => {};
  #wakeUps: NodeJS.Timeout | undefined;

  onOpened(isolate: InspectedIsolate): void {
    this.isolates.at(-1)?.release();
    this.isolates.push(isolate);
    for (const [index, method] of ["Runtime.enable", "Debugger.enable"].entries()) this.#request(index + 1, method);
    isolate.go();
  }

  onMessage(isolate: InspectedIsolate, text: string): void {
    const message = JSON.parse(text) as Json;
    if (isolate !== this.isolates.at(-1)) return;
    if (message.method === "Debugger.paused") this.#onPaused();
    if (message.id === 100) this.#onResponse(message);
  }

  onClosed(isolate: InspectedIsolate): void {
    this.closed.add(isolate);
  }

  #request(id: number, method: string): void {
    this.isolates.at(-1)?.send(JSON.stringify({ id, method }));
  }

  whenPaused(): Promise<void> {
    return new Promise((resolve) => {
      this.#onPaused = resolve;
    });
  }

  /** Sends a request to the paused isolate. isolated-vm can handle a request only when a later one arrives, so others follow. */
  async ask(method: string): Promise<Json> {
    const response = new Promise<Json>((resolve) => {
      this.#onResponse = resolve;
    });
    this.#request(100, method);
    this.#wakeUps = setInterval(() => this.#request(101, "Runtime.getIsolateId"), 20);
    try {
      return await response;
    } finally {
      clearInterval(this.#wakeUps);
    }
  }
}

test("calls that are cancelled at a breakpoint leave the debugger of the next call its isolate", async () => {
  const inspector = new Debugger();
  await using glovebox = await createInspectedGlovebox(
    { limits: PATIENT_LIMITS, workers: { warmProcesses: 1 } },
    inspector,
  );
  await glovebox.addTool({ name: "stops", source: "export default ({ n }) => { debugger; return { n }; }" });
  for (let n = 0; n < 15; n += 1) {
    const paused = inspector.whenPaused();
    const cancel = new AbortController();
    const call = { id: `c${n}`, toolName: "stops", arguments: { n } };
    const result = glovebox.execute(call, { signal: cancel.signal });
    await paused;
    expect(await inspector.ask("Runtime.getHeapUsage")).toMatchObject({ result: { usedSize: expect.any(Number) } });
    expect(inspector.closed).not.toContain(inspector.isolates.at(-1));
    cancel.abort();
    expect(await result).toMatchObject({ success: false, error: { code: "CANCELLED" } });
  }
  // Each had a process of its own, which has ended with it.
  await expect.poll(() => inspector.closed.size, { timeout: 60_000 }).toBe(15);
});

test("the isolate of an ended call can be inspected until the next call; the process of the call takes no others", async () => {
  const inspector = new Debugger();
  await using glovebox = await createInspectedGlovebox(
    { limits: PATIENT_LIMITS, workers: { warmProcesses: 1 } },
    inspector,
  );
  await glovebox.addTool({ name: "keeps", source: "globalThis.kept = 0; export default () => ({ kept: ++kept });" });
  for (let n = 1; n <= 3; n += 1) {
    const result = await glovebox.execute({ id: `c${n}`, toolName: "keeps", arguments: {} });
    expect(outputOf(result)).toEqual({ kept: 1 });
    expect(inspector.isolates).toHaveLength(n);
    await expect.poll(() => inspector.closed.size, { timeout: 60_000 }).toBe(n - 1);
  }
});
