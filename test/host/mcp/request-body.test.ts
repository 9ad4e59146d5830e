import { describe, expect, test } from "vitest";
import { readJsonBody } from "../../../src/host/mcp/server/request-body.ts";

describe("readJsonBody()", () => {
  test("reads JSON of a bounded size and rejects other bodies", async () => {
    const readBody = (request: Request) =>
      readJsonBody(request, { maxBytes: 300_000, timeoutMs: 30_000, take: () => undefined });
    const post = (body: string, headers: Record<string, string> = {}) =>
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
    const large = { items: Array.from({ length: 20_000 }, (_, index) => `item ${index}`) };
    expect(await post(JSON.stringify(large))).toEqual({ value: large });
    expect(await readBody(new Request("http://localhost/mcp"))).toEqual({ value: undefined });
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
    ] as const) {
      const answer = await post(body, headers);
      expect(answer, body.slice(0, 20)).toHaveProperty("status", status);
    }
  });
});
