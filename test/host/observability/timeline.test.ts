// `context.timeline`: what a call did and when.
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Glovebox, TimelineSpan, ToolResult } from "../../../src/host/index.ts";
import { onLoopback } from "../../support/egress.ts";
import { errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { PATIENT_LIMITS } from "../../support/patient-limits.ts";

/** Longest wait in ms for what a call does, on a machine that does other work too. */
const PATIENT = { timeout: 30_000 };

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
        kind: "capability",
        name: "fetch",
        operation: "POST",
        target: `${url}/items`,
        status: 201,
        code: "ok",
        bytesOut: 3,
        bytesIn: 10,
        startMs: expect.any(Number),
        durationMs: expect.any(Number),
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

describe("the unfinished timeline of a running call", () => {
  const shapeOf = (spans: readonly TimelineSpan[] = []): readonly string[] =>
    spans.map(
      ({ kind, name, isOpen }) => `${kind === "capability" || kind === "tool" ? name : kind}${isOpen ? " …" : ""}`,
    );

  test("has what has ended and what is under way, also in nested calls", async () => {
    const answers: (() => void)[] = [];
    const port = await serve((_, response) => void answers.push(() => response.end("done")));
    const glovebox = await openGlovebox(port);
    const fetching = `async () => await (await fetch("http://127.0.0.1:${port}/slow")).text()`;
    const inner = `export const capabilities = { fetch: true }; export default ${fetching};`;
    await glovebox.addTool({ name: "inner", source: inner }, { grant: ["fetch"] });
    const outer = `export const capabilities = { fetch: true, tools: true };
        export default async (_, ctx) => ctx.span("both", { n: 1 }, async () => {
          await (${fetching})();
          return await ctx.tools.inner({});
        });`;
    await glovebox.addTool({ name: "outer", source: outer }, { grant: ["fetch", "tools"] });
    expect(glovebox.getTimeline("c")).toBeUndefined();
    const running = run(glovebox, "outer");
    await expect.poll(() => answers.length, PATIENT).toBe(1);
    const first = glovebox.getTimeline("c");
    expect(shapeOf(first?.spans)).toEqual(["validate", "queue", "start", "execute …", "both …", "fetch …"]);
    expect(first?.spans.find(({ kind }) => kind === "execute")?.limits?.timeoutMs).toBeGreaterThan(0);
    expect(first?.spans.find(({ name }) => name === "both")).toMatchObject({ code: "ok", attributes: { n: 1 } });
    expect(first?.spans.find(({ name }) => name === "fetch")).toMatchObject({ operation: "GET", code: "ok" });
    const lasted = (): number => glovebox.getTimeline("c")?.spans.at(-1)?.durationMs ?? 0;
    const before = lasted();
    await expect.poll(lasted, PATIENT).toBeGreaterThan(before);

    answers[0]?.();
    await expect.poll(() => answers.length, PATIENT).toBe(2);
    const second = glovebox.getTimeline("c");
    expect(shapeOf(second?.spans).slice(3)).toEqual(["execute …", "both …", "fetch", "tools …"]);
    expect(second?.calls).toMatchObject([{ callId: "c.1", toolName: "inner", isOpen: true }]);
    expect(shapeOf(second?.calls[0]?.timeline).slice(-2)).toEqual(["execute …", "fetch …"]);
    expect(shapeOf(glovebox.getTimeline("c.1")?.spans).at(-1)).toBe("fetch …");

    answers[1]?.();
    const result = await running;
    expect(result.timeline?.some((span) => "isOpen" in span)).toBe(false);
    expect(glovebox.getTimeline("c")).toBeUndefined();
  });

  test("says that a call waits for a process, and has the stages of a tool without one", async () => {
    const glovebox = await makeGlovebox({ limits: { maxConcurrentCalls: 1 } });
    onTestFinished(() => glovebox.close());
    const held = Promise.withResolvers<void>();
    glovebox.router.register("held", {}, () => held.promise.then(() => 1));
    const source = "export const capabilities = { tools: true }; export default (_, ctx) => ctx.tools.held({});";
    await glovebox.addTool({ name: "first", source }, { grant: ["tools"] });
    const first = glovebox.execute({ id: "first", toolName: "first", arguments: {} }, { timeline: true });
    await expect
      .poll(() => shapeOf(glovebox.getTimeline("first.1")?.spans), PATIENT)
      .toEqual(["validate", "execute …"]);
    const second = glovebox.execute({ id: "second", toolName: "first", arguments: {} }, { timeline: true });
    await expect.poll(() => shapeOf(glovebox.getTimeline("second")?.spans), PATIENT).toEqual(["validate", "queue …"]);
    held.resolve();
    expect(outputOf(await first)).toBe(1);
    expect(outputOf(await second)).toBe(1);
  });

  test("is absent without a timeline, and for another tenant", async () => {
    const glovebox = await makeGlovebox({ tenancy: "multi" });
    onTestFinished(() => glovebox.close());
    await glovebox.addTool(
      { name: "slow", source: "export default () => new Promise(() => {});" },
      { scope: "global" },
    );
    const stop = new AbortController();
    const start = (id: string, tenantId: string, timeline: boolean): Promise<ToolResult> =>
      glovebox.execute({ id, toolName: "slow", arguments: {} }, { tenantId, timeline, signal: stop.signal });
    const calls = [start("with", "acme", true), start("without", "acme", false)];
    await expect
      .poll(() => shapeOf(glovebox.getTimeline("with", { tenantId: "acme" })?.spans).at(-1), PATIENT)
      .toBe("execute …");
    expect(glovebox.getTimeline("with", { tenantId: "globex" })).toBeUndefined();
    expect(glovebox.getTimeline("without", { tenantId: "acme" })).toBeUndefined();
    stop.abort();
    await Promise.all(calls);
  });

  test("has the newest spans of a call with many", async () => {
    const glovebox = await openGlovebox();
    const source = `export const capabilities = { kv: true };
        export default async (_, { kv }) => {
          for (let n = 0; n < 700; n += 1) await kv.get("k" + n);
          await new Promise(() => {});
        };`;
    await glovebox.addTool({ name: "many", source }, { grant: ["kv"] });
    const stop = new AbortController();
    const running = glovebox.execute(
      { id: "c", toolName: "many", arguments: {} },
      { timeline: true, signal: stop.signal },
    );
    await expect.poll(() => glovebox.getTimeline("c")?.spans.at(-1)?.target, PATIENT).toBe("k699");
    expect(glovebox.getTimeline("c")?.spans.filter(({ kind }) => kind === "capability")).toHaveLength(500);
    stop.abort();
    expect((await running).timeline?.filter(({ kind }) => kind === "capability")).toHaveLength(700);
  });
});
