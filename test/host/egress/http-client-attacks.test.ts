// node:http of a tool has no more rights than its fetch: egress rules, headers, secrets and redirects, and what it does not support.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { codeOf, errorOf, makeGlovebox, outputOf } from "../../support/host-zone.ts";
import { type HttpOrigin, type HttpProgram, openHttpOrigin, toolOf } from "../../support/http-origin.ts";

const SECRET = "value-of-a-secret-0123456789";

let server: HttpOrigin;
let other: HttpOrigin;
beforeAll(async () => {
  other = await openHttpOrigin();
  server = await openHttpOrigin([], {});
});
afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await other[Symbol.asyncDispose]();
});

type Options = { readonly [option: string]: unknown };

/** Sends a request with these options. Returns its status, or the code and message of its error. */
const send: HttpProgram = (parts) => {
  const { http, port, options } = parts as typeof parts & { readonly options: Options };
  return new Promise((resolve) => {
    const fail = (error: unknown): void => resolve([(error as { code: string }).code, (error as Error).message]);
    try {
      const request = http.request({ host: "127.0.0.1", port, ...options } as object);
      request.on("error", fail).on("response", (response) => {
        response.resume();
        resolve([response.statusCode, response.headers.location ?? null]);
      });
      request.end();
    } catch (error) {
      fail(error);
    }
  });
};

const attempt = async (options: Options): Promise<unknown> => await server.inTool(send, { options });
const deniedBy = (rule: string): unknown => [
  "CAPABILITY_DENIED",
  expect.stringContaining(`Denied by the rule "${rule}" of the egress policy`),
];

describe("a tool that uses node:http", () => {
  test.for<[what: string, options: () => Options, outcome: unknown]>([
    ["another port", () => ({ port: other.port }), deniedBy("allow")],
    ["another host", () => ({ host: "a.example", port: 80 }), deniedBy("allow")],
    ["the same server by a name", () => ({ host: "localhost" }), deniedBy("allow")],
    ["a number as host", () => ({ host: "2130706433", port: other.port }), deniedBy("allow")],
    ["a private address", () => ({ host: "::1" }), deniedBy("allow")],
    ["a method that is not allowed", () => ({ method: "PROPFIND" }), deniedBy("methods")],
    ["a Host header of another server", () => ({ headers: { host: "a.example" } }), deniedBy("headers")],
    ["a Host header with another port", () => ({ headers: { Host: "127.0.0.1:1" } }), deniedBy("headers")],
    ["two Host headers", () => ({ headers: { host: ["127.0.0.1", "a.example"] } }), deniedBy("headers")],
    ["an Upgrade header", () => ({ headers: { connection: "upgrade", upgrade: "h2c" } }), deniedBy("headers")],
    ["a body framed by the tool", () => ({ headers: { "transfer-encoding": "gzip, chunked" } }), deniedBy("headers")],
    ["an invalid length", () => ({ headers: { "content-length": "1, 2" } }), deniedBy("headers")],
    ["headers of a proxy", () => ({ headers: { "proxy-authorization": "Basic YTpi" } }), deniedBy("headers")],
  ])("is denied %s", async ([, options, outcome]) => {
    const before = other.requests.length + server.requests.length;
    expect(await attempt(options())).toEqual(outcome);
    expect(other.requests.length + server.requests.length).toBe(before);
  });

  test.for<[host: string]>([
    ["127.0.0.1@a.example"],
    ["127.0.0.1/../a"],
    ["127.0.0.1#"],
    ["127.0.0.1?"],
    ["127.0.0.1\\a"],
    ["127.0.0.1:80"],
    ["127.0.0.1%2e"],
    ["127.0.0.1\t"],
    ["[::1]@127.0.0.1"],
  ])("finds no server of the name %j", async ([host]) => {
    expect(await attempt({ host })).toEqual(["ENOTFOUND", `getaddrinfo ENOTFOUND ${host}`]);
  });

  test.for<[path: string, sent: string]>([
    ["//a.example/x", "//a.example/x"],
    ["/@a.example/", "/@a.example/"],
    ["/../../x", "/x"],
    ["?x=1", "/?x=1"],
  ])("stays at the server with the path %s", async ([path, sent]) => {
    expect(await attempt({ path })).toEqual([200, null]);
    expect(server.requests.at(-1)?.url).toBe(sent);
  });

  test.for<[what: string, options: Options, message: string]>([
    ["the URL of another server as path", { path: "http://a.example/" }, "a path begins with /"],
    ["a path without a slash", { path: "@a.example" }, "a path begins with /"],
    ["CONNECT", { method: "CONNECT" }, "a tool has no sockets"],
    ["a socket of the file system", { socketPath: "/var/run/docker.sock" }, "a tool has no sockets"],
  ])("cannot use %s", async ([, options, message]) => {
    expect(await attempt(options)).toEqual(["ERR_SANDBOX_UNSUPPORTED", expect.stringContaining(message)]);
  });

  test("cannot send the method TRACE, or a body with GET", async () => {
    expect(await attempt({ method: "TRACE" })).toEqual([null, "Request: the method TRACE is not allowed"]);
    const outcome = await server.inTool(async ({ http, origin }) => {
      const request = http.request(origin);
      const failure = new Promise<Error>((resolve) => request.on("error", resolve));
      request.end("body");
      return (await failure).message;
    });
    expect(outcome).toContain("GET must not have a body");
  });

  test("cannot bring its own connections", async () => {
    const outcome = await server.inTool(async ({ http, origin }) => {
      const codes: unknown[] = [];
      const attempts: (() => unknown)[] = [
        () => http.get(origin, { createConnection: () => ({}) as never }),
        () => http.get(origin, { agent: Object.assign(new http.Agent(), { proxy: new URL("http://proxy.example") }) }),
        () =>
          http.get(origin, {
            agent: { addRequest: (request: { onSocket(socket: object): void }) => request.onSocket({}) } as never,
          }),
        () => (http.globalAgent as unknown as { createConnection(): void }).createConnection(),
        () => http.get(origin).socket?.write("x"),
      ];
      for (const each of attempts) {
        try {
          codes.push(each() ?? "nothing");
        } catch (error) {
          codes.push((error as { code: string }).code);
        }
      }
      return codes;
    });
    expect(outcome).toEqual([...Array(4).fill("ERR_SANDBOX_UNSUPPORTED"), "nothing"]);
  });

  test("is denied https where only http is allowed", async () => {
    const outcome = await server.inTool(async ({ https, port }) => {
      const failureOf = (options: object): Promise<unknown> =>
        new Promise((resolve) =>
          https.get(options).on("error", (error) => resolve([(error as { code?: string }).code, error.message])),
        );
      return [await failureOf({ host: "127.0.0.1", port }), await failureOf({ host: "a.example", agent: false })];
    });
    expect(outcome).toEqual([
      ["CAPABILITY_DENIED", expect.stringContaining(`https://127.0.0.1:${server.port}`)],
      ["CAPABILITY_DENIED", expect.stringMatching(/https:\/\/a\.example$/)],
    ]);
  });

  test("sees a redirect to a denied host and does not follow it", async () => {
    const before = other.requests.length;
    expect(await attempt({ path: "/301" })).toEqual([301, "/echo"]);
    expect(other.requests.length).toBe(before);
  });

  test("is not affected by a polluted prototype", async () => {
    const program: HttpProgram = async ({ http, origin, port }) => {
      const polluted = { hostname: "a.example", socketPath: "/x", method: "DELETE", headers: { x: "1" }, auth: "a:b" };
      // Loads the platform's URL, which a tool can break for itself.
      new URL(origin);
      Object.assign(Object.prototype, polluted);
      try {
        return await new Promise((resolve, reject) => {
          http
            .get({ host: "127.0.0.1", port }, async (response) => {
              let text = "";
              for await (const chunk of response) text += String(chunk);
              const { method, url, headers } = JSON.parse(text);
              resolve([method, url, headers.x ?? null, headers.authorization ?? null]);
            })
            .on("error", reject);
        });
      } finally {
        for (const name of Object.keys(polluted)) Reflect.deleteProperty(Object.prototype, name);
      }
    };
    expect(await server.inTool(program)).toEqual(["GET", "/", null, null]);
  });

  test("fails without the grant as fetch does", async () => {
    const program: HttpProgram = async ({ http, origin }) => {
      const ofFetch = await fetch(origin).catch((error: unknown) => error as Error & { code: string });
      const ofHttp = await new Promise<Error & { code: string }>((resolve) =>
        http.get(origin).on("error", resolve as () => void),
      );
      const shown = (error: unknown): unknown => [(error as { code: string }).code, (error as Error).message];
      return [shown(ofFetch), shown(ofHttp)];
    };
    await server.glovebox.addTool({ name: "ungranted", source: toolOf(program) });
    const result = await server.glovebox.execute({
      id: "c1",
      toolName: "ungranted",
      arguments: { origin: server.origin },
    });
    const [ofFetch, ofHttp] = outputOf(result) as unknown[];
    expect(ofHttp).toEqual(ofFetch);
    expect(ofHttp).toEqual(["CAPABILITY_DENIED", expect.stringContaining("fetch is not granted to this tool")]);
  });

  test("reports a denial that it does not catch as CAPABILITY_DENIED", async () => {
    const program: HttpProgram = ({ http }) =>
      new Promise((_resolve, reject) => http.get("http://a.example/").on("error", reject));
    await server.glovebox.addTool({ name: "uncaught", source: toolOf(program) }, { grant: ["fetch"] });
    const result = await server.glovebox.execute({ id: "c1", toolName: "uncaught", arguments: {} });
    expect(codeOf(result)).toBe("CAPABILITY_DENIED");
    expect(errorOf(result).message).toContain("http://a.example");
  });

  test("exceeds the limit of a response with the words of fetch", async () => {
    await using own = await openHttpOrigin([], {
      egress: {
        allow: [{ to: "127.0.0.1", addresses: ["127.0.0.0/8"] }],
        ports: Array.from({ length: 64_511 }, (_, index) => index + 1_025),
        responseBytes: 1_000,
      },
    });
    const outcome = await own.inTool(async ({ http, origin }) => {
      const failure = await new Promise<Error & { code: string }>((resolve) =>
        http
          .get(`${origin}/large`, (response) => response.resume().on("error", () => {}))
          .on("error", resolve as () => void),
      );
      return [failure.code, failure.message];
    });
    expect(outcome).toEqual(["QUOTA_EXCEEDED", expect.stringContaining("egress.responseBytes")]);
  });

  test("uses secrets by their placeholders, and does not see their values", async () => {
    await using glovebox = await makeGlovebox({
      egress: { allow: [{ to: server.origin, addresses: ["127.0.0.0/8"] }] },
      limits: { timeoutMs: 120_000 },
      secrets: { API_KEY: { value: SECRET, hosts: [server.origin] } },
    });
    const program: HttpProgram = async (parts) => {
      const { http, origin, ctx } = parts as typeof parts & {
        ctx: { secrets: { use(name: string): Promise<string> } };
      };
      const key = await ctx.secrets.use("API_KEY");
      return await new Promise((resolve, reject) => {
        const request = http.request(
          `${origin}/echo`,
          { method: "POST", headers: { "x-key": key } },
          async (response) => {
            let text = "";
            for await (const chunk of response) text += String(chunk);
            resolve([text.includes(key), JSON.parse(text).headers["x-key"]]);
          },
        );
        request.on("error", reject);
        request.end(`key=${key}`);
      });
    };
    await glovebox.addTool({ name: "keyed", source: toolOf(program) }, { grant: ["fetch", "secrets"] });
    const result = await glovebox.execute({ id: "c1", toolName: "keyed", arguments: { origin: server.origin } });
    const output = outputOf(result);
    expect(server.requests.at(-1)?.headers["x-key"]).toBe(SECRET);
    expect(JSON.stringify(output)).not.toContain(SECRET);
  });
});
