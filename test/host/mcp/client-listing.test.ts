// Tests listings of upstream tools: pages, limits, lifetime and change notifications.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { McpHttpServer } from "../../../src/host/mcp/client/mcp-options.ts";
import type { McpServerStatus } from "../../../src/host/mcp/client/upstream-server.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { type Answer, type RpcRequest, startScriptedServer, startToolServer } from "../../support/mcp-http.ts";
import { withMoreTime } from "../../support/more-time.ts";

const inputSchema = { type: "object" };
const tool = (name: unknown): object => ({ name, inputSchema });

let glovebox: Glovebox;
beforeAll(async () => {
  glovebox = await makeGlovebox();
});
afterAll(async () => await glovebox.close());

/** Lists the tools of a server with the given answers. Returns the tool names and the server's status. */
async function listed(
  list: (params: NonNullable<RpcRequest["params"]>) => unknown,
  options: Partial<McpHttpServer> = {},
): Promise<{ readonly names: readonly string[]; readonly status: McpServerStatus; readonly requests: number }> {
  let requests = 0;
  const answer: Answer = ({ method, params = {} }) => {
    if (method !== "tools/list") return undefined;
    requests += 1;
    return list(params);
  };
  await using server = await startScriptedServer(answer);
  glovebox.mcp.addServer("up", { url: server.url, prefix: "", ...options });
  try {
    const names = (await glovebox.listTools()).map(({ name }) => name);
    const [status] = glovebox.mcp.servers();
    if (status === undefined) throw new Error("Expected one server");
    return { names, status, requests };
  } finally {
    await glovebox.mcp.removeServer("up");
  }
}

describe("a listing", () => {
  test("reads all pages", async () => {
    const { names } = await listed(({ cursor }) => {
      const page = cursor === undefined ? 0 : Number(cursor);
      return { tools: [tool(`t${page}`)], ...(page < 9 ? { nextCursor: String(page + 1) } : {}) };
    });
    expect(names).toHaveLength(10);
  });

  test("ends at a repeated cursor and reports it", async () => {
    const { names, status, requests } = await listed(({ cursor }) => ({
      tools: [tool(`t${String(cursor)}`)],
      nextCursor: cursor === "a" ? "b" : "a",
    }));
    expect(names).toEqual(["ta", "tb", "tundefined"]);
    expect(requests).toBe(3);
    expect(status.listIssue).toMatch(/cursor of page 3 repeats an earlier one/);
  });

  test("omits only the tools whose definitions cannot be parsed, and names them", async () => {
    let deep: object = { type: "string" };
    for (let level = 0; level < 200; level += 1) deep = { type: "object", properties: { name: deep } };
    const proto = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"string"}}}');
    const filler = { ...tool("filler"), description: "x".repeat(16_000) };
    // A listing of more than 128 KiB is parsed in time slices.
    for (const count of [1, 12]) {
      const { names, status } = await listed(() => ({
        tools: [
          tool("first"),
          { inputSchema: deep, name: 'dee"p' },
          { name: "proto", inputSchema: proto },
          ...Array.from({ length: count }, (_, n) => ({ ...filler, name: `filler${n}` })),
          tool("last"),
        ],
      }));
      expect(names).toHaveLength(count + 2);
      expect(status).toMatchObject({ state: "connected", tools: count + 2 });
      expect(status.omittedTools).toEqual([
        { toolName: 'dee"p', problem: expect.stringMatching(/nested more than 256 levels/) },
        { toolName: "proto", problem: expect.stringMatching(/__proto__/) },
      ]);
    }
  });

  test("ends at the limits of pages and tools", async () => {
    let page = 0;
    const endless = await listed(() => {
      page += 1;
      return { tools: [tool(`t${page}`)], nextCursor: `c${page}` };
    });
    expect(endless.requests).toBe(64);
    expect(endless.status.listIssue).toMatch(/at most 64 pages/);
    const many = await listed(() => ({ tools: Array.from({ length: 50 }, (_, n) => tool(`t${n}`)) }), { maxTools: 20 });
    expect(many.names).toHaveLength(20);
    expect(many.status.listIssue).toMatch(/at most 20 tools/);
  });

  test("omits invalid tools and reports the reason", async () => {
    const { names, status } = await listed(() => ({
      tools: [
        tool("good"),
        null,
        5,
        { name: 5, inputSchema },
        { name: "no-schema" },
        { name: "bad-schema", inputSchema: { type: "objekt" } },
        { name: "remote", inputSchema: { type: "object", properties: { a: { $ref: "https://example.com/s.json" } } } },
        { name: "task", inputSchema, execution: { taskSupport: "required" } },
        tool("good"),
      ],
    }));
    expect(names).toEqual(["good"]);
    expect(status.omittedTools.map(({ toolName }) => toolName)).toEqual(
      expect.arrayContaining(["", "no-schema", "bad-schema", "remote", "task", "good"]),
    );
  });

  test.for([
    ["no list", () => ({ tools: {} })],
    ["nothing", () => ({})],
    ["a million invalid tools", () => ({ tools: Array.from({ length: 1_000_000 }, () => 1) })],
    ["an invalid cursor", () => ({ tools: [], nextCursor: 5 })],
  ] as const)("a listing that is %s has no tools, without waiting for its time limit", async ([, list]) => {
    const { names, status } = await listed(list);
    expect(names).toEqual([]);
    expect(status.lastError?.message ?? "").not.toMatch(/in time/);
  });

  test("a listing that never arrives times out and is not repeated at once", async () => {
    const answer: Answer = ({ method }, response) => {
      if (method === "tools/list") response.writeHead(200, { "content-type": "application/json" });
    };
    await using server = await startScriptedServer(answer);
    // The connection is open when the time is over.
    await withMoreTime(300, async (connectTimeoutMs) => {
      glovebox.mcp.addServer("slow", { url: server.url, connectTimeoutMs });
      try {
        expect(await glovebox.listTools()).toEqual([]);
        expect(glovebox.mcp.servers()[0]?.lastError?.message).toMatch(/did not list its tools in time/);
      } finally {
        await glovebox.mcp.removeServer("slow");
      }
    });
  });

  test("is valid for the TTL that its server sends", async () => {
    const listing = (prefix: string, ttlMs: number): Answer => {
      let requests = 0;
      return ({ method }) => {
        if (method !== "tools/list") return undefined;
        requests += 1;
        return { tools: [tool(`${prefix}${requests}`)], ttlMs };
      };
    };
    await using long = await startScriptedServer(listing("long", 3_600_000));
    await using short = await startScriptedServer(listing("short", 400));
    glovebox.mcp.addServer("long", { url: long.url, prefix: "" });
    glovebox.mcp.addServer("short", { url: short.url, prefix: "" });
    /** The number of the short listing. */
    const numberOf = async (): Promise<number> => {
      const names = (await glovebox.listTools()).map(({ name }) => name).sort();
      expect(names).toEqual(["long1", expect.stringMatching(/^short\d+$/)]);
      return Number(names[1]?.slice("short".length));
    };
    for (let times = 0, last = await numberOf(); times < 2; times += 1) {
      await expect.poll(numberOf, { interval: 100 }).toBeGreaterThan(last);
      last = await numberOf();
    }
    await glovebox.mcp.removeServer("long");
    await glovebox.mcp.removeServer("short");
  });

  test("is repeated when the server reports a change", async () => {
    await using server = await startToolServer();
    glovebox.mcp.addServer("up", { url: server.url });
    expect(outputOf(await glovebox.execute({ id: "1", toolName: "up__echo", arguments: { said: "a" } }))).toBe("a");
    const listings = (): number =>
      server.headers.filter((headers) => headers.get("mcp-method") === "tools/list").length;
    const listens = (): number =>
      server.headers.filter((headers) => headers.get("mcp-method") === "subscriptions/listen").length;
    await expect.poll(listens).toBe(1);
    const before = listings();
    // Notifications that are sent before the stream is acknowledged would be lost.
    await expect
      .poll(
        () => {
          server.changed();
          return listings();
        },
        { interval: 200 },
      )
      .toBeGreaterThan(before);
    await glovebox.mcp.removeServer("up");
  });
});

describe("a tool name", () => {
  test("a tool name that another tool already has stays with that tool", async () => {
    glovebox.router.register("t1", {}, () => "ours");
    const { status } = await listed(() => ({ tools: [tool("t1"), tool("t2")] }));
    expect(status.tools).toBe(1);
    expect(status.omittedTools).toEqual([{ toolName: "t1", problem: expect.stringMatching(/taken by another tool/) }]);
    expect(outputOf(await glovebox.execute({ id: "1", toolName: "t1" }))).toBe("ours");
    expect(codeOf(await glovebox.execute({ id: "1", toolName: "t2" }))).toBe("TOOL_UNAVAILABLE");
  });
});
