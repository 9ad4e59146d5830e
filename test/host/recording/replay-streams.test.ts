// Replays of streamed calls: their chunks are recorded and compared, not only the output.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { RecordOptions } from "../../../src/host/recording/record-options.ts";
import { type CallRecording, parseRecording } from "../../../src/host/recording/recording.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

/** Yields `n` chunks. `chunk` and `end` are expressions of the code under test. */
const rows = (chunk = "{ i }", end = "return { n };"): string => `
  export default async function* ({ n }) {
    for (let i = 0; i < n; i += 1) yield ${chunk};
    ${end}
  }`;

let glovebox: Glovebox;
beforeAll(async () => {
  const look = defineCapability({
    name: "look",
    description: "Returns a secret",
    inputSchema: z.strictObject({}),
    outputSchema: z.string(),
    handler: (_input, { redact }) => {
      redact("token", "s3cr3t-t0k3n-value");
      return "s3cr3t-t0k3n-value";
    },
  });
  glovebox = await makeGlovebox({ capabilities: [look] });
});
afterAll(() => glovebox.close());

let tools = 0;
async function addTool(source: string): Promise<string> {
  tools += 1;
  await glovebox.addTool({ name: `rows${tools}`, source }, { grant: ["look"] });
  return `rows${tools}`;
}

const change = async (toolName: string, source: string): Promise<unknown> =>
  await glovebox.updateTool({ name: toolName, source }, { grant: ["look"] });

interface Streamed {
  readonly recording: CallRecording;
  readonly chunks: readonly unknown[];
}

/** Records a streamed call, and reads all its chunks, or as many as `reads`. */
async function stream(
  toolName: string,
  n: number,
  more: Omit<RecordOptions, "onRecording"> = {},
  reads = Number.POSITIVE_INFINITY,
): Promise<Streamed> {
  const made: CallRecording[] = [];
  const chunks: unknown[] = [];
  const record = { ...more, onRecording: (recording: CallRecording): void => void made.push(recording) };
  for await (const item of glovebox.stream({ id: `call ${n}`, toolName, arguments: { n } }, { record })) {
    if (item.type === "chunk") chunks.push(item.value);
    if (chunks.length >= reads) break;
  }
  return { recording: parseRecording(JSON.parse(JSON.stringify(made[0]))), chunks };
}

/** Returns a recording as an earlier version made it. */
function withoutChunks({ chunks: _none, ...recording }: CallRecording): CallRecording {
  return recording;
}

describe("a replay of a streamed call", () => {
  test("is identical if the tool yields the same chunks, however many", async () => {
    const toolName = await addTool(rows('{ i, random: Math.random(), text: "x".repeat(i % 50 === 0 ? 50_000 : 10) }'));
    for (const n of [0, 1, 700]) {
      const { recording, chunks } = await stream(toolName, n);
      expect([chunks.length, recording.chunks?.count]).toEqual([n, n]);
      for (const match of ["position", "arguments"] as const) {
        expect(await glovebox.replay(recording, { match }), `${n} ${match}`).toMatchObject({ verdict: "identical" });
      }
    }
  });

  test("differs if other chunks come before the same output, and says where", async () => {
    const toolName = await addTool(rows());
    const { recording } = await stream(toolName, 4);
    expect(recording.chunks).toMatchObject({ count: 4, texts: ['{"i":0}', '{"i":1}', '{"i":2}', '{"i":3}'] });
    await change(toolName, rows("i === 1 ? { i, bad: 1 } : { i }"));
    expect(await glovebox.replay(recording)).toMatchObject({
      verdict: "different",
      result: { output: { n: 4 } },
      chunks: { recorded: 4, replayed: 4, first: 1, changes: [{ path: "/1/bad", kind: "added", after: "1" }] },
    });
    await change(toolName, rows("{ i }", "yield 'more'; return { n };"));
    expect(await glovebox.replay(recording)).toMatchObject({
      verdict: "different",
      chunks: { recorded: 4, replayed: 5, first: 4, changes: [{ path: "/4", kind: "added" }] },
    });
    await change(toolName, "export default ({ n }) => ({ n });");
    expect(await glovebox.replay(recording)).toMatchObject({
      verdict: "different",
      chunks: { recorded: 4, replayed: 0, first: 0 },
    });
  });

  test("compares the chunks before the same error", async () => {
    const toolName = await addTool(rows("{ i }", "throw new Error('late');"));
    const { recording } = await stream(toolName, 2);
    expect(await glovebox.replay(recording)).toMatchObject({ verdict: "identical" });
    await change(toolName, rows("{ i: i + 1 }", "throw new Error('late');"));
    const replayed = await glovebox.replay(recording);
    expect(replayed).toMatchObject({ verdict: "different", chunks: { first: 0, recorded: 2 } });
    const report = await glovebox.rehearse([recording]);
    expect(report.groups).toMatchObject([{ verdict: "different", summary: "chunks: changed /*/i" }]);
  });

  test("compares bytes in chunks, and returns them", async () => {
    for (const end of ["return { n };", ""]) {
      const toolName = await addTool(rows("{ data: new Uint8Array([i, 2]) }", end));
      const { recording } = await stream(toolName, 2);
      const same = await glovebox.replay(recording);
      expect(same.verdict).toBe("identical");
      if (end === "") {
        const output = [{ data: new Uint8Array([0, 2]) }, { data: new Uint8Array([1, 2]) }];
        expect(same.result).toMatchObject({ success: true, output });
      }
      await change(toolName, rows("{ data: new Uint8Array([i, 3]) }", end));
      expect(await glovebox.replay(recording)).toMatchObject({
        verdict: "different",
        chunks: { recorded: 2, replayed: 2 },
      });
    }
  });

  test("reports changed chunks that are the output once, as changes of the output", async () => {
    const toolName = await addTool(rows("{ i }", ""));
    const { recording } = await stream(toolName, 3);
    expect(recording).toMatchObject({ outcome: { output: '[{"i":0},{"i":1},{"i":2}]' }, chunks: { texts: [] } });
    expect(await glovebox.replay(recording)).toMatchObject({
      verdict: "identical",
      result: { output: [{ i: 0 }, { i: 1 }, { i: 2 }] },
    });
    await change(toolName, rows("{ i: i + 1 }", ""));
    const replayed = await glovebox.replay(recording);
    expect([replayed.verdict, replayed.changes?.length]).toEqual(["different", 3]);
    expect(replayed.chunks?.changes).toBeUndefined();
  });

  test("of which the reader left early does not depend on how many chunks had arrived", async () => {
    const toolName = await addTool(rows());
    let { recording } = await stream(toolName, 200_000, {}, 3);
    // On a busy machine, the process can be killed before it has reported how the call ran.
    while (recording.incomplete === "interrupted") ({ recording } = await stream(toolName, 200_000, {}, 3));
    expect(recording.outcome).toMatchObject({ error: { code: "CANCELLED" } });
    const replayed = await glovebox.replay(recording);
    expect(replayed.chunks).toBeUndefined();
  });

  test("does not compare the chunks of a call whose caller received none", async () => {
    const toolName = await addTool(rows());
    const made: CallRecording[] = [];
    const record = { onRecording: (recording: CallRecording): void => void made.push(recording) };
    await glovebox.execute({ id: "c", toolName, arguments: { n: 300 } }, { record });
    expect(made[0]?.chunks).toBeNull();
    await change(toolName, rows("{ other: i }"));
    expect(await glovebox.replay(made[0])).toMatchObject({ verdict: "identical" });
  });
});

describe("the chunks of a recording", () => {
  test("have no secret that a capability registered, and no value that a redactor replaces", async () => {
    const source = `
      export const capabilities = { look: true };
      export default async function* ({ n }, { look }) {
        yield { token: await look({}), note: "for someone" };
        if (n > 1) return { done: true };
      }`;
    const toolName = await addTool(source);
    const redact = (value: unknown): unknown => JSON.parse(JSON.stringify(value).replaceAll("someone", "a person"));
    for (const n of [1, 2]) {
      const { recording } = await stream(toolName, n, { redact });
      const text = JSON.stringify(recording);
      expect([text.includes("s3cr3t-t0k3n-value"), text.includes("someone")]).toEqual([false, false]);
      expect(text).toContain("for a person");
      expect(await glovebox.replay(recording, { redact }), `${n}`).toMatchObject({ verdict: "identical" });
    }
  });

  test("are kept as far as they fit, and compared by their digest beyond that", async () => {
    const toolName = await addTool(rows('{ i, text: "x".repeat(100) }'));
    const { recording } = await stream(toolName, 400, { maxBytes: 8_192 });
    expect(recording.incomplete).toBeUndefined();
    const kept = recording.chunks?.texts.length ?? 0;
    expect([recording.chunks?.count, kept > 10, kept < 80]).toEqual([400, true, true]);
    expect(await glovebox.replay(recording)).toMatchObject({ verdict: "identical" });
    await change(toolName, rows('{ i, text: i === 399 ? "y" : "x".repeat(100) }'));
    const late = await glovebox.replay(recording);
    expect(late).toMatchObject({ verdict: "different", chunks: { recorded: 400, replayed: 400 } });
    expect(late.chunks).not.toHaveProperty("first");
    await change(toolName, rows('{ i, text: i === 2 ? "y" : "x".repeat(100) }'));
    expect(await glovebox.replay(recording)).toMatchObject({ verdict: "different", chunks: { first: 2 } });
  });

  test("make a recording incomplete only if they are the output and do not fit", async () => {
    const toolName = await addTool(rows('{ i, text: "x".repeat(100) }', ""));
    const { recording } = await stream(toolName, 400, { maxBytes: 8_192 });
    expect(recording).toMatchObject({ incomplete: "too_large", chunks: { count: 400, texts: [] } });
  });

  test("are missing in a recording of an earlier version, which is not called identical", async () => {
    const yields = await addTool(rows());
    const old = withoutChunks((await stream(yields, 2)).recording);
    expect(await glovebox.replay(old)).toMatchObject({ verdict: "not_compared" });
    const many = withoutChunks((await stream(yields, 400)).recording);
    const bare = await addTool(rows("{ i }", ""));
    const listed = withoutChunks((await stream(bare, 2)).recording);
    expect(await glovebox.replay(listed)).toMatchObject({ verdict: "identical" });
    const plain = await addTool("export default ({ n }) => ({ n });");
    const returned = withoutChunks((await stream(plain, 2)).recording);
    expect(await glovebox.replay(returned)).toMatchObject({ verdict: "identical" });
    await change(yields, "export default ({ n }) => ({ n });");
    // The recording shows that its reader consumed chunks.
    expect(await glovebox.replay(many)).not.toMatchObject({ verdict: "identical" });
    await change(yields, rows());
    expect(await glovebox.rehearse([old, many])).toMatchObject({
      replayed: 0,
      identical: 0,
      skipped: 2,
      skippedFor: { recording: 0, limit: 0, chunks: 2 },
      groups: [],
    });
  });
});

test("a rehearsal reports the calls of which only chunks differ", async () => {
  const toolName = await addTool(rows());
  const recordings: CallRecording[] = [];
  for (const n of [1, 2, 3, 4]) recordings.push((await stream(toolName, n)).recording);
  await change(toolName, rows("n === 4 && i === 1 ? { i, bad: 1 } : { i }"));
  expect(await glovebox.rehearse(recordings)).toMatchObject({
    replayed: 4,
    identical: 3,
    different: 1,
    skipped: 0,
    groups: [
      {
        verdict: "different",
        summary: "chunks: added /*/bad",
        count: 1,
        callIds: ["call 4"],
        chunks: { recorded: 4, replayed: 4, first: 1, changes: [{ path: "/1/bad", kind: "added" }] },
      },
    ],
  });
});
