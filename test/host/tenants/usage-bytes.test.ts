// What `usage` says of a call's bytes: those that its tool got and gave, and those that its requests sent and received.
import type { Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import type { GloveboxOptions } from "../../../src/host/config/glovebox-options.ts";
import { NO_USAGE, type ToolResult } from "../../../src/host/contract/tool-call.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { onLoopback, serve } from "../../support/egress.ts";
import { codeOf, makeGlovebox } from "../../support/host-zone.ts";
import { cpuMsOfAll } from "../../support/processes.ts";

const TENANT = { tenantId: "acme" } as const;

async function gloveboxOf(options: GloveboxOptions = {}): Promise<Glovebox> {
  const glovebox = await makeGlovebox({ tenancy: "multi", ...options });
  onTestFinished(() => glovebox.close());
  return glovebox;
}

/** Shared by the tests that need no options of their own. */
let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox({ tenancy: "multi" });
});
afterAll(() => glovebox.close());

const run = (glovebox: Glovebox, toolName: string, args: unknown): Promise<ToolResult> =>
  glovebox.execute({ id: "c1", toolName, arguments: args }, TENANT);

describe("usage.inputBytes and usage.outputBytes", () => {
  test("count JSON in UTF-8 and bytes in it, for tools in the sandbox and host functions", async () => {
    await glovebox.addTool({ name: "echo", source: "export default (input) => input.v" }, TENANT);
    glovebox.router.register("host_echo", {}, (input) => (input as { readonly v: string }).v, TENANT);
    for (const toolName of ["echo", "host_echo"]) {
      const { usage } = await run(glovebox, toolName, { v: "é😀" });
      expect([toolName, usage.inputBytes, usage.outputBytes]).toEqual([toolName, 14, 8]);
      const large = (await run(glovebox, toolName, { v: "x".repeat(300_000) })).usage;
      expect([large.inputBytes, large.outputBytes]).toEqual([300_008, 300_002]);
      const binary = (await run(glovebox, toolName, { v: new Uint8Array(1_000) })).usage;
      expect(binary.inputBytes).toBeGreaterThanOrEqual(1_000);
      expect(binary.outputBytes).toBeGreaterThanOrEqual(1_000);
      expect(Math.max(binary.inputBytes, binary.outputBytes)).toBeLessThan(1_500);
    }
  });

  test("count the input of a call that fails, and nothing for one whose tool has not run", async () => {
    await glovebox.addTool(
      {
        name: "fail",
        source: 'export default () => { throw new Error("no") }',
        overrides: { inputSchema: { type: "object", properties: { n: { type: "number" } } } },
      },
      TENANT,
    );
    const failed = await run(glovebox, "fail", { n: 1 });
    expect([codeOf(failed), failed.usage.inputBytes, failed.usage.outputBytes]).toEqual(["TOOL_FAILED", 7, 0]);
    const invalid = await run(glovebox, "fail", { n: "one" });
    expect([codeOf(invalid), invalid.usage]).toEqual(["PARAM_INVALID", NO_USAGE]);
    expect((await run(glovebox, "none", {})).usage).toEqual(NO_USAGE);
  });

  test("count the chunks of a stream, also of one that fails after them", async () => {
    await glovebox.addTool(
      { name: "two", source: 'export default async function* () { yield "ab"; yield "cd"; }' },
      TENANT,
    );
    const failing = 'export default async function* () { yield "ab"; throw new Error("no"); }';
    await glovebox.addTool({ name: "one", source: failing }, TENANT);
    const last = async (toolName: string): Promise<ToolResult> => {
      let result: ToolResult | undefined;
      for await (const item of glovebox.stream({ id: "c", toolName, arguments: {} }, TENANT)) {
        if (item.type === "result") result = item as unknown as ToolResult;
      }
      return result as ToolResult;
    };
    const whole = await last("two");
    expect([codeOf(whole), whole.usage.outputBytes]).toEqual(["ok", 8]);
    const failed = await last("one");
    expect([codeOf(failed), failed.usage.outputBytes]).toEqual(["TOOL_FAILED", 4]);
  });
});

describe("usage.egressBytesOut and usage.egressBytesIn", () => {
  test("are what the server saw: heads, bodies and redirects, also of a call that fails", async () => {
    let [received, sent] = [0, 0];
    const sockets = new Set<Socket>();
    const server = await serve((request, response) => {
      sockets.add(request.socket);
      request.resume().on("end", () => {
        if (request.url === "/from") response.writeHead(307, { location: "/to" }).end();
        else response.end("x".repeat(5_000));
      });
    });
    const glovebox = await gloveboxOf({ egress: { allow: onLoopback(server.origin) } });
    const source = `export default async ({ origin, fails }) => {
      const response = await fetch(origin + "/from", { method: "POST", body: "y".repeat(2_000) });
      const length = (await response.text()).length;
      if (fails) throw new Error("no");
      return length;
    }`;
    await glovebox.addTool({ name: "get", source }, { ...TENANT, grant: ["fetch"] });
    for (const fails of [false, true]) {
      sockets.clear();
      const result = await run(glovebox, "get", { origin: server.origin, fails });
      expect(codeOf(result)).toBe(fails ? "TOOL_FAILED" : "ok");
      [received, sent] = [0, 0];
      for (const { bytesRead, bytesWritten } of sockets) {
        received += bytesRead;
        sent += bytesWritten;
      }
      expect([result.usage.egressBytesOut, result.usage.egressBytesIn]).toEqual([received, sent]);
      expect(received).toBeGreaterThan(4_000);
      expect(sent).toBeGreaterThan(5_000);
    }
  });

  test("count what a call that was stopped had sent, and are 0 without requests", async () => {
    const server = await serve((_request, response) => void response.write("begun"));
    const glovebox = await gloveboxOf({ egress: { allow: onLoopback(server.origin) } });
    const source =
      "export default async ({ origin }) => { const reader = (await fetch(origin)).body.getReader(); await reader.read(); console.log('begun'); await reader.read(); }";
    await glovebox.addTool({ name: "hang", source }, { ...TENANT, grant: ["fetch"] });
    await glovebox.addTool({ name: "none", source: "export default () => 1" }, TENANT);
    const stop = new AbortController();
    const { usage, ...result } = await glovebox.execute(
      { id: "c", toolName: "hang", arguments: { origin: server.origin } },
      { ...TENANT, signal: stop.signal, onLog: () => stop.abort() },
    );
    expect(result.success).toBe(false);
    expect([usage.egressBytesOut > 0, usage.egressBytesIn > 5]).toEqual([true, true]);
    const none = (await run(glovebox, "none", {})).usage;
    expect([none.egressBytesOut, none.egressBytesIn]).toEqual([0, 0]);
  });
});

describe("usage.cpuMs", () => {
  test("is not 0 for a call whose process was killed while it computed", async () => {
    await glovebox.addTool({ name: "loop", source: "export default () => { console.log('on'); for (;;); }" }, TENANT);
    const kill = () => {
      for (const pid of glovebox.workerPids) process.kill(pid, "SIGKILL");
    };
    const cpuMsOf = (): number => cpuMsOfAll(glovebox.workerPids);
    const onLog = async (): Promise<void> => {
      const before = cpuMsOf();
      await vi.waitFor(() => expect(cpuMsOf()).toBeGreaterThan(before + 100), { interval: 20 });
      kill();
    };
    const result = await glovebox.execute(
      { id: "c1", toolName: "loop", arguments: {} },
      { ...TENANT, onLog: () => void onLog() },
    );
    expect(result.success).toBe(false);
    expect(result.usage.cpuMs).toBeGreaterThan(0);
  });
});
