// A program that embeds the library with four executors: bytes, streams, progress, capabilities of the host, cancellation, and where calls run.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import * as z from "zod";
import { type CallContext, type CallRecording, defineCapability, type ToolResult } from "../../src/host/index.ts";
import { type Fleet, openFleet } from "../support/fleet.ts";
import { hasNatsServer } from "../support/nats-server.ts";

const TOOLS: { readonly [name: string]: { readonly source: string; readonly grant?: readonly string[] } } = {
  progress: {
    source:
      "export default async (_, ctx) => { for (const progress of [1, 2, 3]) ctx.progress({ progress, total: 3 }); return 'done' }",
  },
  waits: { source: "export default () => new Promise((resolve) => setTimeout(resolve, 280_000))" },
  streams: {
    source: `export default async function* ({ chunks }) {
      for (let index = 0; index < chunks; index += 1) yield { index, text: "x".repeat(index) };
      yield new Uint8Array([1, 2, 3]);
    }`,
  },
  bytes: {
    source: "export default ({ data }) => ({ data: data.map((byte) => byte ^ 255), type: data.constructor.name })",
  },
  counts: {
    source: `export const capabilities = { kv: true };
      export default async ({ key }, { kv }) => { const old = (await kv.get(key)) ?? 0; await kv.set(key, old + 1); return old + 1; }`,
    grant: ["kv"],
  },
  doubles: {
    source: "export const capabilities = { double: true }; export default ({ n }, ctx) => ctx.double({ n })",
    grant: ["double"],
  },
};

const double = defineCapability({
  name: "double",
  inputSchema: z.object({ n: z.number() }),
  outputSchema: z.number(),
  handler: ({ n }) => n * 2,
});

const busyOf = (fleet: Fleet): number => fleet.host.fleet.executors.reduce((sum, { busy }) => sum + busy, 0);

describe.skipIf(!hasNatsServer)("a fleet", () => {
  let fleet: Fleet;
  const ids = ["one", "two", "three", "four"];
  const call = async (toolName: string, args: unknown, context?: CallContext): Promise<ToolResult> =>
    await fleet.host.execute({ id: "call", toolName, arguments: args as never }, context);

  beforeAll(async () => {
    const limits = { timeoutMs: 300_000, inputBytes: 4 * 1024 * 1024, outputBytes: 8 * 1024 * 1024 };
    fleet = await openFleet({ executors: ids, host: { capabilities: [double], limits, workers: { max: 4 } } });
    await Promise.all(ids.map((id) => fleet.start(id)));
    for (const [name, { source, grant = [] }] of Object.entries(TOOLS))
      await fleet.host.addTool({ name, source }, { grant });
  });
  afterAll(async () => {
    await fleet?.[Symbol.asyncDispose]();
  });

  test("passes bytes, more of them than fit into a message, to the tool and back", async () => {
    const data = Uint8Array.from({ length: 600_000 }, (_, index) => index % 251);
    const result = await call("bytes", { data });
    expect(result).toMatchObject({
      success: true,
      output: { data: data.map((byte) => byte ^ 255), type: "Uint8Array" },
    });
  });

  test("runs capabilities of the host, and its key-value store", async () => {
    expect(await call("doubles", { n: 21 })).toMatchObject({ success: true, output: 42 });
    expect(await call("counts", { key: "k" })).toMatchObject({ success: true, output: 1 });
    expect(await call("counts", { key: "k" })).toMatchObject({ success: true, output: 2 });
  });

  test("streams chunks in order, more of them than fit into the window, and chunks with bytes", async () => {
    const items: unknown[] = [];
    for await (const item of fleet.host.stream({ id: "s", toolName: "streams", arguments: { chunks: 700 } })) {
      if (item.type === "chunk") items.push(item.value);
    }
    const chunks = Array.from({ length: 700 }, (_, index) => ({ index, text: "x".repeat(index) }));
    expect(items).toEqual([...chunks, new Uint8Array([1, 2, 3])]);
  });

  test("reports progress in order", async () => {
    const reports: number[] = [];
    const onProgress = ({ progress }: { readonly progress: number }): void => void reports.push(progress);
    expect(await call("progress", {}, { onProgress })).toMatchObject({ output: "done" });
    expect(reports).toEqual([1, 2, 3]);
  });

  test("cancels a call, and its slot becomes free", async () => {
    const cancelled = new AbortController();
    const result = call("waits", {}, { signal: cancelled.signal, timeoutMs: 300_000 });
    await vi.waitFor(() => expect(busyOf(fleet)).toBe(1));
    cancelled.abort();
    expect(await result).toMatchObject({ error: { code: "CANCELLED" } });
    await vi.waitFor(() => expect(busyOf(fleet)).toBe(0));
  });

  test("spreads calls of one tenant over the executors when the preferred one has its share", async () => {
    const cancelled = new AbortController();
    const context = { signal: cancelled.signal, timeoutMs: 300_000 };
    const results = Array.from({ length: 8 }, () => call("waits", {}, context));
    await vi.waitFor(() => expect(busyOf(fleet)).toBe(8));
    // At most 1.25 times the mean, rounded up.
    for (const { busy } of fleet.host.fleet.executors) expect(busy).toBeLessThanOrEqual(3);
    cancelled.abort();
    await Promise.all(results);
  });

  test("runs sessions, whose isolates are on executors", async () => {
    const session = await fleet.host.openSession();
    expect(await session.run("globalThis.kept = 41")).toMatchObject({ success: true });
    expect(await session.run("kept + 1")).toMatchObject({ success: true, output: 42 });
    const begun = Promise.withResolvers<void>();
    const code = "console.log('begun'); await new Promise((resolve) => setTimeout(resolve, 600_000))";
    const running = session.run(code, { onLog: () => begun.resolve() });
    await begun.promise;
    await vi.waitFor(() => expect(busyOf(fleet)).toBe(1));
    await session.close();
    expect(await running).toMatchObject({ success: false, error: { code: "CANCELLED" } });
  });

  test("records a call and replays it", async () => {
    let recording: CallRecording | undefined;
    const onRecording = (made: CallRecording): void => {
      recording = made;
    };
    const result = await fleet.host.execute(
      { id: "r", toolName: "counts", arguments: { key: "r" } },
      { record: { onRecording } },
    );
    expect(result).toMatchObject({ success: true, output: 1 });
    await vi.waitFor(() => expect(recording).toBeDefined());
    const replayed = await fleet.host.replay(recording as CallRecording);
    expect(replayed.result).toMatchObject({ success: true, output: 1 });
  });
});
