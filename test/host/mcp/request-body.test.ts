import { describe, expect, test } from "vitest";
import { readJsonBody } from "../../../src/host/mcp/server/http/request-body.ts";

describe("readJsonBody()", () => {
  test("reads JSON of a bounded size and rejects other bodies", async () => {
    const readBody = (request: Request) =>
      readJsonBody(request, { maxBytes: 300_000, timeoutMs: 30_000, take: () => undefined });
    const post = (body: string | Buffer<ArrayBuffer>, headers: Record<string, string> = {}) =>
      readBody(
        new Request("http://localhost/mcp", {
          method: "POST",
          body,
          headers: { "content-type": "application/json", ...headers },
        }),
      );
    expect(await post('{"a":[1,"é"]}', { "content-type": "application/json; charset=utf-8" })).toEqual({
      value: { a: [1, "é"] },
    });
    const large = { params: { arguments: Array.from({ length: 20_000 }, (_, index) => `item ${index}`) } };
    expect(await post(JSON.stringify(large))).toEqual({ value: large });
    expect(await readBody(new Request("http://localhost/mcp"))).toEqual({ value: undefined });
    // Arguments, and what a client answers to a tool, can be long.
    for (const content of [
      { params: { arguments: { text: "x".repeat(200_000) } } },
      { params: { inputResponses: { photo: "x".repeat(200_000) } } },
      { result: { content: "x".repeat(200_000) } },
    ]) {
      expect(await post(JSON.stringify(content))).toEqual({ value: content });
    }
    for (const [body, headers, status] of [
      ["{}", { "content-type": "text/plain" }, 415],
      ["{}", { "content-type": "application/x-www-form-urlencoded" }, 415],
      ["{}", { "content-encoding": "gzip" }, 415],
      [`"${"x".repeat(300_000)}"`, {}, 413],
      ["", {}, 400],
      ["{", {}, 400],
      ['{"a":1}x', {}, 400],
      ["[".repeat(100_000), {}, 400],
      [`${"[".repeat(201)}${"]".repeat(201)}`, {}, 400],
      ['{"__proto__":{"a":1}}', {}, 400],
      ["{}", { "content-type": 'application/json; charset="UTF-16"' }, 415],
      ["{}", { "content-type": "application/json; charset=iso-8859-1" }, 415],
      [Buffer.from('{"a":"\xff"}', "latin1"), {}, 400],
      // Each of these values would be described by the SDK.
      [`{"params":{"capabilities":{"extensions":[${"1,".repeat(12_000)}1]}}}`, {}, 400],
      [`{"result":{"content":{${Array.from({ length: 12_000 }, (_, n) => `"k${n}":1`).join(",")}}}}`, {}, 400],
      // The server keeps what a client says about itself.
      [JSON.stringify({ method: "initialize", params: { clientInfo: { name: "x".repeat(70_000) } } }), {}, 400],
      [
        JSON.stringify({ method: "tools/call", params: { arguments: {}, _meta: { text: "x".repeat(70_000) } } }),
        {},
        400,
      ],
      [JSON.stringify({ method: "initialize", params: "x".repeat(70_000) }), {}, 400],
      // The server keeps the ids of the requests that it is answering.
      [JSON.stringify({ jsonrpc: "2.0", id: "x".repeat(257), method: "ping" }), {}, 400],
    ] as const) {
      const answer = await post(body, headers);
      expect(answer, String(body).slice(0, 20)).toHaveProperty("status", status);
    }
  });
});
