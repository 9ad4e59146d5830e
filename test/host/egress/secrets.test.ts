// Secrets: a placeholder in the guest, the value on the wire to the secret's own hosts, and in no output of a call.

import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { denied, type Secrets } from "../../../src/host/capabilities/fetch/egress-policy.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { redact } from "../../../src/host/observability/redaction/value-redactor.ts";
import { onLoopback, rejectionOf, serve, TestCall, type TestServer } from "../../support/egress.ts";
import {
  CALLBACK_ERROR_MESSAGE,
  FAILING_CALLBACKS,
  inOtherRealm,
  toThenable,
} from "../../support/failing-callbacks.ts";
import { codeOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";

const VALUE = 'sk-live/4f"9Aq+Zü x01&\\';
const HEADER_VALUE = "sk-live/4f9Aq+Z01~42";

const reversed = (value: string): string => [...value].reverse().join("");
const base64 = (value: string): string => Buffer.from(value).toString("base64");
const json = (value: string): string => JSON.stringify(value).slice(1, -1);
/** How a server, or a tool, might show a value. */
const FORMS: readonly (readonly [string, (value: string) => string])[] = [
  ["as it is", (value) => value],
  ["in JSON", json],
  ["in JSON in JSON", (value) => json(json(value))],
  [
    "as \\u escapes",
    (value) => value.replace(/./gs, (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`),
  ],
  ["URL-encoded", encodeURIComponent],
  ["URL-encoded twice", (value) => encodeURIComponent(encodeURIComponent(value))],
  ["as a form", (value) => new URLSearchParams({ value }).toString()],
  [
    "every byte as %XX",
    (value) => [...Buffer.from(value)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""),
  ],
  ["in base64", base64],
  ["in base64, one byte on", (value) => base64(`x${value}y`)],
  ["in base64, two bytes on", (value) => base64(`xx${value}`)],
  ["in base64url", (value) => Buffer.from(`xy${value}`).toString("base64url")],
  ["as Basic credentials", (value) => `Basic ${base64(`user:${value}`)}`],
  ["in base64, URL-encoded", (value) => encodeURIComponent(base64(value))],
  ["in hexadecimal", (value) => Buffer.from(value).toString("hex")],
  ["in capital hexadecimal", (value) => Buffer.from(value).toString("hex").toUpperCase()],
  ["reversed", reversed],
  ["reversed in JSON", (value) => json(reversed(value))],
  ["in HTML", (value) => value.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`)],
  ["in HTML by names", (value) => value.replaceAll("&", "&amp;").replaceAll('"', "&quot;")],
];

/** The value cannot be found by decoding one of the forms. */
function expectHidden(shown: string, value = VALUE): void {
  for (const [, form] of FORMS.slice(0, 9)) expect(shown).not.toContain(form(value));
  expect(shown).not.toContain(Buffer.from(value).toString("hex"));
  expect(shown).not.toContain(reversed(value));
  for (const offset of [0, 1, 2]) {
    const signs = base64(`${"x".repeat(offset)}${value}`).slice(4, -4);
    expect(shown).not.toContain(signs);
  }
}

/** Answers with the request as JSON. */
const echo = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const { url, headers } = request;
  // A body that was denied on its way ends early.
  const body = await text(request).catch(() => undefined);
  response.end(Buffer.from(JSON.stringify({ url, headers, body })).toString("base64").split("").reverse().join(" "));
};
/** Reverses the value, in a form that redaction does not look for, so that tests see the sent text. */
const unecho = (body: string): { url: string; headers: Record<string, string>; body: string } =>
  JSON.parse(Buffer.from(body.split(" ").reverse().join(""), "base64").toString());

function callTo(server: TestServer, value: string | (() => string | Promise<string>), more: Secrets = {}): TestCall {
  const secrets: Secrets = { API_KEY: { value, hosts: [server.origin] }, ...more };
  return new TestCall({ allow: onLoopback("127.0.0.1"), ports: [server.port] }, secrets);
}

describe("a placeholder", () => {
  test("is different for each call and secret, and cannot be guessed", async () => {
    const server = await serve(echo);
    const call = callTo(server, VALUE);
    const first = await call.use("API_KEY");
    expect(first).toMatch(/^glovebox_secret_[0-9a-f]{40}$/);
    expect(await call.use("API_KEY")).toBe(first);
    expect(await callTo(server, VALUE).use("API_KEY")).not.toBe(first);
  });

  test("is replaced in header values, in Basic credentials, in the query", async () => {
    const server = await serve(echo);
    const call = callTo(server, HEADER_VALUE);
    const placeholder = await call.use("API_KEY");
    const answer = await call.fetch(`${server.origin}/?key=${placeholder}&k=2`, {
      headers: [
        ["authorization", `Basic ${base64(`user:${placeholder}`)}`],
        ["x-key", `Key ${placeholder}, ${placeholder}`],
      ],
    });
    expect(answer.url).toContain(placeholder);
    const seen = unecho(answer.text);
    expect(seen.url).toBe(`/?key=${encodeURIComponent(HEADER_VALUE)}&k=2`);
    expect(seen.headers).toMatchObject({
      authorization: `Basic ${base64(`user:${HEADER_VALUE}`)}`,
      "x-key": `Key ${HEADER_VALUE}, ${HEADER_VALUE}`,
    });
  });

  test.for<[string, string, (placeholder: string) => string, string]>([
    ["JSON", "application/json", (p) => JSON.stringify({ key: p }), JSON.stringify({ key: VALUE })],
    [
      "JSON of a kind",
      "application/vnd.x+json; charset=utf-8",
      (p) => `{"key":"${p}"}`,
      JSON.stringify({ key: VALUE }),
    ],
    ["a form", "application/x-www-form-urlencoded", (p) => `a=1&key=${p}`, `a=1&key=${encodeURIComponent(VALUE)}`],
    ["text", "text/plain", (p) => `key: ${p}.`, `key: ${VALUE}.`],
    ["escapes of JSON", "text/plain", (p) => p.replace("g", "\\u0067"), json(VALUE)],
    ["escapes of a URL", "text/plain", (p) => p.replaceAll("_", "%5F"), encodeURIComponent(VALUE)],
  ])("is replaced in a body in the body's encoding: %s", async ([, type, write, expected]) => {
    const server = await serve(echo);
    const call = callTo(server, VALUE);
    const body = write(await call.use("API_KEY"));
    const headers = [["content-type", type]] as const;
    expect(unecho((await call.fetch(server.origin, { method: "POST", headers, body })).text).body).toBe(expected);
    const head = call.request(server.origin, { id: 9, method: "POST", headers, body: "stream" });
    for (const sign of body) await call.write(9, sign);
    await call.end(9);
    await head;
    expect(unecho(await call.body(9)).body).toBe(expected);
  });

  test("a placeholder whose value is invalid in a header is denied", async () => {
    const server = await serve(echo);
    const call = callTo(server, "line one\r\nHost: evil.test");
    const headers = [["x-key", await call.use("API_KEY")]] as const;
    const rejection = await rejectionOf(call.request(server.origin, { headers }));
    expect(rejection).toMatchObject({ code: "CAPABILITY_DENIED", message: expect.not.stringContaining("evil") });
  });
});

describe("a placeholder on its way to a host that it is not bound to", () => {
  const places: readonly (readonly [
    string,
    (p: string) => Parameters<TestCall["request"]>[1] & { readonly path?: string },
  ])[] = [
    ["in a header", (p) => ({ headers: [["authorization", `Bearer ${p}`]] })],
    ["in Basic credentials", (p) => ({ headers: [["authorization", `Basic ${base64(`u:${p}`)}`]] })],
    ["in a cookie", (p) => ({ headers: [["cookie", `a=${p}`]] })],
    ["in the query", (p) => ({ path: `/?q=${p}` })],
    ["in the query, encoded", (p) => ({ path: `/?q=${p.replaceAll("_", "%5f")}` })],
    ["in a body", (p) => ({ method: "POST", body: p })],
    ["in a body, escaped", (p) => ({ method: "POST", body: JSON.stringify(p).replaceAll("_", "\\u005f") })],
  ];
  test.for(places)("is rejected: %s", async ([, place]) => {
    const server = await serve(echo);
    const other = await serve(echo);
    const secrets: Secrets = { API_KEY: { value: VALUE, hosts: [other.origin] } };
    const call = new TestCall({ allow: onLoopback(server.origin, other.origin) }, secrets);
    const { path = "/", ...options } = place(await call.use("API_KEY"));
    expect(await rejectionOf(call.request(server.origin + path, options))).toEqual({
      code: "CAPABILITY_DENIED",
      message: expect.stringMatching(
        /^Denied by the rule "secrets" of the egress policy: the secret API_KEY is not bound to http:/,
      ),
    });
    expect(server.requests).toEqual([]);
  });

  test("is denied in a streamed body, wherever it is split", async () => {
    const server = await serve(echo);
    const call = new TestCall({ allow: onLoopback(server.origin) }, { API_KEY: { value: VALUE, hosts: [] } });
    const placeholder = await call.use("API_KEY");
    for (const at of [1, 10, placeholder.length - 1]) {
      const head = rejectionOf(call.request(server.origin, { id: at, method: "POST", body: "stream" }));
      await call.write(at, `begin ${placeholder.slice(0, at)}`);
      expect((await rejectionOf(call.write(at, placeholder.slice(at)))).code).toBe("CAPABILITY_DENIED");
      expect((await head).code).toBe("CAPABILITY_DENIED");
    }
  });

  test.for<[string, (p: string) => readonly [string, Parameters<TestCall["request"]>[1]]]>([
    ["the path", (p) => [`/${p}/x`, {}]],
    ["a header's name", (p) => ["/", { headers: [[p, "1"]] }]],
  ])("a placeholder in %s is denied, also on its way to a host that it is bound to", async ([, place]) => {
    const server = await serve(echo);
    const call = callTo(server, VALUE);
    const [path, options] = place(await call.use("API_KEY"));
    expect((await rejectionOf(call.request(server.origin + path, options))).code).toBe("CAPABILITY_DENIED");
  });

  test("is denied over http unless the rule starts with http://", async () => {
    const server = await serve(echo);
    const secrets: Secrets = { API_KEY: { value: HEADER_VALUE, hosts: ["127.0.0.1"] } };
    const call = new TestCall({ allow: onLoopback(server.origin) }, secrets);
    const headers = [["x-key", await call.use("API_KEY")]] as const;
    expect(await rejectionOf(call.request(server.origin, { headers }))).toMatchObject({ code: "CAPABILITY_DENIED" });
  });

  test("is removed from the headers of a redirect to another origin, and denied elsewhere", async () => {
    const other = await serve(echo);
    const server = await serve((request, response) => {
      const { searchParams } = new URL(request.url ?? "", "http://x");
      const leak = searchParams.has("leak") ? `?got=${request.headers["x-key"]}` : "";
      response.writeHead(307, { location: `${other.origin}/${leak}` }).end();
    });
    const secrets: Secrets = { API_KEY: { value: HEADER_VALUE, hosts: [server.origin] } };
    const call = new TestCall({ allow: onLoopback(server.origin, other.origin) }, secrets);
    const placeholder = await call.use("API_KEY");
    const headers = [["x-key", placeholder]] as const;
    expect(unecho((await call.fetch(server.origin, { headers })).text).headers["x-key"]).toBeUndefined();
    const body = await rejectionOf(call.request(server.origin, { method: "POST", body: placeholder }));
    const leak = await rejectionOf(call.request(`${server.origin}/?leak`, { headers }));
    expect([body.code, leak.code]).toEqual(["CAPABILITY_DENIED", "CAPABILITY_DENIED"]);
    expect(other.requests).toHaveLength(1);
  });
});

describe("a secret's use()", () => {
  const secrets: Secrets = {
    ONE: { value: "first-value", hosts: [] },
    TWO: { value: () => Promise.resolve("second-value"), hosts: [] },
    SHORT: { value: () => "short", hosts: [] },
    FAILS: { value: () => Promise.reject(new Error("vault at 10.0.0.9 is sealed")), hosts: [] },
    EMPTY: { value: (() => undefined) as never, hosts: [] },
    FOREIGN: { value: inOtherRealm("async () => 'a-foreign-value'") as () => Promise<string>, hosts: [] },
    LAZY: { value: () => toThenable((resolve) => resolve("a-lazy-value")) as Promise<string>, hosts: [] },
    NESTED: { value: (() => Promise.resolve({ value: "an-object" })) as never, hosts: [] },
    HANGS: { value: () => new Promise<never>(() => {}), hosts: [] },
  };
  test.for<[string, unknown, string]>([
    ["NONE", undefined, "CAPABILITY_DENIED"],
    ["__proto__", undefined, "CAPABILITY_DENIED"],
    ["TWO", ["ONE"], "CAPABILITY_DENIED"],
    ["ONE", [], "CAPABILITY_DENIED"],
    ["SHORT", undefined, "PARAM_INVALID"],
    ["FAILS", undefined, "TOOL_FAILED"],
    ["EMPTY", undefined, "TOOL_FAILED"],
    ["NESTED", undefined, "TOOL_FAILED"],
  ])("use() of %s, requested with %j, is %s", async ([name, asked, code]) => {
    const call = new TestCall({ allow: [] }, secrets, asked === undefined ? {} : { secrets: asked as never });
    const rejection = await rejectionOf(call.use(name));
    expect([rejection.code, rejection.message.includes("10.0.0.9")]).toEqual([code, false]);
  });
  test.for<[string, unknown]>([
    ["TWO", undefined],
    ["ONE", ["ONE", "TWO"]],
    ["ONE", true],
    ["FOREIGN", undefined],
    ["LAZY", undefined],
  ])("use() of %s, requested with %j, returns a placeholder", async ([name, asked]) => {
    const call = new TestCall({ allow: [] }, secrets, asked === undefined ? {} : { secrets: asked as never });
    expect(await call.use(name)).toMatch(/^glovebox_secret_/);
  });

  test.for(FAILING_CALLBACKS)(
    "use() of a secret whose function %s is an error that says nothing of it",
    async ([, value]) => {
      const call = new TestCall({ allow: [] }, { FAILS: { value: value as () => string, hosts: [] } });
      const rejection = await rejectionOf(call.use("FAILS"));
      expect([rejection.code, rejection.message.includes(CALLBACK_ERROR_MESSAGE)]).toEqual(["TOOL_FAILED", false]);
    },
  );

  test("use() of a value that never arrives ends with the call", async () => {
    const call = new TestCall({ allow: [] }, secrets);
    const rejection = rejectionOf(call.use("HANGS"));
    call[Symbol.dispose]();
    expect((await rejection).code).toBe("CANCELLED");
  });
});

describe("a response that contains the value", () => {
  const WAYS: readonly (readonly [string, (response: ServerResponse, bytes: Buffer) => void])[] = [
    ["at once", (response, bytes) => void response.end(bytes)],
    ["gzipped", (response, bytes) => void response.setHeader("content-encoding", "gzip").end(gzipSync(bytes))],
    [
      "byte by byte",
      async (response, bytes) => {
        response.socket?.setNoDelay(true);
        for (const byte of bytes) {
          response.write(Buffer.of(byte));
          await new Promise(setImmediate);
        }
        response.end();
      },
    ],
  ];
  test.for(FORMS.flatMap(([name, form]) => WAYS.map(([way, send]) => [name, way, form, send] as const)))(
    "%s, %s, has something else in its place",
    async ([, , form, send]) => {
      const server = await serve((_request, response) => send(response, Buffer.from(`before ${form(VALUE)} after`)));
      const { text: shown } = await callTo(server, VALUE).fetch(server.origin);
      expectHidden(shown);
      expect(shown).toContain("[redacted:API_KEY]");
    },
  );

  test("a value in the head of a response is redacted too", async () => {
    const server = await serve((_request, response) => {
      response
        .writeHead(302, `Found ${HEADER_VALUE}`, {
          "x-key": HEADER_VALUE,
          location: `/?k=${encodeURIComponent(HEADER_VALUE)}`,
        })
        .end();
    });
    expectHidden(
      JSON.stringify(await callTo(server, HEADER_VALUE).request(server.origin, { redirect: "manual" })),
      HEADER_VALUE,
    );
  });

  test.for(["utf8", "latin1"] as const)("a value in the head of a response is redacted in %s", async (encoding) => {
    // What Node writes as latin1 are the bytes of the value.
    const bytes = Buffer.from(VALUE, encoding).toString("latin1");
    const server = await serve((_request, response) => {
      response.writeHead(302, `Found ${bytes}`, { "x-key": bytes, location: `/?k=${bytes}` }).end();
    });
    const head = await callTo(server, VALUE).request(server.origin, { redirect: "manual" });
    const shown = JSON.stringify(head);
    expectHidden(shown);
    expectHidden(Buffer.from(shown, "latin1").toString());
    // A status text that is not UTF-8 cannot be read.
    expect(shown.match(/\[redacted:API_KEY\]/g)).toHaveLength(encoding === "utf8" ? 3 : 2);
    expect(shown).not.toContain('4f\\"9Aq');
  });

  test("a redirect to another origin does not take the value there, also as UTF-8", async () => {
    const other = await serve((_request, response) => response.end("stolen"));
    const server = await serve((_request, response) => {
      response.writeHead(302, { location: `${other.origin}/?k=${Buffer.from(VALUE).toString("latin1")}` }).end();
    });
    const rejection = await rejectionOf(callTo(server, VALUE).fetch(server.origin));
    expect(rejection.code).toBe("CAPABILITY_DENIED");
  });

  test("text that only looks like the value is passed on at once", async () => {
    const server = await serve((_request, response) => void response.write("data: sk-livelier\n\n"));
    const call = callTo(server, HEADER_VALUE);
    await call.request(server.origin, { id: 1 });
    expect(String(await call.read(1))).toBe("data: sk-livelier\n\n");
  });
});

const SOURCE = `
  const shows = {
    output: (_ctx, text) => ({ text, nested: [{ [text]: text }] }),
    log: (ctx, text) => { ctx.log(text, { text }); ctx.log.error("data", [text]); return "logged"; },
    console: (_ctx, text) => { console.log(text, { text }); console.error(new Error(text)); return "printed"; },
    throw: (_ctx, text) => { throw new Error(text); },
    error: (_ctx, text) => { throw Object.assign(new Error("x", { cause: new Error(text) }), { name: text.slice(0, 100), code: text.slice(0, 100) }); },
    progress: (ctx, text) => { ctx.progress({ progress: 1, message: text }); return "told"; },
    invalid: (_ctx, text) => { const e = new Error("refused"); e.stack = "Error: " + text; throw e; },
    large: (_ctx, text) => ["x".repeat(300_000), text, "y".repeat(65_530) + text],
  };
  export const capabilities = { fetch: true, secrets: ["API_KEY"] };
  export default async ({ how, url, text }, ctx) => {
    const placeholder = await ctx.secrets.use("API_KEY");
    if (how === "fetch") return await (await fetch(url, { headers: { "x-key": placeholder } })).text();
    return shows[how](ctx, text);
  };`;

describe("a tool in the sandbox", () => {
  let glovebox: Glovebox;
  beforeAll(async () => {
    glovebox = await makeGlovebox({
      tenancy: "multi",
      limits: { timeoutMs: 120_000 },
      secrets: { API_KEY: { value: VALUE, hosts: [] } },
      tenants: {
        other: { secrets: {} },
      },
    });
    await glovebox.addTool({ name: "show", source: SOURCE }, { scope: "global", grant: ["fetch", "secrets"] });
    await glovebox.addTool({ name: "bare", source: SOURCE }, { scope: "global" });
  });
  afterAll(() => glovebox.close());

  const all = FORMS.map(([name, form]) => `${name}: ${form(VALUE)}`).join("\n");
  test.for(["output", "log", "console", "throw", "error", "progress", "invalid", "large"])(
    "a tool that has the value from elsewhere cannot show it by its %s, in any form",
    async (how) => {
      const received: unknown[] = [];
      const listen = (entry: unknown): void => void received.push(entry);
      for (const shown of [all, ...FORMS.map(([, form]) => form(VALUE))].slice(0, how === "large" ? 3 : undefined)) {
        const call = { id: "c1", toolName: "show", arguments: { how, text: shown } };
        const result = await glovebox.execute(call, { tenantId: "acme", onLog: listen, onProgress: listen });
        expectHidden(JSON.stringify({ ...result, callId: "" }));
      }
      expectHidden(JSON.stringify(received));
      if (how === "log" || how === "progress") expect(JSON.stringify(received)).toContain("[redacted:API_KEY]");
    },
  );

  test("a tool of another tenant, or without the grant, has no secret", async () => {
    const call = { id: "c1", arguments: { how: "output", text: "x" } };
    const other = await glovebox.execute({ ...call, toolName: "show" }, { tenantId: "other" });
    const bare = await glovebox.execute({ ...call, toolName: "bare" }, { tenantId: "acme" });
    expect([codeOf(other), codeOf(bare)]).toEqual(["CAPABILITY_DENIED", "CAPABILITY_DENIED"]);
  });

  test("sends the value, and sees only its placeholder", async () => {
    const server = await serve((request, response) => {
      expect(request.headers["x-key"]).toBe(HEADER_VALUE);
      response.end(`you sent ${request.headers["x-key"]}`);
    });
    await using own = await makeGlovebox({
      limits: { timeoutMs: 120_000 },
      egress: { allow: onLoopback(server.origin) },
      secrets: { API_KEY: { value: HEADER_VALUE, hosts: [server.origin] } },
    });
    await own.addTool({ name: "show", source: SOURCE }, { grant: ["fetch", "secrets"] });
    const result = await own.execute({ id: "c1", toolName: "show", arguments: { how: "fetch", url: server.origin } });
    expect(outputOf(result)).toBe("you sent [redacted:API_KEY]");
    expect(server.requests).toHaveLength(1);
  });
});

test.for(["secrets", "capabilities.secrets", "headers", "userinfo", "url"] as const)(
  "the error of the rule %s stays readable where it is redacted",
  (rule) => {
    const { message } = denied(rule, 'this tool has no secret "API_KEY"');
    expect(redact(message)).toBe(message);
  },
);
