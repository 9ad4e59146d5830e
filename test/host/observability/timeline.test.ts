// `context.timeline`: what a call did and when.
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Glovebox, ToolResult } from "../../../src/host/index.ts";
import { onLoopback } from "../../support/egress.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

async function openGlovebox(...ports: readonly number[]): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ egress: { allow: onLoopback("127.0.0.1"), ports } });
  onTestFinished(() => glovebox.close());
  return glovebox;
}

/** Returns the port of a server. */
async function serve(answer: RequestListener): Promise<number> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

const run = (glovebox: Glovebox, toolName: string, args: object = {}, timeline = true): Promise<ToolResult> =>
  glovebox.execute({ id: "c", toolName, arguments: args }, { timeline });
const kindsOf = ({ timeline = [] }: ToolResult): readonly string[] => timeline.map(({ kind }) => kind);

describe("the timeline of a call", () => {
  test("is absent if the context does not request it", async () => {
    const glovebox = await openGlovebox();
    await glovebox.addTool({ name: "plain", source: "export default () => 1;" });
    expect("timeline" in (await run(glovebox, "plain", {}, false))).toBe(false);
    expect("timeline" in (await glovebox.execute({ id: "c", toolName: "plain" }))).toBe(false);
  });

  test("has the stages in order, without gaps that the call's duration does not have", async () => {
    const glovebox = await openGlovebox();
    await glovebox.addTool({ name: "plain", source: "export default () => 1;" });
    const result = await run(glovebox, "plain");
    expect(kindsOf(result).filter((kind) => kind !== "queue" && kind !== "start")).toEqual([
      "validate",
      "execute",
      "output",
    ]);
    const { timeline = [], durationMs } = result;
    expect(timeline[0]?.startMs).toBe(0);
    for (const [index, span] of timeline.entries()) {
      expect(span.code).toBe("ok");
      const next = timeline[index + 1];
      if (next !== undefined) expect(next.startMs).toBeCloseTo(span.startMs + span.durationMs, 1);
      expect(span.startMs + span.durationMs).toBeLessThanOrEqual(durationMs + 1);
    }
  });

  test("has the limits that the call had", async () => {
    const glovebox = await openGlovebox();
    await glovebox.addTool({
      name: "plain",
      source: "export default () => 1; export const limits = { memoryMiB: 32 };",
    });
    const { timeline = [] } = await glovebox.execute(
      { id: "c", toolName: "plain" },
      { timeline: true, timeoutMs: 90_000 },
    );
    expect(timeline.find(({ kind }) => kind === "execute")?.limits).toEqual({
      timeoutMs: 90_000,
      cpuMs: PATIENT_LIMITS.cpuMs,
      memoryMiB: 32,
    });
    expect(timeline.filter(({ limits }) => limits !== undefined)).toHaveLength(1);
  });

  test("has each request with its target, status and bytes, without the query", async () => {
    const port = await serve((request, response) => {
      request.resume().on("end", () => response.writeHead(201).end("0123456789"));
    });
    const glovebox = await openGlovebox(port);
    const url = `http://127.0.0.1:${port}`;
    const source = `export default async ({ url }, ctx) => {
      const response = await ctx.fetch(url + "/items?token=hidden", { method: "POST", body: "abc" });
      return await response.text();
    };
    export const capabilities = { fetch: true };`;
    await glovebox.addTool({ name: "fetches", source }, { grant: ["fetch"] });
    const result = await run(glovebox, "fetches", { url });
    expect(outputOf(result)).toBe("0123456789");
    expect(result.timeline?.filter(({ kind }) => kind === "capability")).toEqual([
      {
        ...{ kind: "capability", name: "fetch", operation: "POST", target: `${url}/items`, status: 201, code: "ok" },
        ...{ bytesOut: 3, bytesIn: 10, startMs: expect.any(Number), durationMs: expect.any(Number) },
        waitMs: expect.any(Number),
      },
    ]);
    expect(JSON.stringify(result.timeline)).not.toContain("hidden");
  });

  test("has nested calls with timelines of their own", async () => {
    const glovebox = await openGlovebox();
    await glovebox.addTool({ name: "inner", source: "export default () => 1;" });
    const source = `export default async (_, ctx) => (await Promise.all([ctx.tools.inner(), ctx.tools.inner()])).length;
    export const capabilities = { tools: true };`;
    await glovebox.addTool({ name: "outer", source }, { grant: ["tools"] });
    const result = await run(glovebox, "outer");
    expect(outputOf(result)).toBe(2);
    const spans = result.timeline?.filter(({ name }) => name === "tools");
    expect(spans?.map(({ target, callId }) => [target, callId])).toEqual([
      ["inner", "c.1"],
      ["inner", "c.2"],
    ]);
    expect(result.calls?.map(({ callId }) => callId).toSorted()).toEqual(["c.1", "c.2"]);
    for (const { timeline = [] } of result.calls ?? []) {
      expect(timeline.map(({ kind }) => kind)).toContain("execute");
    }
  });

  test("names keys of kv, and the code of a capability that fails", async () => {
    const glovebox = await openGlovebox();
    const source = `export default async (_, ctx) => {
      await ctx.kv.set("seen", 1);
      await ctx.fetch("http://192.0.2.1/").catch(() => {});
      return await ctx.kv.get("seen");
    };
    export const capabilities = { fetch: true, kv: true };`;
    await glovebox.addTool({ name: "stores", source }, { grant: ["kv", "fetch"] });
    const result = await run(glovebox, "stores");
    const uses = result.timeline?.filter(({ kind }) => kind === "capability") ?? [];
    expect(uses.map(({ name, operation, target, code }) => [name, operation, target, code])).toEqual([
      ["kv", "set", "seen", "ok"],
      ["fetch", "GET", "http://192.0.2.1/", "CAPABILITY_DENIED"],
      ["kv", "get", "seen", "ok"],
    ]);
  });

  test("ends with what ended the call", async () => {
    const glovebox = await openGlovebox();
    await glovebox.addTool({ name: "loops", source: "export default () => { for (;;); };" });
    const late = await glovebox.execute({ id: "c", toolName: "loops" }, { timeline: true, timeoutMs: 300 });
    expect(errorOf(late).code).toBe("TOOL_TIMEOUT");
    expect(late.timeline?.at(-1)?.code).toBe("TOOL_TIMEOUT");
    const missing = await run(glovebox, "missing");
    expect(missing.timeline).toEqual([
      { kind: "validate", name: "validate", startMs: 0, durationMs: expect.any(Number), code: "TOOL_UNAVAILABLE" },
    ]);
  });

  test("ends open requests with the call", async () => {
    const port = await serve(() => {});
    const glovebox = await openGlovebox(port);
    const source = `export default async ({ url }, ctx) => { void ctx.fetch(url).catch(() => {}); await new Promise((r) => setTimeout(r, 50)); return 1; };
    export const capabilities = { fetch: true };`;
    await glovebox.addTool({ name: "leaves", source }, { grant: ["fetch"] });
    const result = await run(glovebox, "leaves", { url: `http://127.0.0.1:${port}/` });
    expect(outputOf(result)).toBe(1);
    expect(result.timeline?.find(({ name }) => name === "fetch")?.code).toBe("CANCELLED");
  });

  test("rejects anything but true and false", async () => {
    const glovebox = await openGlovebox();
    const result = await glovebox.execute({ id: "c", toolName: "x" }, { timeline: "yes" as never });
    expect(errorOf(result).message).toContain("context.timeline: expected true or false");
  });
});
