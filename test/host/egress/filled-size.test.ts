// Secrets make a request longer, and redaction a response: sizes are limited as they are sent and shown, and neither takes more of the
// host than a few parts of memory and a short turn of its event loop at a time.
import { createHash, randomBytes } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type EgressOptions, EgressSchema, type Secrets } from "../../../src/host/capabilities/fetch/egress-policy.ts";
import { toHop } from "../../../src/host/capabilities/fetch/redirects.ts";
import { Upload } from "../../../src/host/capabilities/fetch/request-body.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { SecretLiteralSet } from "../../../src/host/observability/redaction/secret-literal.ts";
import { StreamFilter } from "../../../src/host/observability/redaction/stream-filter.ts";
import { onLoopback, type Rejection, rejectionOf, serve, TestCall, type TestServer } from "../../support/egress.ts";
import { makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { expectShortTurns } from "../../support/loop-hold.ts";

const KiB = 1024;
const MiB = 1024 * KiB;
/** On a busy machine a turn takes more, and so does the control: the larger of the two bounds holds. */
const HOLD = { boundMs: 50, share: 0.25 } as const;
/** Less than the smallest body. When V8 collects the garbage of earlier parts differs between its versions. */
const GROWN_MIB = 100;
/** Rounds until an action counts as one that grows: when garbage is collected depends on what else the machine does. */
const ROUNDS = 5;

interface Measured<Value> {
  readonly value: Value;
  /** How much more memory buffers took at the most. */
  readonly grownMiB: number;
}

async function growthOf<Value>(action: () => Promise<Value>): Promise<Measured<Value>> {
  globalThis.gc?.();
  const before = process.memoryUsage().arrayBuffers;
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().arrayBuffers);
  }, 5);
  try {
    const value = await action();
    return { value, grownMiB: (peak - before) / MiB };
  } finally {
    clearInterval(timer);
  }
}

/** Runs an action, and expects that it takes little memory and holds the event loop for short turns only. */
async function bounded<Value>(action: () => Promise<Value>): Promise<Value> {
  for (let round = 1; ; round += 1) {
    const { value, grownMiB } = await growthOf(() => expectShortTurns(action, HOLD));
    if (round === ROUNDS) expect(grownMiB).toBeLessThan(GROWN_MIB);
    if (grownMiB < GROWN_MIB) return value;
  }
}

interface Counter {
  readonly origin: string;
  /** Bytes of bodies that have arrived. */
  readonly received: () => number;
  readonly close: () => void;
}

/** A server that counts what arrives and keeps none of it. */
async function serveCounter(): Promise<Counter> {
  let bytes = 0;
  const server = createServer((request, response) => {
    request.on("data", (part: Buffer) => {
      bytes += part.length;
    });
    request.on("end", () => response.end("ok")).on("error", () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received: () => bytes, close };
}

const tooLarge = (bytes: number): string =>
  `The request's body, with the values of secrets in it, has more than ${bytes} bytes (egress.requestBytes)`;

const SOURCE = `
  export const capabilities = { fetch: true, secrets: true };
  const chunked = (text) => {
    const bytes = new TextEncoder().encode(text);
    let at = 0;
    return new ReadableStream({ pull(sink) {
      if (at >= bytes.length) return sink.close();
      sink.enqueue(bytes.subarray(at, at += 60_000));
    } });
  };
  export default async ({ url, bodies, isStream, type }, ctx) => {
    const placeholder = await ctx.secrets.use("KEY");
    const text = placeholder.repeat(Math.floor(2 * 1024 * 1024 / placeholder.length));
    const send = async () => {
      const options = { method: "POST", headers: { "content-type": type } };
      if (isStream) Object.assign(options, { body: chunked(text), duplex: "half" });
      else options.body = text;
      return await fetch(url, options).then((r) => String(r.status), (e) => (e.code ?? e.cause?.code) + ": " + e.message);
    };
    return await Promise.all(Array.from({ length: bodies }, send));
  };`;

describe("a tool whose body grows when its secrets are filled in", () => {
  const VALUES: { readonly [tenantId: string]: string } = {
    short: "k".repeat(3_000),
    long: "k".repeat(8_192),
    escaped: "\u0001".repeat(8_192),
  };
  let server: Counter;
  let glovebox: Glovebox;
  beforeAll(async () => {
    server = await serveCounter();
    const secretsOf = (value: string): Secrets => ({ KEY: { value, hosts: [server.origin] } });
    glovebox = await makeGlovebox({
      tenancy: "multi",
      limits: { timeoutMs: 200_000 },
      egress: { allow: onLoopback(server.origin) },
      tenants: Object.fromEntries(Object.entries(VALUES).map(([id, value]) => [id, { secrets: secretsOf(value) }])),
    });
    await glovebox.addTool({ name: "send", source: SOURCE }, { scope: "global", grant: ["fetch", "secrets"] });
  });
  afterAll(async () => {
    await glovebox.close();
    server.close();
  });

  test.for<[string, string, { readonly bodies: number; readonly isStream: boolean; readonly type: string }]>([
    ["107 MiB at once", "short", { bodies: 1, isStream: false, type: "text/plain" }],
    ["three of 293 MiB at once", "long", { bodies: 3, isStream: false, type: "text/plain" }],
    ["escapes of JSON", "escaped", { bodies: 1, isStream: false, type: "application/json" }],
    ["a form", "escaped", { bodies: 1, isStream: false, type: "application/x-www-form-urlencoded" }],
    ["107 MiB in parts", "short", { bodies: 1, isStream: true, type: "text/plain" }],
    ["three of 293 MiB in parts", "long", { bodies: 3, isStream: true, type: "text/plain" }],
  ])("is denied by the limit of sent bytes: %s", async ([, tenantId, options]) => {
    const call = { id: "c", toolName: "send", arguments: { url: server.origin, ...options } };
    const { result, received } = await bounded(async () => {
      const before = server.received();
      return { result: await glovebox.execute(call, { tenantId }), received: server.received() - before };
    });
    const denial = expect.stringMatching(/^QUOTA_EXCEEDED: .*\(egress\.requestBytes\)$/);
    expect(outputOf(result)).toEqual(Array(options.bodies).fill(denial));
    // Parts of a stream leave before the limit is reached.
    expect(received).toBeLessThanOrEqual(options.isStream ? options.bodies * 16 * MiB : 0);
  });
});

interface Setting {
  readonly server: TestServer;
  readonly call: TestCall;
}

async function openCall(
  secrets: { readonly [name: string]: string },
  egress: Partial<EgressOptions> = {},
  listener?: Parameters<typeof serve>[0],
): Promise<Setting> {
  const echo = async (request: IncomingMessage): Promise<string> => {
    const sha256 = createHash("sha256").update(await buffer(request).catch(() => ""));
    return JSON.stringify({ url: request.url, headers: request.headers, sha256: sha256.digest("hex") });
  };
  const server = await serve(listener ?? (async (request, response) => response.end(await echo(request))));
  const bound: Secrets = Object.fromEntries(
    Object.entries(secrets).map(([name, value]) => [name, { value, hosts: [server.origin] }]),
  );
  return { server, call: new TestCall({ allow: onLoopback(server.origin), ...egress }, bound) };
}

/** The largest number of secrets, of the largest size. */
const MANY: { readonly [name: string]: string } = Object.fromEntries(
  Array.from({ length: 64 }, (_, index) => [`KEY${index}`, `${index}`.padEnd(8_192, "k")]),
);

describe("a body with placeholders", () => {
  const VALUE = `${"v".repeat(2_999)}é`;

  test("arrives completely, with its length, when it is long, and again after a redirect", async () => {
    const { server, call } = await openCall({ KEY: VALUE }, {}, async (request, response) => {
      const body = await buffer(request);
      if (request.url === "/") return response.writeHead(307, { location: "/there" }).end();
      const length = request.headers["content-length"];
      return response.end(JSON.stringify([length, createHash("sha256").update(body).digest("hex")]));
    });
    const placeholder = await call.use("KEY");
    const body = `begin ${`${placeholder}, `.repeat(500)} ${placeholder.slice(0, 30)} end`;
    const filled = Buffer.from(body.replaceAll(placeholder, VALUE));
    const { text, redirected } = await call.fetch(server.origin, { method: "POST", body });
    const sha256 = createHash("sha256").update(filled).digest("hex");
    expect([redirected, JSON.parse(text)]).toEqual([true, [String(filled.length), sha256]]);
  });

  test.for([1, 7, 55, 56, 57, 1_000, 70_000])("arrives whole in parts of %i bytes", async (length) => {
    const { server, call } = await openCall({ KEY: VALUE });
    const placeholder = await call.use("KEY");
    const body = `${`<${placeholder}>`.repeat(length > 100 ? 200 : 3)}${placeholder.slice(0, -1)}`;
    const head = call.request(server.origin, { id: 9, method: "POST", body: "stream" });
    for (let at = 0; at < body.length; at += length) await call.write(9, body.slice(at, at + length));
    await call.end(9);
    await head;
    const sha256 = createHash("sha256").update(body.replaceAll(placeholder, VALUE)).digest("hex");
    expect(JSON.parse(await call.body(9)).sha256).toBe(sha256);
  });

  test("may have exactly requestBytes bytes once it is filled", async () => {
    const requestBytes = 3 * 3_001;
    const { server, call } = await openCall({ KEY: VALUE }, { requestBytes });
    const body = (await call.use("KEY")).repeat(3);
    expect((await call.fetch(server.origin, { method: "POST", body })).status).toBe(200);
    const over = await rejectionOf(call.request(server.origin, { method: "POST", body: `${body}x` }));
    expect(over).toEqual({ code: "QUOTA_EXCEEDED", message: tooLarge(requestBytes) });
    const head = rejectionOf(call.request(server.origin, { id: 9, method: "POST", body: "stream" }));
    await call.write(9, body);
    const rejection = await rejectionOf(call.write(9, "xy"));
    expect([rejection, await head]).toEqual([over, over]);
  });

  test("a body with placeholders that its server rejects early leaves no reusable connection", async () => {
    const { server, call } = await openCall({ KEY: VALUE }, {}, (request, response) => {
      request.on("error", () => {});
      if (request.url === "/early") response.writeHead(413).end();
      else response.end("fine");
    });
    const body = (await call.use("KEY")).repeat(5_000);
    expect((await call.fetch(`${server.origin}/early`, { method: "POST", body })).status).toBe(413);
    expect((await call.fetch(server.origin)).text).toBe("fine");
  });
});

describe("the body that a tool sends", () => {
  test("a body of 40 MiB does not block the event loop, and is not decoded where it is too long", async () => {
    const limit = 40 * MiB;
    const body = Buffer.alloc(limit, "some text");
    const base64 = body.toString("base64");
    const policy = EgressSchema.parse({ allow: [], requestBytes: limit });
    const request = { method: "POST", url: "http://a.test/", headers: [], redirect: "follow" } as const;
    const value = await expectShortTurns(() => toHop({ ...request, body: { base64 } }, policy, {}), HOLD);
    expect(body.equals(value.body as Buffer)).toBe(true);
    const over = toHop({ ...request, body: { base64: `${base64}AAAA` } }, policy, {});
    expect(await rejectionOf(over)).toEqual({ code: "QUOTA_EXCEEDED", message: tooLarge(limit) });
  });

  test.for(["a", "abc", "ab=", "=abc", "ab==cdef", "ab cd", "é"])(
    "is rejected where it is not base64: %j",
    async (text) => {
      const { server, call } = await openCall({});
      const body = { base64: text };
      const request = {
        op: "request",
        id: 1,
        method: "POST",
        url: server.origin,
        headers: [],
        redirect: "follow",
        body,
      };
      expect((await rejectionOf(call.ask("fetch", request))).code).toBe("PARAM_INVALID");
      expect(server.requests).toEqual([]);
    },
  );

  test("keeps the order of parts that take long to decode and parts that do not", async () => {
    const upload = new Upload(new StreamFilter(new SecretLiteralSet([])), 16 * MiB, {});
    const parts = [Buffer.alloc(3 * MiB, "a"), Buffer.from("b"), Buffer.alloc(MiB, "c"), Buffer.from("d")];
    const written = Promise.all([...parts.map((part) => upload.write(part.toString("base64"))), upload.end()]);
    const sent = await buffer(upload.stream);
    await written;
    expect(sent.equals(Buffer.concat(parts))).toBe(true);
  });
});

describe("a request's head with placeholders", () => {
  const basic = (text: string): string => `Basic ${Buffer.from(text).toString("base64")}`;
  const shortly = (rule: string): Rejection => ({
    code: "CAPABILITY_DENIED",
    message: expect.stringMatching(
      new RegExp(`^Denied by the rule "${rule}" of the egress policy: .* more than 65536 bytes`),
    ),
  });

  test.for<[string, string, (placeholder: string) => Parameters<TestCall["request"]>[1] & { readonly query?: string }]>(
    [
      ["one header", "headers", (p) => ({ headers: [["x-key", p.repeat(1_000)]] })],
      ["many headers", "headers", (p) => ({ headers: Array.from({ length: 499 }, (_, i) => [`x-${i}`, p] as const) })],
      ["Basic credentials", "headers", (p) => ({ headers: [["authorization", basic(p.repeat(700))]] })],
      ["the query", "url", (p) => ({ query: `?q=${p.repeat(1_000)}` })],
      ["the query, escaped", "url", (p) => ({ query: `?q=${p.replaceAll("_", "%5F").repeat(1_000)}` })],
    ],
  )("is limited as it is sent: %s", async ([, rule, place]) => {
    const { server, call } = await openCall(MANY);
    const placeholders = await Promise.all(Object.keys(MANY).map((name) => call.use(name)));
    const { query = "", ...options } = place(placeholders[0] ?? "");
    const rejection = await bounded(() => rejectionOf(call.request(`${server.origin}/${query}`, options)));
    expect(rejection).toEqual(shortly(rule));
    expect(server.requests).toEqual([]);
  });

  test("a URL that only its escapes make too long is rejected", async () => {
    const { server, call } = await openCall({ KEY: "k".repeat(8) });
    for (const part of ["path", "?query="]) {
      const rejection = rejectionOf(call.request(`${server.origin}/${part}${"é".repeat(12_000)}`));
      expect(await rejection).toEqual(shortly("url"));
    }
    expect((await call.fetch(`${server.origin}/${"é".repeat(1_000)}`)).status).toBe(200);
  });
});

describe("the response of a server", () => {
  /** Beginnings of values: the redactor compares each of their bytes with all values. */
  const hostile = (bytes: number): Buffer => {
    const beginnings = Object.values(MANY).map((value) => value.slice(0, 4_000));
    return Buffer.from(
      beginnings
        .join("")
        .repeat(Math.ceil(bytes / beginnings.join("").length))
        .slice(0, bytes),
    );
  };

  test("does not block the event loop while it is redacted", async () => {
    const body = hostile(64 * KiB);
    const { server, call } = await openCall(MANY, {}, (_request, response) => {
      response.writeHead(200, { "x-long": hostile(8 * KiB).toString() }).end(body);
    });
    const { text } = await bounded(() => call.fetch(server.origin));
    expect(createHash("sha256").update(text).digest("hex")).toBe(createHash("sha256").update(body).digest("hex"));
  });

  test("a response is limited as the tool receives it: the redacted text is longer", async () => {
    const value = randomBytes(4).toString("hex");
    const { server, call } = await openCall(
      { [`L${"o".repeat(120)}NG`]: value },
      { responseBytes: MiB },
      (_request, response) => response.end(value.repeat(MiB / 8)),
    );
    const rejection = await bounded(() => rejectionOf(call.fetch(server.origin)));
    expect(rejection).toEqual({
      code: "QUOTA_EXCEEDED",
      message: "The response's body has more than 1048576 bytes (egress.responseBytes)",
    });
  });
});
