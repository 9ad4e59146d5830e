// Why a tool's fetch failed, as the tool and its caller see it: words and a code, and nothing of the host.
import { readFileSync } from "node:fs";
import { createServer as createHttps } from "node:https";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import { onLoopback } from "../../support/egress.ts";
import { errorOf, makeGlovebox, outputOf, PYTHON_CACHE } from "../../support/host-zone.ts";
import { withMoreTime } from "../../support/more-time.ts";

const read = (name: string): string => readFileSync(new URL(`../../fixtures/tls/${name}.pem`, import.meta.url), "utf8");
const HOSTS = [
  "127.0.0.1",
  "[::1]",
  "secure.test",
  "other.test",
  "no-name.test",
  "later.test",
  "broken.test",
  "mute.test",
];
/** A resolver of the host's whose failures are those of the operating system's. */
function resolve(host: string): readonly string[] {
  const code = ({ "no-name.test": "ENOTFOUND", "later.test": "EAI_AGAIN" } as Record<string, string>)[host];
  if (code !== undefined) throw Object.assign(new Error(`getaddrinfo ${code} at 10.9.8.7`), { code, syscall: "x" });
  if (host === "broken.test") throw new Error("resolv.conf at /etc/secret");
  return ["127.0.0.1"];
}

const SOURCE = `
  export const capabilities = { fetch: true };
  const steps = {
    get: async (url) => (await fetch(url)).text(),
    post: async (url) => (await fetch(url, { method: "POST", body: "x".repeat(100000) })).text(),
    stream: async (url) => {
      const body = new ReadableStream({ async pull(c) { c.enqueue(new Uint8Array(65536)); } });
      return (await fetch(url, { method: "POST", body, duplex: "half" })).text();
    },
  };
  export default async ({ step, url, isCaught }) => {
    if (!isCaught) return await steps[step](url);
    try { return await steps[step](url); } catch (error) {
      const { name, message, cause } = error;
      return { name, message, code: cause?.code ?? null, cause: cause?.message ?? null, isError: cause instanceof Error, keys: Object.keys(cause ?? {}) };
    }
  };`;

const egress = {
  allow: HOSTS.flatMap((host) => [...onLoopback(host), ...onLoopback(`https://${host}`)]),
  ports: Array.from({ length: 0xffff - 1_024 }, (_, index) => index + 1_025),
  resolve,
  methods: ["GET", "POST"],
};

let glovebox: Glovebox;
beforeAll(async () => {
  const tenants = (tenantId: string) => {
    const [, ms] = /^hasty (\d+)$/.exec(tenantId) ?? [];
    return ms === undefined ? {} : { egress: { ...egress, timeoutMs: Number(ms) } };
  };
  glovebox = await makeGlovebox({ tenancy: "multi", egress, tenants });
  await glovebox.addTool({ name: "get", source: SOURCE }, { grant: ["fetch"], scope: "global" });
});
const trusted = getCACertificates();
afterAll(async () => {
  setDefaultCACertificates(trusted);
  await glovebox.close();
});

async function listen(server: Server, host = "127.0.0.1"): Promise<number> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((ready) => server.listen(0, host, ready));
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
/** Answers each connection's first bytes. */
const raw = (answer: (socket: Socket) => void): Promise<number> =>
  listen(createServer((socket) => socket.on("error", () => {}).once("data", () => answer(socket))));
const secure = (name: string): Promise<number> =>
  listen(createHttps({ cert: read(name), key: read("key") }, (_request, response) => response.end("ok")));
async function closedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

interface Failed {
  readonly name: string;
  readonly message: string;
  readonly code: string | null;
  readonly cause: string | null;
  readonly isError: boolean;
  readonly keys: readonly string[];
}

/**
 * The error that the tool catches, with Node's message, which libraries compare. Its caller receives the reason, too, if the tool does not catch
 * it. Neither contains data of the host.
 */
async function failureOf(url: string, { step = "get", tenantId = "acme" } = {}): Promise<Failed> {
  const call = (isCaught: boolean) =>
    glovebox.execute({ id: "c1", toolName: "get", arguments: { step, url, isCaught } }, { tenantId });
  const caught = outputOf(await call(true)) as unknown as Failed;
  const error = errorOf(await call(false));
  const code = caught.code === null ? "" : ` (${caught.code})`;
  const message = `${caught.message}: ${caught.cause}${code}`;
  expect([error.code, error.message]).toEqual(["TOOL_FAILED", expect.stringContaining(message)]);
  const host = new URL(url).hostname;
  for (const shown of [JSON.stringify(caught), JSON.stringify(error)]) {
    const own = shown.replaceAll(host, "");
    expect(own).not.toMatch(/127\.0\.0\.1|::1|10\.9\.8\.7|\/etc\/|resolv|getaddrinfo|undici|node:/);
  }
  return caught;
}

const failure = (message: string, words: string, code: string): Failed => ({
  name: "TypeError",
  message,
  code,
  cause: words,
  isError: true,
  keys: ["code"],
});

test.for([25, 6_667])("fetch names the reason if the Fetch standard blocks port %i", async (port) => {
  const words = `port ${port} is blocked by the Fetch standard`;
  const blocked = {
    name: "TypeError",
    message: "fetch failed",
    code: null,
    cause: words,
    isError: true,
    keys: [],
  };
  expect(await failureOf(`http://secure.test:${port}/`)).toEqual(blocked);
  // It is the same for a host that no rule allows.
  expect(await failureOf(`http://denied.test:${port}/`)).toEqual(blocked);
});

describe("fetch names the reason of a failed connection", () => {
  test("reports that nothing listens on the port", async () => {
    const port = await closedPort();
    const refused = failure("fetch failed", "connection refused", "ECONNREFUSED");
    expect(await failureOf(`http://127.0.0.1:${port}/`)).toEqual(refused);
    expect(await failureOf(`http://secure.test:${port}/`)).toEqual(refused);
    expect(await failureOf(`https://secure.test:${port}/`)).toEqual(refused);
    expect(await failureOf(`http://secure.test:${port}/`, { step: "post" })).toEqual(refused);
    expect(await failureOf(`http://secure.test:${port}/`, { step: "stream" })).toEqual(refused);
  });

  test("reports a connection that is reset or closed before the response", async () => {
    const reset = await raw((socket) => void socket.resetAndDestroy());
    expect(await failureOf(`http://127.0.0.1:${reset}/`)).toEqual(
      failure("fetch failed", "connection reset", "ECONNRESET"),
    );
    const closed = await raw((socket) => socket.end());
    expect(await failureOf(`http://127.0.0.1:${closed}/`)).toEqual(
      failure("fetch failed", "connection closed before the response was complete", "UND_ERR_SOCKET"),
    );
  });

  test("reports a response that is not HTTP", async () => {
    for (const answer of ["this is no HTTP\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\nhi"]) {
      const port = await raw((socket) => socket.end(answer));
      expect(await failureOf(`http://127.0.0.1:${port}/`)).toEqual(
        failure("fetch failed", "the response is not valid HTTP", "HPE_INVALID_RESPONSE"),
      );
    }
  });

  test("reports a server that never answers", async () => {
    const port = await raw(() => {});
    await withMoreTime(300, async (ms) => {
      expect(await failureOf(`http://127.0.0.1:${port}/`, { tenantId: `hasty ${ms}` })).toMatchObject({
        message: "fetch failed",
        cause: expect.stringMatching(/^timed out /),
        code: expect.stringMatching(/^(ETIMEDOUT|UND_ERR_HEADERS_TIMEOUT)$/),
      });
    });
  });
});

describe("fetch names the reason of a failed name lookup", () => {
  test.for<[string, words: string, code: string]>([
    ["no-name.test", "name not found", "ENOTFOUND"],
    ["later.test", "name lookup failed for now", "EAI_AGAIN"],
    ["broken.test", "name lookup failed", "EAI_FAIL"],
  ])("reports the failed lookup of %s with its code", async ([host, words, code]) => {
    expect(await failureOf(`http://${host}:8080/`)).toEqual(failure("fetch failed", words, code));
  });
});

describe("fetch names the reason of a failed TLS handshake", () => {
  test("reports a certificate that is self-signed, expired or of another host", async () => {
    setDefaultCACertificates(trusted);
    const port = await secure("cert");
    const fails = (words: string, code: string) => failure("fetch failed", words, code);
    expect(await failureOf(`https://secure.test:${port}/`)).toEqual(
      fails("TLS certificate is self-signed", "DEPTH_ZERO_SELF_SIGNED_CERT"),
    );
    setDefaultCACertificates([...trusted, read("cert"), read("expired")]);
    expect(await failureOf(`https://other.test:${port}/`)).toEqual(
      fails("TLS certificate is for another host", "ERR_TLS_CERT_ALTNAME_INVALID"),
    );
    expect(await failureOf(`https://secure.test:${await secure("expired")}/`)).toEqual(
      fails("TLS certificate has expired", "CERT_HAS_EXPIRED"),
    );
  });

  test("reports a server without TLS", async () => {
    const port = await raw((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    expect(await failureOf(`https://secure.test:${port}/`)).toEqual(
      failure("fetch failed", "TLS handshake failed", "EPROTO"),
    );
  });
});

describe("reading a body names the reason of its failure", () => {
  const HEAD = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
  test("reports a connection that is reset in the middle", async () => {
    const port = await raw((socket) => socket.write(HEAD, () => setImmediate(() => socket.resetAndDestroy())));
    const failed = await failureOf(`http://127.0.0.1:${port}/`);
    // The reset may overtake the head.
    expect(failed.message).toMatch(/^(terminated|fetch failed)$/);
    expect(failed).toMatchObject({ cause: "connection reset", code: "ECONNRESET" });
  });

  test("reports a connection that is closed in the middle", async () => {
    const port = await raw((socket) => socket.end(HEAD));
    expect(await failureOf(`http://127.0.0.1:${port}/`)).toEqual(
      failure("terminated", "connection closed before the response was complete", "UND_ERR_SOCKET"),
    );
  });

  test("reports a body that does not end in time", async () => {
    const port = await raw((socket) => void socket.write(HEAD));
    // The head has arrived when the time is over.
    await withMoreTime(300, async (ms) => {
      const failed = await failureOf(`http://127.0.0.1:${port}/`, { tenantId: `hasty ${ms}` });
      expect(failed).toMatchObject({
        message: "terminated",
        cause: expect.stringMatching(/^timed out /),
        code: expect.stringMatching(/^(ETIMEDOUT|UND_ERR_BODY_TIMEOUT)$/),
      });
    });
  });

  test("reports a body that does not match its content-encoding", async () => {
    const port = await raw((socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nnot gzip at all"));
    expect(await failureOf(`http://127.0.0.1:${port}/`)).toEqual(
      failure("terminated", "the response body does not match its content-encoding", "Z_DATA_ERROR"),
    );
  });
});

test("a Python tool gets the reason in the message of the exception, which has no cause", async () => {
  const source = `capabilities = {"fetch": True}
async def main(input):
    try:
        return await (await fetch(input["url"])).text()
    except Exception as error:
        if input["caught"]:
            return str(error)
        raise`;
  // The shared cache of interpreters: compiling one takes long on a busy machine.
  const python = await makeGlovebox({ cache: PYTHON_CACHE, egress });
  onTestFinished(() => python.close());
  await python.addTool({ name: "py", language: "python", source }, { grant: ["fetch"] });
  const call = (url: string, caught: boolean) =>
    python.execute({ id: "c1", toolName: "py", arguments: { url, caught } });
  const refused = `http://127.0.0.1:${await closedPort()}/`;
  const cut = await raw((socket) => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"));
  for (const [url, message] of [
    [refused, "fetch failed: connection refused (ECONNREFUSED)"],
    ["http://secure.test:25/", "fetch failed: port 25 is blocked by the Fetch standard"],
    [`http://127.0.0.1:${cut}/`, "terminated: connection closed before the response was complete (UND_ERR_SOCKET)"],
  ] as const) {
    expect(outputOf(await call(url, true))).toBe(message);
    expect(errorOf(await call(url, false)).message).toBe(message);
  }
});

test("an address that is not allowed is denied in the same way whether or not a server listens there", async () => {
  const open = await raw((socket) => socket.end());
  const closed = await closedPort();
  const deniedOf = async (host: string, port: number): Promise<string> => {
    const url = `http://${host}:${port}/`;
    const { code, message } = errorOf(
      await glovebox.execute({ id: "c1", toolName: "get", arguments: { step: "get", url } }, { tenantId: "acme" }),
    );
    expect(code).toBe("CAPABILITY_DENIED");
    return message.replaceAll(String(port), "PORT");
  };
  expect(await deniedOf("127.0.0.2", open)).toBe(await deniedOf("127.0.0.2", closed));
  expect(await deniedOf("localhost", open)).toBe(await deniedOf("localhost", closed));
});
