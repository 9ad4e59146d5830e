// A process that serves MCP handlers whose host callbacks fail or give wrong answers. Run by a test. It prints its port.
// A path names a callback and the number of its failure: /onError/0. The paths
// /ran, /answered and /memory answer how many calls have run, how many requests were answered, and how many bytes are in use.
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { createMcpHandler, createResourceServer, type McpHandler } from "../../src/host/mcp/server/index.ts";
import { FAILING_CALLBACKS } from "./failing-callbacks.ts";
import { makeGlovebox } from "./host-zone.ts";
import { AUTH_ANSWERS, METADATA_ANSWERS, validCaller } from "./mcp-auth-answers.ts";

const RESOURCE = "https://tools.example.com/mcp";
const MiB = 1_024 * 1_024;
const glovebox = await makeGlovebox();
/** Callers are assigned to tenants only where there are several. */
const multi = await makeGlovebox({ tenancy: "multi" });
let ran = 0;
glovebox.router.register("count", {}, () => {
  ran += 1;
  return ran;
});
glovebox.router.register("big", {}, () => "x".repeat(7 * MiB));
/** Requests to /bounded that were answered. */
let answered = 0;

/** Resident bytes of this process, after garbage was collected: what a socket has to send is outside of the heap. */
function memoryInUse(): number {
  globalThis.gc?.();
  const { rss } = process.memoryUsage();
  return rss;
}

type Callback = () => never;
const urlOf = (status: number): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}/status/${status}`;
const open = { serveMetadata: () => undefined, authenticate: async () => validCaller() };
const fail = (): never => {
  throw new Error("for onError");
};
const resourceServer = (options: object) =>
  createResourceServer({ resource: RESOURCE, authorizationServers: ["http://127.0.0.1:1"], ...options });

const MAKERS: Readonly<Record<string, (callback: Callback, index: number) => McpHandler>> = {
  ok: () => createMcpHandler(glovebox),
  bounded: () => createMcpHandler(glovebox, { limits: { responseBytes: { perCaller: 16 * MiB, total: 16 * MiB } } }),
  answers: (_, index) =>
    createMcpHandler(glovebox, { auth: { ...open, authenticate: () => AUTH_ANSWERS[index]?.[1](urlOf) as never } }),
  metadata: (_, index) =>
    createMcpHandler(glovebox, {
      auth: { ...open, serveMetadata: () => METADATA_ANSWERS[index]?.[1](urlOf) as never },
    }),
  onError: (onError) => createMcpHandler(multi, { onError, tenantOf: fail }),
  // One forged token, whose key cannot be found: both listeners receive an error.
  forged: (onError) => createMcpHandler(glovebox, { auth: resourceServer({ onError }), onError }),
  verify: (verify) =>
    createMcpHandler(glovebox, { auth: resourceServer({ verify, onError: verify }), onError: verify }),
  tenantOf: (tenantOf) => createMcpHandler(multi, { tenantOf, onError: tenantOf }),
  authenticate: (authenticate) =>
    createMcpHandler(glovebox, { auth: { ...open, authenticate }, onError: authenticate }),
  serveMetadata: (serveMetadata) =>
    createMcpHandler(glovebox, { auth: { ...open, serveMetadata }, onError: serveMetadata }),
  register: (register) => createMcpHandler(glovebox, { register, onError: register }),
  listeners: (listener) =>
    createMcpHandler(glovebox, {
      onError: listener,
      register: ({ server }) =>
        void Object.assign(server, { onerror: listener, onclose: listener, oninitialized: listener }),
    }),
};

const handlers = new Map<string, McpHandler>();
function handlerAt(name: string, index: number): McpHandler {
  const key = `${name}/${index}`;
  const made = handlers.get(key) ?? MAKERS[name]?.((FAILING_CALLBACKS[index]?.[1] ?? fail) as Callback, index);
  if (made === undefined) throw new Error(`No handler at ${key}`);
  handlers.set(key, made);
  return made;
}

const server = serve(
  {
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) => {
      const [, name = "", index = "0"] = new URL(request.url).pathname.split("/");
      if (name === "ran") return Response.json(ran);
      if (name === "memory") return Response.json(memoryInUse());
      if (name === "answered") return Response.json(answered);
      if (name === "status") return Response.json({ status: index }, { status: Number(index) });
      const handler = handlerAt(name, Number(index));
      // A server without prompts, whose sessions end.
      if (request.method === "PATCH") {
        handler.promptsChanged();
        handler.toolsChanged({ scope: "all" });
        await handler.close();
        return new Response(null, { status: 204 });
      }
      const response = await handler.fetch(request);
      if (name === "bounded") answered += 1;
      return response;
    },
  },
  ({ port }) => process.stdout.write(`${port}\n`),
);
