// Hostile answers of an upstream MCP server to a call: one table for every transport.
import { constants, gzipSync } from "node:zlib";

const MiB = 1024 * 1024;

/** Outcomes of a call: a code of ours, or `ok`. */
export type Outcome =
  | "ok"
  | "OUTPUT_INVALID"
  | "OUTPUT_TOO_LARGE"
  | "TOOL_FAILED"
  | "TOOL_TIMEOUT"
  | "TOOL_UNAVAILABLE";

export interface Request {
  readonly id: number;
  readonly progressToken: unknown;
}

export interface Attack {
  readonly outcomes: readonly Outcome[];
  /** Messages of JSON-RPC, as text or bytes. A generator may never end. */
  readonly messages: (request: Request) => Iterable<string | Buffer>;
  /** An answer that is one message can also be the body of a response. */
  readonly isOneMessage?: boolean;
}

const result = (id: number, value: string): string => `{"jsonrpc":"2.0","id":${id},"result":${value}}`;
const said = (id: number, text = "done"): string =>
  result(id, `{"content":[{"type":"text","text":${JSON.stringify(text)}}]}`);
const one = (outcomes: readonly Outcome[], message: (request: Request) => string | Buffer): Attack => ({
  outcomes,
  messages: (request) => [message(request)],
  isOneMessage: true,
});
const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
const structured = (id: number, value: string, text = ""): string =>
  result(id, `{"structuredContent":{"a":${value}},"content":[{"type":"text","text":${JSON.stringify(text)}}]}`);
const keys = (count: number): string => `{${Array.from({ length: count }, (_, n) => `"k${n}":0`).join(",")}}`;
const notice = (method: string, params: object): string => JSON.stringify({ jsonrpc: "2.0", method, params });
const ask = (id: unknown, method: string, params: object = {}): string =>
  JSON.stringify({ jsonrpc: "2.0", id, method, params });
const sampling = { messages: [{ role: "user", content: { type: "text", text: "Hi" } }], maxTokens: 100 };
const form = { message: "Password?", requestedSchema: { type: "object", properties: { p: { type: "string" } } } };

const UNREADABLE = ["OUTPUT_INVALID"] as const;
/** Outcome if the call gets no answer: it ends by its own deadline, or with the stream. */
const UNANSWERED = ["TOOL_TIMEOUT", "TOOL_UNAVAILABLE"] as const;
/** More than the host keeps of anything, and enough that handling them in one turn would hold the event loop. */
const FLOOD = 2_000;

function* repeat(count: number, message: (index: number) => string): Generator<string> {
  for (let index = 0; index < count; index += 1) yield message(index);
}
/** Messages before an answer. */
const flood = (
  message: (index: number, request: Request) => string,
  outcomes: readonly Outcome[] = ["ok"],
  count = FLOOD,
): Attack => ({
  outcomes,
  messages: function* (request) {
    yield* repeat(count, (index) => message(index, request));
    yield said(request.id);
  },
});

export const ATTACKS: { readonly [name: string]: Attack } = {
  "nested two million deep": one(UNREADABLE, ({ id }) => structured(id, nested(2 * MiB - 100))),
  "nested a thousand deep": one(UNREADABLE, ({ id }) => structured(id, nested(1_000))),
  "nested deep, in an error": one(
    UNREADABLE,
    ({ id }) => `{"jsonrpc":"2.0","id":${id},"error":{"code":-1,"message":"m","data":${nested(1_900_000)}}}`,
  ),
  "4 MiB of empty lists": one(UNREADABLE, ({ id }) => structured(id, `[${"[],".repeat(1_390_000)}0]`)),
  "as many lists as a message may have": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) =>
    structured(id, `[${"[],".repeat(490_000)}0]`),
  ),
  "2 million numbers": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) => structured(id, `[${"1,".repeat(1_990_000)}0]`)),
  "too many keys": one(UNREADABLE, ({ id }) => structured(id, keys(41_000))),
  "as many keys as an object may have": one(["ok"], ({ id }) => structured(id, keys(39_000))),
  "many objects of many keys": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) =>
    structured(id, `[${Array(9).fill(keys(39_000)).join(",")}]`),
  ),
  "empty objects": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) => structured(id, `[${"{},".repeat(490_000)}0]`)),
  "a long key": one(["ok", "OUTPUT_INVALID", "OUTPUT_TOO_LARGE"], ({ id }) =>
    structured(id, `{"${"k".repeat(3_900_000)}":1}`),
  ),
  "a long number": one(UNREADABLE, ({ id }) => structured(id, "9".repeat(3_900_000))),
  "a text of 3.9 MB": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) => said(id, "x".repeat(3_900_000))),
  "escapes without end": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) =>
    result(id, `{"content":[{"type":"text","text":"${String.raw`\u0000`.repeat(600_000)}"}]}`),
  ),
  "a text that is deep JSON, next to a value": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) =>
    structured(id, "1", nested(1_900_000)),
  ),
  "a text that is many lists, next to a value": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) =>
    structured(id, "1", `[${"[],".repeat(1_290_000)}0]`),
  ),
  "a large value twice": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) => {
    const value = `[${"[1],".repeat(200_000)}0]`;
    return structured(id, value, `{"a":${value}}`);
  }),
  "a thousand texts next to a value": one(["ok", "OUTPUT_TOO_LARGE"], ({ id }) => {
    const part = JSON.stringify({ type: "text", text: `[${"[],".repeat(1_000)}0]` });
    return result(id, `{"structuredContent":{"a":1},"content":[${Array(999).fill(part).join(",")}]}`);
  }),
  "longer than a message may be": one(UNREADABLE, ({ id }) => said(id, "x".repeat(10 * MiB))),
  "a failure with large details": one(["TOOL_FAILED"], ({ id }) =>
    result(
      id,
      `{"isError":true,"structuredContent":[${"[[]],".repeat(50_000)}0],"content":[${"[],".repeat(300_000)}0]}`,
    ),
  ),
  "an error with a message of 3 MB": one(["TOOL_UNAVAILABLE"], ({ id }) =>
    JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32_000, message: "x".repeat(3_000_000) } }),
  ),
  __proto__: one(UNREADABLE, ({ id }) => structured(id, '{"__proto__":{"polluted":1}}')),
  "a result that is a list": one(UNREADABLE, ({ id }) => result(id, "[]")),
  "a result that is null": one(UNREADABLE, ({ id }) => result(id, "null")),
  "an error that is a text": one(UNREADABLE, ({ id }) => `{"jsonrpc":"2.0","id":${id},"error":"no"}`),
  "content that is not a list": one(UNREADABLE, ({ id }) => result(id, '{"content":7}')),
  "a result and an error": one(
    ["TOOL_UNAVAILABLE", "ok"],
    ({ id }) => `{"jsonrpc":"2.0","id":${id},"result":{"content":[]},"error":{"code":-1,"message":"m"}}`,
  ),
  "invalid UTF-8": one(["ok", "OUTPUT_INVALID"], ({ id }) => Buffer.from(said(id, "\xff\xfe\xc0\x80"), "latin1")),
  "a NUL character": one(["ok"], ({ id }) => said(id, "a\0b")),
  "an answer to another request": one(UNANSWERED, ({ id }) => said(id + 1_000)),
  "an answer to a request of another kind": one([...UNANSWERED, "OUTPUT_INVALID"], ({ id }) =>
    said(id).replace(`"id":${id}`, '"id":{"a":1}'),
  ),
  "no JSON": one([...UNANSWERED, "OUTPUT_INVALID"], () => "<html>not found</html>"),
  "another version of JSON-RPC": one([...UNANSWERED, "OUTPUT_INVALID"], ({ id }) => said(id).replace("2.0", "1.0")),
  "a batch": one([...UNANSWERED, "OUTPUT_INVALID"], ({ id }) => `[${`${said(id)},`.repeat(30_000)}${said(id)}]`),
  "answers to the same request": {
    outcomes: ["ok"],
    messages: ({ id }) => repeat(FLOOD, (index) => said(id, String(index))),
  },
  "answers to other requests": flood((index) => said(index + 100_000)),
  "a flood of progress": flood((index, { progressToken }) =>
    notice("notifications/progress", { progressToken, progress: index, message: "x".repeat(100) }),
  ),
  "a flood of log messages": flood(() =>
    notice("notifications/message", { level: "error", logger: "l", data: { text: "x".repeat(200) } }),
  ),
  "a flood of changed lists": flood(() => notice("notifications/tools/list_changed", {})),
  "a flood of unknown notifications": flood((index) => notice(`notifications/${index}`, { index })),
  "large notifications": flood(
    () =>
      `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":[${"[],".repeat(200_000)}0]}}`,
    ["ok"],
    8,
  ),
  "a flood of pings": flood((index) => ask(`p${index}`, "ping")),
  "a flood of pings with one id": flood(() => ask("p", "ping")),
  "a flood of elicitations": flood((index) => ask(`e${index}`, "elicitation/create", form)),
  "a flood of sampling": flood((index) => ask(`s${index}`, "sampling/createMessage", sampling)),
  "requests without end": {
    outcomes: ["TOOL_TIMEOUT"],
    messages: () => repeat(Number.POSITIVE_INFINITY, (index) => ask(index, "roots/list")),
  },
  "notifications without end": {
    outcomes: ["TOOL_TIMEOUT"],
    messages: () =>
      repeat(Number.POSITIVE_INFINITY, () => notice("notifications/message", { level: "info", data: "x" })),
  },
};

/** A body of an event stream or of JSON that only HTTP can carry. */
export interface HttpAttack {
  readonly outcomes: readonly Outcome[];
  readonly status?: number;
  readonly headers: { readonly [name: string]: string | string[] };
  /** Written as they are. A generator may never end. */
  readonly chunks: (request: Request) => Iterable<string | Buffer>;
  /** Whether the connection stays open when all has been written. */
  readonly staysOpen?: boolean;
}

const EVENTS = { "content-type": "text/event-stream" } as const;
const JSON_TYPE = { "content-type": "application/json" } as const;
function* forever(chunk: string | Buffer): Generator<string | Buffer> {
  for (;;) yield chunk;
}
const zeros = (): Buffer => gzipSync(Buffer.alloc(128 * MiB), { level: constants.Z_BEST_SPEED });
const event = (message: string): string => `data: ${message}\n\n`;

export const HTTP_ATTACKS: { readonly [name: string]: HttpAttack } = {
  "comments without end": { outcomes: ["TOOL_TIMEOUT"], headers: EVENTS, chunks: () => forever(":\n".repeat(32_768)) },
  "empty lines without end": {
    outcomes: ["TOOL_TIMEOUT"],
    headers: EVENTS,
    chunks: () => forever("\r\n".repeat(32_768)),
  },
  "empty events without end": {
    outcomes: ["TOOL_TIMEOUT"],
    headers: EVENTS,
    chunks: () => forever("id: 1\ndata:\n\n".repeat(8_192)),
  },
  "data lines without end": { outcomes: UNANSWERED, headers: EVENTS, chunks: () => forever("data:\n".repeat(16_384)) },
  "an event without an end": { outcomes: UNANSWERED, headers: EVENTS, chunks: () => forever("data: x".repeat(16_384)) },
  "an event in pieces of one byte": {
    outcomes: ["ok"],
    headers: EVENTS,
    chunks: ({ id }) => event(said(id, "x".repeat(100_000))),
  },
  "events of unknown names": {
    outcomes: ["ok"],
    headers: EVENTS,
    chunks: function* ({ id }) {
      yield "event: endpoint\ndata: http://127.0.0.1:1/\n\n".repeat(2_000);
      yield event(said(id));
    },
  },
  "long ids": {
    outcomes: ["ok"],
    headers: EVENTS,
    chunks: ({ id }) => [`id: ${"i".repeat(1_000_000)}\nretry: 0\n`, event(said(id))],
  },
  "a stream that ends at once, to be resumed at once": {
    // The server has no stream to resume from.
    outcomes: ["TOOL_UNAVAILABLE"],
    headers: EVENTS,
    chunks: () => ["retry: 0\nid: 1\ndata: \n\n"],
  },
  "an event over several lines": {
    outcomes: ["ok"],
    headers: EVENTS,
    chunks: ({ id }) => [`data: {"jsonrpc":"2.0",\rdata:"id":${id},\r\ndata: "result":{"content":[]}}\n\r\n`],
  },
  "a body without an end": { outcomes: UNREADABLE, headers: JSON_TYPE, chunks: () => forever("x".repeat(65_536)) },
  "spaces without an end": { outcomes: UNREADABLE, headers: JSON_TYPE, chunks: () => forever(" ".repeat(65_536)) },
  "a body that stops coming": {
    outcomes: ["TOOL_TIMEOUT"],
    headers: JSON_TYPE,
    chunks: () => ['{"jsonrpc":"2.0",'],
    staysOpen: true,
  },
  "a stream that says nothing": {
    outcomes: ["TOOL_TIMEOUT"],
    headers: EVENTS,
    chunks: () => [": hello\n\n"],
    staysOpen: true,
  },
  "a compressed body of zeros": {
    outcomes: UNREADABLE,
    headers: { ...JSON_TYPE, "content-encoding": "gzip" },
    chunks: () => [zeros()],
  },
  "compressed events of zeros": {
    outcomes: UNANSWERED,
    headers: { ...EVENTS, "content-encoding": "gzip" },
    chunks: () => [zeros()],
  },
  "a body that is not compressed as it says": {
    outcomes: ["TOOL_UNAVAILABLE", "OUTPUT_INVALID"],
    headers: { ...JSON_TYPE, "content-encoding": "gzip" },
    chunks: ({ id }) => [said(id)],
  },
  "a body compressed five times": {
    outcomes: ["ok", "TOOL_UNAVAILABLE", "OUTPUT_INVALID"],
    headers: { ...JSON_TYPE, "content-encoding": "gzip, gzip, gzip, gzip, gzip" },
    chunks: ({ id }) => [gzipSync(gzipSync(gzipSync(gzipSync(gzipSync(said(id))))))],
  },
  "events that say that they are JSON": {
    outcomes: UNREADABLE,
    headers: JSON_TYPE,
    chunks: ({ id }) => [event(said(id))],
  },
  "JSON that says that it is events": { outcomes: UNANSWERED, headers: EVENTS, chunks: ({ id }) => [said(id)] },
  "a page of HTML without an end": {
    outcomes: ["TOOL_UNAVAILABLE"],
    headers: { "content-type": "text/html" },
    chunks: () => forever("<p>".repeat(20_000)),
  },
  "no content type": { outcomes: ["TOOL_UNAVAILABLE"], headers: {}, chunks: ({ id }) => [said(id)] },
  "large headers": {
    outcomes: ["TOOL_UNAVAILABLE"],
    headers: { ...JSON_TYPE, "x-large": "x".repeat(100_000) },
    chunks: ({ id }) => [said(id)],
  },
  "many headers": {
    outcomes: ["TOOL_UNAVAILABLE", "ok"],
    headers: { ...JSON_TYPE, "set-cookie": Array.from({ length: 1_500 }, (_, n) => `c${n}=1`) },
    chunks: ({ id }) => [said(id)],
  },
  "an error whose body does not end": {
    outcomes: ["TOOL_UNAVAILABLE"],
    status: 500,
    headers: JSON_TYPE,
    chunks: () => forever("[".repeat(65_536)),
  },
  "an error nested deep": {
    outcomes: ["TOOL_UNAVAILABLE"],
    status: 400,
    headers: JSON_TYPE,
    chunks: ({ id }) => [`{"jsonrpc":"2.0","id":${id},"error":{"code":1,"message":"","data":${nested(30_000)}}}`],
  },
  "a redirect to itself": {
    outcomes: ["TOOL_UNAVAILABLE"],
    status: 307,
    headers: { location: "/mcp" },
    chunks: () => [],
  },
  "a status without a body": { outcomes: UNANSWERED, status: 202, headers: {}, chunks: () => [] },
};

const tool = (name: string, more: string): string => `{"name":"${name}","inputSchema":{"type":"object"}${more}}`;

/** Returns a server's list of tools, by page number. `null` ends the list. */
export interface ListAttack {
  /** How many of its tools are taken, at most. */
  readonly mostTools: number;
  readonly page: (index: number) => string;
}

const page = (tools: readonly string[], next?: number): string =>
  `{"tools":[${tools.join(",")}]${next === undefined ? "" : `,"nextCursor":"${next}"`}}`;
const schema = (value: string): string => `{"name":"s","inputSchema":{"type":"object","properties":${value}}}`;

export const LIST_ATTACKS: { readonly [name: string]: ListAttack } = {
  "pages without end": { mostTools: 64, page: (index) => page([tool(`t${index}`, "")], index + 1) },
  "large pages without end": {
    mostTools: 64,
    page: (index) => page([tool(`t${index}`, `,"description":"${"d".repeat(3_000_000)}"`)], index + 1),
  },
  "30,000 tools on a page": {
    mostTools: 1_000,
    page: () => page(Array.from({ length: 30_000 }, (_, n) => tool(`t${n}`, ""))),
  },
  "1,000 large tools": {
    mostTools: 1_000,
    page: () => page(Array.from({ length: 1_000 }, (_, n) => tool(`t${n}`, `,"description":"${"d".repeat(3_900)}"`))),
  },
  "a schema with many lists": {
    mostTools: 1,
    page: () => page([tool("good", ""), schema(`{"a":[${"[],".repeat(480_000)}0]}`)]),
  },
  "schemas of a thousand lists each": {
    mostTools: 60,
    page: () =>
      page(
        Array.from(
          { length: 60 },
          (_, n) => `{"name":"t${n}","inputSchema":{"type":"object","x":[${"[],".repeat(1_000)}0]}}`,
        ),
      ),
  },
  "a schema with many keys": { mostTools: 1, page: () => page([schema(keys(160_000))]) },
  "a schema that is as large as it may be": {
    mostTools: 1,
    page: () =>
      page([
        schema(
          `{${Array.from({ length: 480 }, (_, n) => `"p${n}":{"type":"string","pattern":"^[a-z]{1,9}${n}$","enum":["a","b"]}`).join(",")}}`,
        ),
      ]),
  },
  "10 schemas that are as large as they may be": {
    mostTools: 10,
    page: () =>
      page(
        Array.from({ length: 10 }, (_, at) =>
          schema(
            `{${Array.from({ length: 480 }, (_, n) => `"p${at}_${n}":{"type":"string","pattern":"^[a-z]{1,9}${n}$"}`).join(",")}}`,
          ).replace('"s"', `"s${at}"`),
        ),
      ),
  },
  "a list nested two million deep": { mostTools: 0, page: () => `{"tools":${nested(1_900_000)}}` },
  "a cursor of 3 MB": {
    mostTools: 1,
    page: () => `{"tools":[${tool("t", "")}],"nextCursor":"${"c".repeat(3_000_000)}"}`,
  },
};
