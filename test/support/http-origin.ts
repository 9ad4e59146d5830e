// A server with one route for each kind of response, and a Glovebox whose tools may reach it: for programs that use node:http in a tool and
// in Node.js.
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import type { AddressInfo } from "node:net";
import stream from "node:stream";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import type { Glovebox } from "../../src/host/glovebox/glovebox.ts";
import { onLoopback } from "./egress.ts";
import { makeGlovebox, outputOf } from "./host-zone.ts";

/** Modules and addresses that a program gets. It must not use anything else from around it. */
export interface HttpParts {
  readonly http: typeof import("node:http");
  readonly https: typeof import("node:https");
  readonly stream: typeof import("node:stream");
  readonly origin: string;
  readonly port: number;
}
export type HttpProgram = (parts: HttpParts) => unknown;

export const LARGE_BYTES: number = 3 * 1024 * 1024;

type Route = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Responses that "/cut-now" is to hang up. */
const cut = new Set<ServerResponse>();

const ROUTES: { readonly [path: string]: Route } = {
  "/joined": (_request, response) => {
    const fields = ["Vary", "a", "X-One", "1", "Vary", "b", "ETag", '"1"', "ETag", '"2"', "Set-Cookie", "a=1"];
    response.writeHead(200, "Fine", [...fields, "Set-Cookie", "b=2", "X-Latin", "caf\u00e9"]);
    response.end("joined");
  },
  "/chunked": (_request, response) => {
    response.write("one,");
    setTimeout(() => response.end("two"), 20);
  },
  "/empty": (_request, response) => response.end(),
  "/204": (_request, response) => response.writeHead(204).end(),
  "/304": (_request, response) => response.writeHead(304, { etag: '"1"', "content-length": "12" }).end(),
  "/301": (_request, response) => response.writeHead(301, { location: "/echo" }).end("moved"),
  "/500": (_request, response) => response.writeHead(500).end("broken"),
  "/gzip": (_request, response) => {
    const body = gzipSync("zipped");
    response.writeHead(200, { "content-encoding": "gzip", "content-length": body.length }).end(body);
  },
  "/unknown-coding": (_request, response) => response.writeHead(200, { "content-encoding": "rot13" }).end("mbccrq"),
  "/large": (_request, response) => response.end(Buffer.alloc(LARGE_BYTES, "a")),
  "/hang": () => {},
  "/part": (_request, response) => response.write("part"),
  "/drop": (request) => request.socket.destroy(),
  "/cut": (_request, response) => {
    response.write("part");
    cut.add(response);
  },
  // Hangs up all of those. A delay would not do: on a busy machine, a client gets the part and the end of the connection at once.
  "/cut-now": (_request, response) => {
    for (const open of cut) open.destroy();
    cut.clear();
    response.end();
  },
  "/count": async (request, response) => response.end(String((await buffer(request)).length)),
  // Answers before the body has arrived.
  "/early": (_request, response) => response.writeHead(413).end("too large"),
};

/** Returns the request as JSON. Headers of the connection and those that the host adds are left out. */
async function echo(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = (await buffer(request)).toString("latin1");
  const added = ["accept", "accept-encoding", "connection", "transfer-encoding", "content-length", "user-agent"];
  const sent = Object.entries(request.headers).filter(([name]) => !added.includes(name));
  const { method, url } = request;
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ method, url, headers: Object.fromEntries(sent), body }));
}

export interface HttpOrigin extends AsyncDisposable {
  readonly glovebox: Glovebox;
  readonly origin: string;
  readonly port: number;
  /** Requests that the server has received. */
  readonly requests: IncomingMessage[];
  /** Runs a program in a tool. */
  inTool(program: HttpProgram, input?: object): Promise<unknown>;
  /** Runs a program in Node.js. */
  inNode(program: HttpProgram): Promise<unknown>;
}

const IMPORTS = 'import http from "node:http"; import https from "node:https"; import stream from "node:stream";';

/** Returns the source of a tool that runs a program. */
export const toolOf = (program: HttpProgram): string => `${IMPORTS}
  const program = ${program.toString()};
  export default (input, ctx) => program({ http, https, stream, ctx, ...input });`;

/** Runs the program in its input: building and adding a tool for each program takes longer than its requests. */
const ANY_PROGRAM = `${IMPORTS}
  export default ({ program, ...input }, ctx) => (0, eval)(\`(\${program})\`)({ http, https, stream, ctx, ...input });`;

export async function openHttpOrigin(allow: readonly string[] = [], options: object = {}): Promise<HttpOrigin> {
  const requests: IncomingMessage[] = [];
  const server = http.createServer((request, response) => {
    requests.push(request);
    const { pathname } = new URL(request.url ?? "/", "http://localhost");
    void (Object.hasOwn(ROUTES, pathname) ? ROUTES[pathname] : echo)?.(request, response);
  });
  // On a busy machine, a connection that is used again would have been closed meanwhile.
  server.keepAliveTimeout = 600_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  const egress = { allow: [...onLoopback(origin, ...allow)] };
  const glovebox = await makeGlovebox({ egress, limits: { timeoutMs: 120_000 }, ...options });
  let added: Promise<unknown> | undefined;
  return {
    glovebox,
    origin,
    port,
    requests,
    async inTool(program, input = {}) {
      added ??= glovebox.addTool({ name: "program", source: ANY_PROGRAM }, { grant: ["fetch"] });
      await added;
      const given = { program: program.toString(), origin, port, ...input };
      return outputOf(await glovebox.execute({ id: "c1", toolName: "program", arguments: given }));
    },
    async inNode(program) {
      const result = await program({ http, https, stream, origin, port });
      return JSON.parse(JSON.stringify(result ?? null)) as unknown;
    },
    async [Symbol.asyncDispose]() {
      await glovebox.close();
      server.closeAllConnections();
      server.close();
    },
  };
}
