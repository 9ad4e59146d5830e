// A hostile upstream MCP server in its own process, so that its work does not count as the host's: over stdin and stdout, or over
// HTTP with JSON bodies or event streams. Arguments: the transport, and the name of an attack on the list of tools where there is one.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import type { Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { ATTACKS, HTTP_ATTACKS, LIST_ATTACKS } from "./mcp-attacks.ts";

interface Rpc {
  readonly id?: number;
  readonly method?: string;
  readonly params?: {
    readonly name?: string;
    readonly cursor?: string;
    readonly arguments?: { readonly attack?: string };
    readonly _meta?: { readonly progressToken?: unknown };
  };
}

const [transport = "stdio", listAttack = ""] = process.argv.slice(2);
const CAPABILITIES = { tools: { listChanged: true }, logging: {} };

/** Returns the result text that every server answers with, or undefined for a call. */
function answerOf({ method, params }: Rpc): string | undefined {
  switch (method) {
    case "initialize":
      return JSON.stringify({
        protocolVersion: "2025-11-25",
        capabilities: CAPABILITIES,
        serverInfo: { name: "attacker", version: "1" },
      });
    case "tools/list":
      return LIST_ATTACKS[listAttack]?.page(Number(params?.cursor ?? 0)) ?? TOOLS;
    case "tools/call":
      return params?.name === "good" ? '{"content":[{"type":"text","text":"good"}]}' : undefined;
    default:
      return "{}";
  }
}
const TOOLS = JSON.stringify({ tools: ["good", "attack"].map((name) => ({ name, inputSchema: { type: "object" } })) });

const isClosed = (stream: Writable): boolean => stream.destroyed || stream.writableEnded;

/** As fast as it is read, and no faster: the attack is the host's to bear, not this process's. */
async function writeAll(stream: Writable, chunks: Iterable<string | Buffer>): Promise<void> {
  for (const chunk of chunks) {
    if (isClosed(stream)) return;
    if (stream.write(chunk)) continue;
    const { promise, resolve } = Promise.withResolvers<void>();
    stream.once("drain", resolve).once("close", resolve);
    await promise;
    stream.off("drain", resolve).off("close", resolve);
  }
}

function* framed(messages: Iterable<string | Buffer>, before: string, after: string): Generator<string | Buffer> {
  // Small ones together: the flood is to be as fast as it can.
  let open = "";
  for (const message of messages) {
    if (typeof message === "string" && message.length < 65_536) {
      open += before + message + after;
      if (open.length < 65_536) continue;
    } else {
      if (open !== "") yield open;
      yield before;
      yield message;
      open = after;
    }
    yield open;
    open = "";
  }
  if (open !== "") yield open;
}

const requestOf = ({ id = 0, params }: Rpc): { readonly id: number; readonly progressToken: unknown } => ({
  id,
  progressToken: params?._meta?.progressToken,
});
const attackOf = ({ params }: Rpc): string => params?.arguments?.attack ?? "";

/** Messages may be processed during a write. An attack is written completely, or until the host stops reading. */
async function serveLine(rpc: Rpc): Promise<void> {
  if (rpc.id === undefined || rpc.method === undefined) return;
  const answer = answerOf(rpc);
  const messages =
    answer === undefined
      ? (ATTACKS[attackOf(rpc)]?.messages(requestOf(rpc)) ?? [])
      : [`{"jsonrpc":"2.0","id":${rpc.id},"result":${answer}}`];
  await writeAll(process.stdout, framed(messages, "", "\n"));
}

async function serveHttp(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method !== "POST") return void response.writeHead(405).end();
  const rpc = JSON.parse(await text(request)) as Rpc;
  if (rpc.id === undefined || rpc.method === undefined) return void response.writeHead(202).end();
  const answer = answerOf(rpc);
  const isEvents = transport === "events";
  const name = attackOf(rpc);
  const {
    status = 200,
    headers,
    chunks,
    staysOpen,
  } = HTTP_ATTACKS[name] ?? {
    headers: { "content-type": isEvents ? "text/event-stream" : "application/json" },
    chunks: () => {
      const messages = answer === undefined ? ATTACKS[name]?.messages(requestOf(rpc)) : undefined;
      const sent = messages ?? [`{"jsonrpc":"2.0","id":${rpc.id},"result":${answer}}`];
      return isEvents ? framed(sent, "data: ", "\n\n") : sent;
    },
  };
  if (answer !== undefined || HTTP_ATTACKS[name] === undefined) response.writeHead(200, headers);
  else response.writeHead(status, headers as Record<string, string>);
  await writeAll(response, chunks(requestOf(rpc)));
  if (staysOpen !== true) response.end();
}

if (transport === "stdio") {
  createInterface({ input: process.stdin }).on("line", (line) => void serveLine(JSON.parse(line) as Rpc));
} else {
  const server = createServer({ maxHeaderSize: 1024 * 1024 }, (request, response) => {
    serveHttp(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1", () => {
    process.send?.((server.address() as AddressInfo).port);
  });
  process.on("disconnect", () => process.exit());
}
