// Compares the npm package `undici` in a tool, where it sends over the tool's fetch, with the same version in Node, for the same server.
import stream from "node:stream";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { outputOf } from "../support/host-zone.ts";
import { type HttpOrigin, openHttpOrigin } from "../support/http-origin.ts";

type Undici = typeof import("undici");
interface Parts {
  readonly undici: Undici;
  readonly stream: typeof import("node:stream");
  readonly origin: string;
}
/** They must not use anything else from around them: their text is the tool's. */
type Program = (parts: Parts) => Promise<unknown>;

const PROGRAMS: Readonly<Record<string, Program>> = {
  "request() sends a body and headers, and reads JSON": async ({ undici, origin }) => {
    const headers = { "content-type": "application/json", "x-list": ["1", "2"] };
    const body = JSON.stringify({ a: "é" });
    const response = await undici.request(`${origin}/echo?q=1`, { method: "POST", headers, body });
    return [response.statusCode, response.headers["content-type"], await response.body.json(), response.trailers];
  },
  "request() reads bytes, a Blob and text": async ({ undici, origin }) => {
    const bytes = await (await undici.request(`${origin}/large`)).body.arrayBuffer();
    const blob = await (await undici.request(`${origin}/large`)).body.blob();
    return [bytes.byteLength, blob.size, await (await undici.request(`${origin}/chunked`)).body.text()];
  },
  "a slow reader gets the whole body": async ({ undici, origin }) => {
    let size = 0;
    for await (const chunk of (await undici.request(`${origin}/large`)).body) {
      size += (chunk as Uint8Array).length;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return size;
  },
  "a body that is not read does not disturb later requests": async ({ undici, origin }) => {
    const response = await undici.request(`${origin}/large`);
    await response.body.dump();
    return (await undici.request(`${origin}/500`)).statusCode;
  },
  "bodies from streams, generators and Blobs": async ({ undici, stream: { Readable }, origin }) => {
    const send = async (body: unknown): Promise<string> => {
      const options = { method: "PUT", body } as never;
      return ((await (await undici.request(`${origin}/echo`, options)).body.json()) as { body: string }).body;
    };
    async function* generate() {
      yield "x";
      yield Buffer.from("y");
    }
    // A stream of Node 0.8, such as a form of the package form-data. It begins to flow when it is resumed.
    const emitter = new (process.getBuiltinModule("node:events").EventEmitter)();
    const resume = (): void => {
      for (const part of ["old ", Buffer.from("stream")]) emitter.emit("data", part);
      emitter.emit("end");
    };
    const legacy = Object.assign(emitter, { readable: true, resume, pipe: () => undefined });
    return [
      await send(Readable.from(["a", "b"])),
      await send(generate()),
      await send(new Blob(["blob"])),
      await send(legacy),
    ];
  },
  "fetch() with headers, redirects, encodings and forms": async ({ undici, origin }) => {
    const headers = new undici.Headers({ "x-mine": "1" });
    const posted = await undici.fetch(`${origin}/echo`, { method: "POST", body: "text", headers });
    const json = (await posted.json()) as { readonly body: string; readonly headers: Record<string, string> };
    const moved = await undici.fetch(`${origin}/301`);
    const form = new undici.FormData();
    form.set("name", "value");
    const filled = await undici.fetch(`${origin}/echo`, { method: "POST", body: form });
    return [
      [posted.status, json.body, json.headers["x-mine"], posted.headers.get("content-type")],
      [moved.redirected, new URL(moved.url).pathname, moved.status],
      await (await undici.fetch(`${origin}/gzip`)).text(),
      /name="name"/.test(((await filled.json()) as { readonly body: string }).body),
      (await undici.fetch(`${origin}/joined`)).headers.getSetCookie(),
    ];
  },
  "errors of the connection": async ({ undici, origin }) => {
    const describeError = (error: Error & { readonly code?: string; readonly cause?: Error }): unknown => [
      error.name,
      error.code,
      error.message,
      error.cause?.name,
    ];
    const attempt = (run: Promise<unknown>): Promise<unknown> => run.catch(describeError);
    // The server hangs up when the client has the head of the response and reads the body.
    const cutOff = (reading: Promise<string>): Promise<unknown> =>
      Promise.all([reading, undici.request(`${origin}/cut-now`)]);
    return [
      await attempt(undici.request(`${origin}/drop`)),
      await attempt(undici.request(`${origin}/cut`).then(({ body }) => cutOff(body.text()))),
      await attempt(undici.fetch(`${origin}/drop`)),
      await attempt(undici.fetch(`${origin}/cut`).then((response) => cutOff(response.text()))),
    ];
  },
  "signals, time limits and sizes": async ({ undici, origin }) => {
    const attempt = (run: Promise<unknown>): Promise<unknown> =>
      run.catch((error: Error & { readonly code?: string }) => [error.name, error.code]);
    const small = new undici.Client(origin, { maxResponseSize: 10 });
    const before = AbortSignal.abort();
    return [
      await attempt(undici.request(`${origin}/hang`, { signal: AbortSignal.timeout(30) })),
      await attempt(undici.request(`${origin}/hang`, { signal: before })),
      await attempt(undici.fetch(`${origin}/hang`, { signal: AbortSignal.timeout(30) })),
      await attempt(undici.request(`${origin}/hang`, { headersTimeout: 1_000 })),
      await attempt(undici.request(`${origin}/part`, { bodyTimeout: 1_000 }).then(({ body }) => body.text())),
      await attempt(small.request({ path: "/large", method: "GET" }).then(({ body }) => body.text())),
      await attempt(
        undici.request(`${origin}/echo`, { method: "POST", body: "a", headers: { "content-length": "5" } }),
      ),
    ];
  },
  "clients, pools and agents, which close and can be destroyed": async ({ undici, origin }) => {
    const get = async (target: InstanceType<Undici["Client"] | Undici["Pool"]>, n: number): Promise<unknown> => {
      const { body } = await target.request({ path: `/echo?n=${n}`, method: "GET" });
      return ((await body.json()) as { readonly url: string }).url;
    };
    const name = (error: Error): string => error.name;
    const client = new undici.Client(origin);
    const first = await Promise.all([1, 2, 3].map((n) => get(client, n)));
    await client.close();
    const late = await get(client, 4).catch(name);
    const pool = new undici.Pool(origin, { connections: 2 });
    const second = await Promise.all([1, 2, 3, 4, 5].map((n) => get(pool, n)));
    const open = pool.request({ path: "/hang", method: "GET" }).catch(name);
    await new Promise((resolve) => setTimeout(resolve, 20));
    await pool.destroy();
    const agent = new undici.Agent({ keepAliveTimeout: 10 }).compose(
      undici.interceptors.redirect({ maxRedirections: 2 }),
    );
    const { statusCode } = await undici.request(`${origin}/301`, { dispatcher: agent });
    return [first, client.closed, client.destroyed, late, second, await open, pool.destroyed, statusCode];
  },
  "stream(), pipeline() and a mock": async ({ undici, stream: { Writable }, origin }) => {
    const parts: string[] = [];
    await undici.stream(
      `${origin}/chunked`,
      { method: "GET" },
      () =>
        new Writable({
          write(chunk, _encoding, done) {
            parts.push(String(chunk));
            done();
          },
        }),
    );
    const piped = undici.pipeline(`${origin}/echo`, { method: "POST" }, ({ body }) => body);
    piped.end("piped");
    let text = "";
    for await (const chunk of piped) text += String(chunk);
    const mock = new undici.MockAgent();
    mock.disableNetConnect();
    mock.get("http://mocked.example").intercept({ path: "/" }).reply(200, { mocked: true });
    const { body } = await undici.request("http://mocked.example/", { dispatcher: mock });
    return [parts.join(""), (JSON.parse(text) as { readonly body: string }).body, await body.json()];
  },
};

let server: HttpOrigin;
beforeAll(async () => {
  server = await openHttpOrigin([], { bundler: { packagesDir: process.cwd() } });
  const programs = Object.entries(PROGRAMS).map(([name, run]) => `${JSON.stringify(name)}: ${run.toString()}`);
  const source = `
    import * as undici from "undici"; import stream from "node:stream";
    const programs = { ${programs.join(",\n")} };
    export default ({ name, origin }) => programs[name]({ undici, stream, origin });`;
  await server.glovebox.addTool({ name: "undici", source }, { grant: ["fetch"] });
  await server.glovebox.addTool({ name: "denied", source });
  const upgrade = `import { Client } from "undici";
    const attempt = (run) => run.catch((error) => error.message);
    export default async ({ origin }) => {
      const client = new Client(origin);
      return [await attempt(client.upgrade({ path: "/" })), await attempt(client.connect({ path: "/" }))];
    };`;
  await server.glovebox.addTool({ name: "upgrade", source: upgrade }, { grant: ["fetch"] });
});
afterAll(() => server[Symbol.asyncDispose]());

const run = async (toolName: string, input: object): Promise<unknown> =>
  outputOf(await server.glovebox.execute({ id: "c1", toolName, arguments: { origin: server.origin, ...input } }));

describe("undici in a tool behaves as in Node:", () => {
  test.for(Object.keys(PROGRAMS))("%s", async (name) => {
    const undici = await import("undici");
    const expected = (await PROGRAMS[name]?.({ undici, stream, origin: server.origin })) as unknown;
    expect(await run("undici", { name })).toEqual(JSON.parse(JSON.stringify(expected)));
  });
});

test("undici sends only what the tool's fetch may", async () => {
  const count = server.requests.length;
  const name = "request() reads bytes, a Blob and text";
  const denied = await server.glovebox.execute({
    id: "c1",
    toolName: "denied",
    arguments: { name, origin: server.origin },
  });
  expect(denied).toMatchObject({ success: false, error: { message: expect.stringContaining("fetch") } });
  const outside = { name, origin: "http://127.0.0.1:9" };
  const other = await server.glovebox.execute({ id: "c2", toolName: "undici", arguments: outside });
  expect(other).toMatchObject({ success: false });
  expect(server.requests).toHaveLength(count);
});

test("undici cannot take over a connection", async () => {
  const unsupported = (what: string) => `undici with ${what} does not exist in the sandbox: a tool has no sockets`;
  expect(await run("upgrade", {})).toEqual([unsupported("upgrade"), unsupported("CONNECT")]);
});
