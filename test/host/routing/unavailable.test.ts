// TOOL_UNAVAILABLE says why with details.reason, from one table; a taken name is a code of its own.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { CallContext, ToolResult } from "../../../src/host/contract/tool-call.ts";
import { createToolFailureMessage, toHttpStatus, toRetryAfterSeconds } from "../../../src/host/index.ts";
import { ToolRouter } from "../../../src/host/routing/tool-router.ts";
import { ToolError, unavailable } from "../../../src/sandbox/contract/errors.ts";
import { errorOf, failureOf, makeGlovebox } from "../../support/host-zone.ts";

const glovebox = await makeGlovebox();
afterAll(() => glovebox.close());
const call = (router: Pick<ToolRouter, "execute">, toolName: string, context?: CallContext): Promise<ToolResult> =>
  router.execute({ id: "c1", toolName, arguments: {} }, context);

/** A failure as an HTTP client, a program and a model receive it. */
function seen(result: ToolResult): readonly unknown[] {
  const error = errorOf(result);
  return [error.code, error.details?.reason, toHttpStatus(error), error.recoverable];
}

describe("details.reason", () => {
  test("a tool that does not exist: not_found", async () => {
    const result = await call(glovebox, "none");
    expect(seen(result)).toEqual(["TOOL_UNAVAILABLE", "not_found", 404, false]);
    expect(createToolFailureMessage(result)).toMatch(/calling it again will not help\.$/);
  });

  test("a tool that is off looks exactly as one that does not exist", async () => {
    await using router = new ToolRouter({ flags: (flag) => flag !== "tools.tool-off" });
    router.register("tool-off", {}, () => 1);
    const plain = async (toolName: string): Promise<string> => {
      const { durationMs: _, ...rest } = await call(router, toolName);
      return JSON.stringify(rest);
    };
    const off = await plain("tool-off");
    expect(off).toBe((await plain("tool-new")).replaceAll("tool-new", "tool-off"));
    expect(seen(await call(router, "tool-off"))).toEqual(["TOOL_UNAVAILABLE", "not_found", 404, false]);
  });

  test("details.reason is shutting down, then closed", async () => {
    const closing = await makeGlovebox();
    const { promise: release, resolve } = Promise.withResolvers<void>();
    closing.router.register("wait", {}, () => release);
    const running = call(closing, "wait");
    const closed = closing.close({ drainMs: 60_000 });
    const draining = await call(closing, "wait");
    expect(seen(draining)).toEqual(["TOOL_UNAVAILABLE", "shutting_down", 503, true]);
    expect(createToolFailureMessage(draining)).toMatch(/try it again later\.$/);
    resolve();
    expect((await running).success).toBe(true);
    await closed;
    const after = await call(closing, "wait");
    expect(seen(after)).toEqual(["TOOL_UNAVAILABLE", "closed", 503, false]);
    expect(createToolFailureMessage(after)).toMatch(/calling it again will not help\.$/);
    const adding = await failureOf(closing.addTool({ name: "late", source: "export default () => 1" }));
    expect(adding).toMatchObject({ code: "TOOL_UNAVAILABLE", details: { reason: "closed" }, recoverable: false });
    expect(await failureOf(closing.openSession())).toMatchObject({ details: { reason: "closed" } });
  });

  test("an open circuit says when to try again", async () => {
    await using router = new ToolRouter({ health: { failures: 1, openMs: 60_000, maxOpenMs: 60_000 } });
    router.addToolProvider("weather", { call: () => Promise.reject(new Error("down")) }).register("rain", {});
    const failed = await call(router, "rain");
    expect(seen(failed)).toEqual(["TOOL_UNAVAILABLE", "upstream_unavailable", 503, true]);
    const open = await call(router, "rain");
    expect(seen(open)).toEqual(["TOOL_UNAVAILABLE", "circuit_open", 503, true]);
    expect(errorOf(open).message).toMatch(/^The tool provider "weather" is not called at present/);
    const seconds = toRetryAfterSeconds(errorOf(open));
    expect(seconds).toBeGreaterThan(0);
    expect(createToolFailureMessage(open)).toContain("not before");
  });

  test("a source that states no reason itself is an upstream that is unavailable", async () => {
    await using router = new ToolRouter();
    const cause = new Error("secret");
    router.register("probe", {}, () => {
      throw new ToolError("TOOL_UNAVAILABLE", "Closed for today", { cause, details: { until: "Monday" } });
    });
    const result = await call(router, "probe");
    expect(seen(result)).toEqual(["TOOL_UNAVAILABLE", "upstream_unavailable", 503, false]);
    expect(errorOf(result)).toMatchObject({ message: "Closed for today", details: { until: "Monday" } });
  });

  test("a hook that denies a tool states not_found", async () => {
    await using router = new ToolRouter({
      hooks: [{ name: "guard", validate: () => ({ reject: { code: "TOOL_UNAVAILABLE", message: "No such tool" } }) }],
    });
    router.register("probe", {}, () => 1);
    expect(seen(await call(router, "probe"))).toEqual(["TOOL_UNAVAILABLE", "not_found", 404, false]);
  });

  test("a tool that is replaced while a hook decides: tool_changed", async () => {
    let replace = (): void => {};
    await using router = new ToolRouter({ hooks: [{ name: "guard", validate: () => replace() }] });
    router.register("probe", { description: "one" }, () => 1);
    replace = () => {
      replace = () => {};
      router.registry.remove("probe");
      router.register("probe", { description: "two" }, () => 2);
    };
    expect(seen(await call(router, "probe"))).toEqual(["TOOL_UNAVAILABLE", "tool_changed", 409, true]);
    expect((await call(router, "probe")).success).toBe(true);
  });

  test("a session that has ended: session_ended, and why", async () => {
    const session = await glovebox.openSession({ language: "javascript" });
    await session.close();
    const result = await session.run("1");
    expect(seen(result)).toEqual(["TOOL_UNAVAILABLE", "session_ended", 404, false]);
    expect(errorOf(result).details).toMatchObject({ sessionId: session.id, endedFor: "it was closed" });
  });

  test("a source that has been removed takes no more tools", () => {
    const source = glovebox.router.addToolProvider("removed", { call: () => 1 });
    source[Symbol.dispose]();
    expect(() => source.register("rain", {})).toThrow(
      expect.objectContaining({ code: "TOOL_UNAVAILABLE", details: { reason: "not_found" } }),
    );
  });

  test("none is made anywhere else than with a reason of the table", () => {
    const src = join(import.meta.dirname, "../../../src");
    const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
    expect(files.length).toBeGreaterThan(400);
    const bare = files
      .filter((name) => name !== join("sandbox", "contract", "errors.ts"))
      .filter((name) => /new ToolError\(\s*"TOOL_UNAVAILABLE"/.test(readFileSync(join(src, name), "utf8")));
    expect(bare).toEqual([]);
    expect(unavailable("closed", "m", { details: { more: 1 } }).details).toEqual({ reason: "closed", more: 1 });
  });
});

describe("NAME_TAKEN", () => {
  const conflict = expect.objectContaining({ code: "NAME_TAKEN", message: expect.stringMatching(/another/) });

  test("NAME_TAKEN for a tool is thrown by router.register(), the registry and addTool()", async () => {
    glovebox.router.register("taken", {}, () => 1);
    expect(() => glovebox.router.register("taken", {}, () => 2)).toThrow(conflict);
    const tool = glovebox.router.registry.get("taken");
    expect(() => tool && glovebox.router.registry.add(tool)).toThrow(conflict);
    const error = await failureOf(glovebox.addTool({ name: "taken", source: "export default () => 1" }));
    expect(error).toEqual(conflict);
    expect([toHttpStatus(error), error.recoverable]).toEqual([409, true]);
  });

  test("NAME_TAKEN is thrown for a provider and for an MCP server, which is one too", () => {
    glovebox.router.addToolProvider("weather", { call: () => 1 });
    expect(() => glovebox.router.addToolProvider("weather", { call: () => 1 })).toThrow(conflict);
    expect(() => glovebox.mcp.addServer("weather", { command: process.execPath })).toThrow(conflict);
    expect(glovebox.mcp.servers()).toEqual([]);
  });

  test("NAME_TAKEN is thrown for a session", async () => {
    await glovebox.openSession({ id: "s1", language: "javascript" });
    expect(await failureOf(glovebox.openSession({ id: "s1", language: "javascript" }))).toEqual(conflict);
  });
});
