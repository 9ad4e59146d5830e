// Tests how messages of upstream servers are read: events that arrive in pieces, JSON over several turns, and stubs in place of messages.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { isDeepStrictEqual } from "node:util";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { writeJson } from "../../../src/host/json/write-json.ts";
import { toStubStream } from "../../../src/host/mcp/client/http/event-stream.ts";
import { createMessageFetch } from "../../../src/host/mcp/client/http/message-fetch.ts";
import { MessageStubs } from "../../../src/host/mcp/client/http/message-stubs.ts";
import { EventReader } from "../../../src/host/mcp/client/reading/event-reader.ts";
import { hasAtMost, sizeOf } from "../../../src/host/mcp/client/reading/json-size.ts";
import { ReadingBudget } from "../../../src/host/mcp/client/reading/reading-budget.ts";
import { isSameJson } from "../../../src/host/mcp/client/reading/same-json.ts";
import { toReturned } from "../../../src/host/mcp/client/upstream-result.ts";
import { CONTENT_KEY } from "../../../src/sandbox/contract/content.ts";
import type { JsonValue } from "../../../src/sandbox/contract/errors.ts";
import { expectLinearTime } from "../../support/processes.ts";

const { signal } = new AbortController();

interface ReadEvent {
  readonly data: string | number;
  readonly id: string | undefined;
  readonly name: string;
}

function readAll(maxBytes: number, pieces: readonly Buffer[]): ReadEvent[] {
  const reader = new EventReader(maxBytes);
  return pieces
    .flatMap((piece) => [...reader.read(piece)])
    .filter((event) => event !== undefined)
    .map(({ data, id, name }) => ({ data: "head" in data ? data.bytes : data.toString(), id, name }));
}

function cut(bytes: Buffer, cuts: readonly number[]): readonly Buffer[] {
  const pieces: Buffer[] = [];
  let at = 0;
  for (const length of cuts) {
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return [...pieces, bytes.subarray(at)];
}

describe("EventReader", () => {
  const line = fc.string({ maxLength: 12, unit: fc.constantFrom("a", "é", ":", " ", "{") });
  const event = fc.record({
    lines: fc.array(line, { minLength: 1, maxLength: 3 }),
    id: fc.option(fc.constantFrom("1", "x y"), { nil: undefined }),
    name: fc.option(fc.constantFrom("ping", "message"), { nil: undefined }),
  });

  test("reads events with any line ends, however they are split", () => {
    const end = fc.constantFrom("\n", "\r", "\r\n");
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 6 }),
        end,
        fc.array(fc.nat(9), { maxLength: 80 }),
        (events, eol, cuts) => {
          const text = events.map(({ lines, id, name }) =>
            [
              ": comment",
              ...(id === undefined ? [] : [`id: ${id}`]),
              ...(name === undefined ? [] : [`event:${name}`]),
              "unknown: field",
              ...lines.map((each) => `data: ${each}`),
              "",
              "",
            ].join(eol),
          );
          expect(readAll(1_000, cut(Buffer.from(text.join("")), cuts))).toEqual(
            events.map(({ lines, id, name = "message" }) => ({ data: lines.join("\n"), id, name })),
          );
        },
      ),
    );
  });

  test("records the length of an event over the limit and continues", () => {
    const text = `data: ${"x".repeat(500)}\n\ndata: ${"y".repeat(60)}\ndata: ${"y".repeat(60)}\n\ndata: z\n\n`;
    expect(readAll(100, cut(Buffer.from(text), Array(100).fill(7))).map(({ data }) => data)).toEqual([500, 121, "z"]);
  });

  test("ignores ids that are long or contain NUL, and lines without an event", () => {
    const text = `id: ${"i".repeat(2_000)}\ndata: a\n\nid: a\0b\ndata: b\n\nid: 7\n\n\ndata: c\n\n`;
    expect(readAll(100, [Buffer.from(text)])).toEqual(
      ["a", "b", "c"].map((data) => ({ data, id: undefined, name: "message" })),
    );
  });
});

describe("JSON over several turns", () => {
  const json = fc.jsonValue({ maxDepth: 6 }) as fc.Arbitrary<JsonValue>;

  test("is serialized as by JSON.stringify", async () => {
    await fc.assert(
      fc.asyncProperty(json, async (value) => {
        const parsed = JSON.parse(JSON.stringify(value)) as JsonValue;
        expect(await writeJson(parsed, signal)).toBe(JSON.stringify(parsed));
      }),
    );
  });

  test("is equal only to the same value, with members in any order", async () => {
    const reversed = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(reversed);
      if (typeof value !== "object" || value === null) return value;
      return Object.fromEntries(
        Object.entries(value)
          .reverse()
          .map(([key, each]) => [key, reversed(each)]),
      );
    };
    await fc.assert(
      fc.asyncProperty(json, json, async (one, other) => {
        const [a, b] = [one, other].map((value) => JSON.parse(JSON.stringify(value)) as JsonValue);
        expect(await isSameJson(a, reversed(a), signal)).toBe(true);
        expect(await isSameJson(a, b, signal)).toBe(isDeepStrictEqual(a, b));
      }),
    );
  });

  test("is counted up to its limit", () => {
    fc.assert(
      fc.property(json, fc.nat(50), (value, most) => {
        const text = JSON.stringify(value);
        expect(hasAtMost(value, text.length)).toBe(true);
        expect(sizeOf(value, most)).toBeLessThanOrEqual(Math.max(most + 1, sizeOf(value, Number.MAX_SAFE_INTEGER)));
        expect(sizeOf(value, most) > most).toBe(sizeOf(value, Number.MAX_SAFE_INTEGER) > most);
      }),
    );
  });
});

test("base64 of an image is checked in linear time, whatever white space it has", async () => {
  for (const text of ["\n", " ", "= ", "A "]) {
    expectLinearTime((size) => {
      const data = `${text.repeat(size / text.length)}!`;
      toReturned({ content: [{ type: "image", mimeType: "image/png", data }] }, "t", signal).catch(() => undefined);
    }, 4_000);
  }
  const content = [{ type: "image", mimeType: "image/png", data: "aGk=\n \n" }];
  expect(await toReturned({ content }, "t", signal)).toMatchObject({
    [Symbol.for(CONTENT_KEY)]: [{ data: Buffer.from("hi") }],
  });
});

describe("a result with a value", () => {
  const text = (said: unknown) => ({ type: "text", text: JSON.stringify(said) });

  test("counts the keys of its value once, for any number of texts", async () => {
    let counted = 0;
    const countOwnKeys = (target: object): (string | symbol)[] => {
      counted += 1;
      return Reflect.ownKeys(target);
    };
    const structuredContent = new Proxy({ a: 1, b: 2 }, { ownKeys: countOwnKeys });
    await toReturned({ structuredContent, content: [] }, "t", signal);
    const without = counted;
    counted = 0;
    const content = Array.from({ length: 1_000 }, () => text({}));
    const returned = await toReturned({ structuredContent, content }, "t", signal);
    expect(counted - without).toBe(1);
    expect(returned).toHaveProperty("output", structuredContent);
  });

  test("omits a text that repeats the value, also after another text", async () => {
    const value = { a: [1, { b: 2 }] };
    expect(await toReturned({ structuredContent: value, content: [text(value)] }, "t", signal)).toBe(value);
    const both = { structuredContent: value, content: [text("Hi"), text(value)] };
    const returned = (await toReturned(both, "t", signal)) as { readonly [CONTENT: symbol]: unknown };
    expect(returned[Symbol.for(CONTENT_KEY)]).toEqual([text("Hi")]);
  });

  test("is no longer compared after its call has ended", async () => {
    const ended = AbortSignal.abort(new Error("ended"));
    const result = { structuredContent: { a: 1 }, content: [text({})] };
    await expect(toReturned(result, "t", ended)).rejects.toThrow("ended");
  });
});

describe("MessageStubs", () => {
  const answer = { jsonrpc: "2.0", id: 1, result: { content: [] } } as JSONRPCMessage;

  test("returns the message of each stub once", () => {
    const stubs = new MessageStubs();
    const notice = { jsonrpc: "2.0", method: "notifications/x", params: { a: 1 } } as JSONRPCMessage;
    for (const message of [answer, notice]) {
      const stub = JSON.parse(stubs.put(message)?.text ?? "") as JSONRPCMessage;
      expect(stubs.take(stub)).toBe(message);
      expect(stubs.take(stub)).toBeUndefined();
    }
  });

  test("returns nothing for a stub of another connection or a dropped message", () => {
    const [one, other] = [new MessageStubs(), new MessageStubs()];
    const put = one.put(answer);
    const stub = JSON.parse(put?.text ?? "") as JSONRPCMessage;
    expect(other.take(stub)).toBe(stub);
    one.drop(put?.number ?? 0);
    expect(one.take(stub)).toBeUndefined();
    expect(one.put({ jsonrpc: "2.0", result: {} } as never)).toBeUndefined();
  });
});

describe("an event stream", () => {
  const LIMIT = 1_000;
  const eventOf = (message: object): Buffer => Buffer.from(`data: ${JSON.stringify(message)}\n\n`);
  const answerTo = (id: unknown): Buffer => eventOf({ jsonrpc: "2.0", id, result: {} });

  /** A source that gives these chunks one by one, then `end` or nothing more; records whether it was cancelled. */
  function sourceOf(chunks: readonly Buffer[], end?: (controller: ReadableStreamDefaultController) => void) {
    const left = [...chunks];
    const state = { isCancelled: false };
    const stream = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        const next = left.shift();
        if (next !== undefined) controller.enqueue(next);
        else end?.(controller);
      },
      cancel: () => {
        state.isCancelled = true;
      },
    });
    return { stream, state };
  }
  const readAllOf = async (stream: ReadableStream<Uint8Array>): Promise<string> => await new Response(stream).text();

  test("keeps no message whose id the SDK rejects", async () => {
    const stubs = new MessageStubs();
    const ids = [1.5, -0.5, 2 ** 53, null, true, {}, []];
    const { stream } = sourceOf(ids.map(answerTo), (controller) => controller.close());
    expect(await readAllOf(toStubStream(stream, { maxBytes: LIMIT, stubs }))).toBe("");
    expect(stubs.size).toBe(0);
  });

  test("keeps a limited number of messages that are not taken", async () => {
    const stubs = new MessageStubs();
    const chunks = Array.from({ length: 200 }, (_, id) => answerTo(id));
    const { stream } = sourceOf(chunks, (controller) => controller.close());
    await readAllOf(toStubStream(stream, { maxBytes: LIMIT, stubs }));
    expect(stubs.size).toBeLessThanOrEqual(16);
  });

  test("an event stream that fails drops the messages that were not taken", async () => {
    const stubs = new MessageStubs();
    const { stream } = sourceOf([answerTo(1), answerTo(2)], (controller) => controller.error(new Error("reset")));
    await expect(readAllOf(toStubStream(stream, { maxBytes: LIMIT, stubs }))).rejects.toThrow("reset");
    await expect.poll(() => stubs.size).toBe(0);
  });

  test("an event stream with a line without an end cancels its source, and drops the messages before it", async () => {
    const stubs = new MessageStubs();
    const endless = Buffer.from("x".repeat(LIMIT));
    const { stream, state } = sourceOf([answerTo(1), ...Array<Buffer>(40).fill(endless)]);
    await expect(readAllOf(toStubStream(stream, { maxBytes: LIMIT, stubs }))).rejects.toThrow(/a line without an end/);
    expect(state.isCancelled).toBe(true);
    await expect.poll(() => stubs.size).toBe(0);
  });

  test.for([200, 202] as const)(
    "an event stream that the SDK reads as text (%i) is cancelled, and keeps no message",
    async (status) => {
      let isClosed = false;
      const events = createServer((_, response) => {
        response.on("close", () => {
          isClosed = true;
        });
        response.writeHead(status, { "content-type": "text/event-stream" });
        for (let id = 0; id < 100; id += 1) response.write(answerTo(id));
      });
      await new Promise<void>((listening) => events.listen(0, "127.0.0.1", listening));
      const endpoint = new URL(`http://127.0.0.1:${(events.address() as AddressInfo).port}/mcp`);
      const stubs = new MessageStubs();
      const get = createMessageFetch({ endpoint, headers: {}, maxBytes: LIMIT, stubs });
      const response = await get(endpoint, { method: "POST" });
      expect(await response.text()).toBe("");
      await expect.poll(() => isClosed).toBe(true);
      expect(stubs.size).toBe(0);
      await new Promise((closed) => events.close(closed));
    },
  );
});

test("ReadingBudget makes a reader wait after its slice, and resumes all waiting readers", async () => {
  const budget = new ReadingBudget();
  expect(budget.charge(performance.now())).toBeUndefined();
  const waits = Array.from({ length: 5 }, () => budget.charge(performance.now() - 100));
  expect(waits.every((wait) => wait !== undefined)).toBe(true);
  await Promise.all(waits);
});
