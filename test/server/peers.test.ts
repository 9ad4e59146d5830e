// The exchange between two replicas: what is not from a replica with the same master key, or not meant for this exchange, is rejected before
// anything runs, and what a replica that is gone has not said is never taken for an end.
import { createServer, request as httpRequest, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer, connect as netConnect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { afterEach, describe, expect, test } from "vitest";
import { ExchangeKeys } from "../../src/server/replicas/peers/exchange-keys.ts";
import { FrameOpener, FrameSealer, PeerFrameReader } from "../../src/server/replicas/peers/frames.ts";
import type { AnswerMessage, PeerCallMessage, PeerRequestMessage } from "../../src/server/replicas/peers/messages.ts";
import { PeerClient, PeerExchange, PeerUnreachable } from "../../src/server/replicas/peers/peer-client.ts";
import {
  PEER_PATH,
  PeerServer,
  type ReceivedCall,
  type ReceivedRequest,
  VALID_MS,
} from "../../src/server/replicas/peers/peer-server.ts";
import { MasterKey } from "../../src/server/secrets/master-key.ts";

const KEY = new MasterKey(Buffer.alloc(32, 1));
const OTHER_KEY = new MasterKey(Buffer.alloc(32, 2));
const NEVER = new AbortController().signal;
const CALL: PeerCallMessage = {
  type: "call",
  at: 0,
  mode: "sync",
  callId: `call_${"0".repeat(26)}`,
  tenantId: "acme",
  keyId: "key_1",
  toolName: "t",
  sessionId: "s",
};
const REQUEST: PeerRequestMessage = {
  type: "request",
  at: 0,
  tenantId: "acme",
  keyId: "key_1",
  endpoint: "mcp",
  method: "POST",
  headers: {},
};
const DECLINED: AnswerMessage = { type: "declined", reason: "not_home" };

let opened = new AsyncDisposableStack();
afterEach(async () => {
  await opened.disposeAsync();
  opened = new AsyncDisposableStack();
});

interface Replica {
  readonly url: string;
  readonly received: ReceivedCall[];
  readonly server: Server;
  readonly peers: PeerServer;
}

/** Listens as a replica. @param run answers a call. Default: it declines it */
async function openReplica({
  id = "replica-home",
  masterKey = KEY,
  now = (): number => 0,
  acceptsCalls = (): boolean => true,
  run = async ({ answer }: ReceivedCall): Promise<void> => answer(DECLINED),
  serve = async ({ answer }: ReceivedRequest): Promise<void> => await answer({ type: "end" }),
} = {}): Promise<Replica> {
  const received: ReceivedCall[] = [];
  const peers = new PeerServer({
    masterKey,
    clock: { now },
    replicaId: id,
    acceptsCalls,
    run: async (call) => {
      received.push(call);
      await run(call);
    },
    serve,
  });
  const server = createServer((request, response) => peers.receive(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  opened.defer(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received, server, peers };
}

function openClient({ id = "replica-caller", masterKey = KEY, now = (): number => 0 } = {}): PeerClient {
  return opened.use(new PeerClient({ masterKey, clock: { now }, replicaId: id }));
}

/** Sends a call, and returns all messages about it. */
async function callVia(client: PeerClient, url: string, texts: readonly string[] = [], to = "replica-home") {
  const exchange = await client.open({ replicaId: to, url }, NEVER);
  if (!(exchange instanceof PeerExchange)) return exchange;
  using _ = exchange;
  const messages: unknown[] = [];
  try {
    for await (const { message, texts: more } of exchange.call(CALL, texts)) {
      messages.push(more.length === 0 ? message : { ...message, texts: more });
      if (message.type === "declined") {
        exchange.finish();
        break;
      }
    }
  } catch (thrown) {
    return { messages, error: String(thrown) };
  }
  return { messages };
}

type Chunk = { readonly from: "caller" | "home"; readonly data: Buffer };

/** Forwards connections, and lets a test see and change what is sent. */
async function openTap(
  target: string,
  change: (chunk: Chunk, connection: number) => Buffer | undefined | "end" = ({ data }) => data,
): Promise<{ readonly url: string; readonly chunks: Chunk[] }> {
  const chunks: Chunk[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createTcpServer((client) => {
    const upstream = netConnect(Number(new URL(target).port), "127.0.0.1");
    connections += 1;
    const connection = connections;
    for (const [from, to, name] of [
      [client, upstream, "caller"],
      [upstream, client, "home"],
    ] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => to.destroy());
      from.on("data", (data: Buffer) => {
        chunks.push({ from: name, data });
        const changed = change({ from: name, data }, connection);
        if (changed === "end") {
          client.destroy();
          upstream.destroy();
        } else if (changed !== undefined) to.write(changed);
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  opened.defer(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, chunks };
}

/** Sends a request to the path of replicas. */
async function post(url: string, headers: { readonly [name: string]: string }, body: Buffer) {
  return await new Promise<{ readonly status: number; readonly body: string }>((resolve, reject) => {
    const request = httpRequest(new URL(PEER_PATH, url), { method: "POST", headers, agent: false });
    request.on("error", reject);
    request.on("response", (response) => {
      text(response).then((read) => resolve({ status: response.statusCode ?? 0, body: read }), reject);
    });
    request.end(body);
  });
}

const RANDOM = Buffer.alloc(32, 9);
const HEADERS = { "glovebox-replica": "replica-caller", "glovebox-exchange": RANDOM.toString("base64url") };
const parties = { from: "replica-caller", to: "replica-home", random: RANDOM };
const helloOf = (masterKey: MasterKey, at = 0, more: object = {}): Buffer =>
  Buffer.concat(
    new FrameSealer(new ExchangeKeys(masterKey, parties).keyOf("hello")).seal([
      Buffer.from(JSON.stringify({ type: "hello", at, ...more })),
    ]),
  );

describe("two replicas with the same master key", () => {
  test("exchange a call and what is said about it, also on a connection that was used before", async () => {
    const home = await openReplica({
      run: async ({ message, input, answer }) => {
        answer({ type: "log", entry: { level: "info", time: 1, message: message.toolName } });
        answer({ type: "chunk" }, [JSON.stringify({ got: input?.length })]);
        answer(DECLINED);
      },
    });
    const client = openClient();
    const connections: Socket[] = [];
    home.server.on("connection", (socket) => connections.push(socket));
    for (const length of [0, 1, 300_000, 3_000_000]) {
      const answer = await callVia(client, home.url, length === 0 ? [] : ["ü".repeat(length)]);
      expect(answer).toEqual({
        messages: [
          { type: "log", entry: { level: "info", time: 1, message: "t" } },
          { type: "chunk", texts: [JSON.stringify(length === 0 ? {} : { got: length })] },
          DECLINED,
        ],
      });
    }
    // One is free again a moment after its call has ended.
    expect(connections.length).toBeLessThanOrEqual(2);
  });

  test("nothing of a call can be read on the way", async () => {
    const home = await openReplica({
      run: async ({ answer }) => {
        answer({ type: "chunk" }, ['"secret-answer"']);
        answer(DECLINED);
      },
    });
    const tap = await openTap(home.url);
    expect(await callVia(openClient(), tap.url, ['"secret-input"'])).toMatchObject({ messages: [{}, DECLINED] });
    const seen = Buffer.concat(tap.chunks.map(({ data }) => data)).toString("latin1");
    for (const part of ["secret", "acme", "key_1", "declined", "hello"]) expect(seen).not.toContain(part);
  });

  test("a replica says why it runs no call", async () => {
    let now = 0;
    const home = await openReplica({ now: () => now, acceptsCalls: () => now !== 1 });
    const client = openClient();
    now = 1;
    expect(await callVia(client, home.url)).toBe("stopping");
    for (now of [VALID_MS + 1, -VALID_MS - 1]) expect(await callVia(client, home.url)).toBe("expired");
    now = VALID_MS;
    expect(await callVia(client, home.url)).toEqual({ messages: [DECLINED] });
    expect(home.received).toHaveLength(1);
  });

  test("a call that is too old when it arrives is not run", async () => {
    let now = 0;
    const home = await openReplica({ now: () => now });
    const exchange = await openClient().open({ replicaId: "replica-home", url: home.url }, NEVER);
    now = VALID_MS + 1;
    for await (const { message } of (exchange as PeerExchange).call(CALL, [])) {
      expect(message).toEqual({ type: "declined", reason: "expired" });
      break;
    }
    expect(home.received).toEqual([]);
  });

  test("the replica that runs a call sees that the other one is gone", async () => {
    const left = Promise.withResolvers<void>();
    const home = await openReplica({
      run: async ({ signal }) => {
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        left.resolve();
      },
    });
    const exchange = (await openClient().open({ replicaId: "replica-home", url: home.url }, NEVER)) as PeerExchange;
    const next = exchange.call(CALL, []).next();
    await expect.poll(() => home.received.length).toBe(1);
    exchange[Symbol.dispose]();
    await left.promise;
    await expect(next).rejects.toThrow();
    await home.peers.settled();
  });
});

describe("a request of an MCP session", () => {
  async function requestVia(url: string, texts: readonly string[] = []) {
    const exchange = await openClient().open({ replicaId: "replica-home", url }, NEVER, "request");
    if (!(exchange instanceof PeerExchange)) return exchange;
    using _ = exchange;
    const messages: unknown[] = [];
    for await (const { message, texts: more } of exchange.request(REQUEST, texts)) {
      messages.push(more.length === 0 ? message : { ...message, texts: more });
      if (message.type === "end" || message.type === "declined") break;
    }
    return messages;
  }

  test("is answered with a status and the parts of a body", async () => {
    const home = await openReplica({
      serve: async ({ message, body, answer }) => {
        await answer({ type: "head", status: 200, headers: { "content-type": "text/plain" } });
        await answer({ type: "body" }, [`${message.tenantId} ${body}`]);
        await answer({ type: "end" });
      },
    });
    expect(await requestVia(home.url, ["ü"])).toEqual([
      { type: "head", status: 200, headers: { "content-type": "text/plain" } },
      { type: "body", texts: ["acme ü"] },
      { type: "end" },
    ]);
    expect(home.received).toEqual([]);
  });

  test("is written only as fast as it is read, and ends for its home when nothing reads it", async () => {
    let written = 0;
    const home = await openReplica({
      serve: async ({ signal, answer }) => {
        while (!signal.aborted) {
          await answer({ type: "body" }, ["x".repeat(1_000_000)]);
          written += 1;
        }
      },
    });
    const exchange = await openClient().open({ replicaId: "replica-home", url: home.url }, NEVER, "request");
    const parts = (exchange as PeerExchange).request(REQUEST, []);
    await parts.next();
    const counts = [-1];
    const isStill = (): boolean => counts.push(written) > 0 && counts.at(-1) === counts.at(-2);
    await expect.poll(isStill, { interval: 500 }).toBe(true);
    // The buffers of the two sockets and of the response have a few MB.
    expect(written).toBeLessThan(100);
    (exchange as PeerExchange)[Symbol.dispose]();
    await parts.return();
    await home.peers.settled();
  });

  test("is not taken for a call, nor a call for a request", async () => {
    const home = await openReplica();
    const client = openClient();
    const peer = { replicaId: "replica-home", url: home.url };
    const asCall = (await client.open(peer, NEVER)) as PeerExchange;
    await expect(asCall.request(REQUEST, []).next()).rejects.toThrow();
    const asRequest = (await client.open(peer, NEVER, "request")) as PeerExchange;
    await expect(asRequest.call(CALL, []).next()).rejects.toThrow();
    expect(home.received).toEqual([]);
  });
});

describe("what is not from such a replica", () => {
  test("is answered like a path that does not exist", async () => {
    const home = await openReplica();
    const random = (bytes: number): Buffer =>
      Buffer.from(Array.from({ length: bytes }, (_, index) => (index * 7) % 256));
    const length = (bytes: number): Buffer => Buffer.from([0, 0, bytes >> 8, bytes & 255]);
    for (const [headers, body] of [
      [{}, Buffer.alloc(0)],
      [{}, helloOf(KEY)],
      [{ ...HEADERS, "glovebox-exchange": "short" }, helloOf(KEY)],
      [{ ...HEADERS, "glovebox-replica": "../replica" }, helloOf(KEY)],
      // Of another sender, for another replica, or with another key.
      [{ ...HEADERS, "glovebox-replica": "replica-other" }, helloOf(KEY)],
      [{ ...HEADERS, "glovebox-exchange": Buffer.alloc(32, 8).toString("base64url") }, helloOf(KEY)],
      [HEADERS, helloOf(OTHER_KEY)],
      // Not frames, or frames of other sizes.
      [HEADERS, Buffer.from("{}")],
      [HEADERS, Buffer.concat([length(40), random(40)])],
      [HEADERS, Buffer.concat([length(3), random(3)])],
      [HEADERS, Buffer.from([255, 255, 255, 255, 0])],
      [HEADERS, helloOf(KEY).subarray(0, -1)],
      [HEADERS, helloOf(KEY, 0, { more: true })],
      [HEADERS, helloOf(KEY, 0, { kind: "other" })],
      [HEADERS, helloOf(KEY, 0, { padding: "x".repeat(2_000) })],
    ] as const) {
      const reply = await post(home.url, headers as never, body);
      expect(reply).toEqual({ status: 404, body: "" });
    }
    expect(home.received).toEqual([]);
    // The same, changed in nothing, is accepted, once: also under another text of the same bytes.
    expect((await post(home.url, HEADERS, helloOf(KEY))).status).toBe(200);
    expect((await post(home.url, HEADERS, helloOf(KEY))).status).toBe(404);
    const same = `${HEADERS["glovebox-exchange"].slice(0, -1)}l`;
    expect(Buffer.from(same, "base64url")).toEqual(RANDOM);
    expect((await post(home.url, { ...HEADERS, "glovebox-exchange": same }, helloOf(KEY))).status).toBe(404);
    expect(home.received).toEqual([]);
  });

  test("a replica with another master key, or another one than is meant, is not reached", async () => {
    const home = await openReplica();
    const other = await openReplica({ id: "replica-other" });
    const client = openClient();
    await expect(
      openClient({ masterKey: OTHER_KEY }).open({ replicaId: "replica-home", url: home.url }, NEVER),
    ).rejects.toThrow(PeerUnreachable);
    await expect(callVia(client, other.url)).rejects.toThrow(PeerUnreachable);
    expect(await callVia(client, other.url, [], "replica-other")).toEqual({ messages: [DECLINED] });
    expect(home.received).toEqual([]);
    expect(other.received).toHaveLength(1);
  });

  test("an exchange that was recorded is of no use in another one", async () => {
    const home = await openReplica();
    const tap = await openTap(home.url);
    expect(await callVia(openClient(), tap.url, ["1"])).toEqual({ messages: [DECLINED] });
    const sent = Buffer.concat(tap.chunks.filter(({ from }) => from === "caller").map(({ data }) => data));
    const again = netConnect(Number(new URL(home.url).port), "127.0.0.1");
    const received: Buffer[] = [];
    again.on("data", (data: Buffer) => received.push(data)).end(sent);
    await new Promise((resolve) => again.once("close", resolve));
    expect(Buffer.concat(received).toString()).toMatch(/^HTTP\/1\.1 404 /);
    // A replica that has started anew has another id; one that has forgotten the exchange asks with other random bytes.
    const fresh = await openReplica();
    const socket = netConnect(Number(new URL(fresh.url).port), "127.0.0.1");
    socket.on("data", () => {}).on("error", () => {});
    socket.end(sent);
    await new Promise((resolve) => socket.once("close", resolve));
    expect([home.received.length, fresh.received.length]).toEqual([1, 0]);
  });

  test("a replica that accepts connections and says nothing, or something else, is not reached", async () => {
    const silent = createTcpServer(() => {});
    const liar = createServer((_request, response) => {
      response.writeHead(200);
      response.write(Buffer.alloc(64, 1));
    });
    for (const server of [silent, liar]) {
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      opened.defer(() => void server.close());
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
      await expect(callVia(openClient(), url)).rejects.toThrow(PeerUnreachable);
    }
    liar.closeAllConnections();
    const gone = await openReplica();
    gone.server.closeAllConnections();
    await new Promise((resolve) => gone.server.close(resolve));
    await expect(callVia(openClient(), gone.url)).rejects.toThrow(PeerUnreachable);
    const leaves = AbortSignal.abort();
    const home = await openReplica();
    await expect(openClient().open({ replicaId: "replica-home", url: home.url }, leaves)).rejects.toThrow(
      PeerUnreachable,
    );
  });
});

describe("an answer that is changed on the way", () => {
  /** Answers with several chunks, each of which is written by itself, and then with the end. */
  const run = async ({ answer }: ReceivedCall): Promise<void> => {
    for (let n = 0; n < 4; n += 1) {
      answer({ type: "chunk" }, [String(n)]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    answer(DECLINED);
  };
  /** Applies a change to the pieces of the answer that follow the `ready` message. */
  const afterReady = (change: (data: Buffer, piece: number) => Buffer | undefined | "end") => {
    let pieces = 0;
    return ({ from, data }: Chunk): Buffer | undefined | "end" => {
      if (from === "caller") return data;
      pieces += 1;
      return pieces === 1 ? data : change(data, pieces - 1);
    };
  };

  test.for([
    [
      "a bit of it",
      (data: Buffer) => Buffer.from(data.map((byte, index) => (index === data.length - 5 ? byte ^ 1 : byte))),
    ],
    ["a piece that is left out", (data: Buffer, piece: number) => (piece === 2 ? undefined : data)],
    ["a piece that is repeated", (data: Buffer, piece: number) => (piece === 2 ? Buffer.concat([data, data]) : data)],
    ["its end, which is cut off", (data: Buffer, piece: number) => (piece === 3 ? ("end" as const) : data)],
  ] as const)("%s: the rest does not count", async ([, change]) => {
    const home = await openReplica({ run });
    const tap = await openTap(home.url, afterReady(change));
    const { messages, error } = (await callVia(openClient(), tap.url)) as { messages: unknown[]; error?: string };
    expect(error).toBeDefined();
    expect(messages).not.toContainEqual(DECLINED);
    // What came before it, in order.
    expect(messages).toEqual([0, 1, 2].slice(0, messages.length).map((n) => ({ type: "chunk", texts: [String(n)] })));
  });

  test("an exchange that ends without an end of the call is an error", async () => {
    const home = await openReplica({ run: async ({ answer }) => answer({ type: "chunk" }, ["1"]) });
    expect(await callVia(openClient(), home.url)).toMatchObject({
      error: expect.stringContaining("ended the exchange"),
    });
    const invalid = await openReplica({ run: async ({ answer }) => answer({ type: "waiting", callId: "x" } as never) });
    expect(await callVia(openClient(), invalid.url)).toMatchObject({
      messages: [],
      error: expect.stringContaining("Invalid"),
    });
  });
});

describe("frames", () => {
  const keyOf = (direction: "hello" | "call" | "answer", answered = new Uint8Array()) =>
    new ExchangeKeys(KEY, parties).keyOf(direction, answered);
  async function* streamOf(...buffers: readonly Buffer[]): AsyncGenerator<Buffer> {
    yield* buffers;
  }
  const readAll = async (bytes: readonly Buffer[], key = keyOf("call")): Promise<string[]> => {
    const reader = new PeerFrameReader(streamOf(...bytes));
    const opener = new FrameOpener(key);
    const read: string[] = [];
    for (;;) {
      const parts = await reader.next(opener);
      if (parts === undefined) return read;
      read.push(parts.join("|"));
    }
  };
  const seal = (messages: readonly string[], key = keyOf("call")): readonly Buffer[] => {
    const sealer = new FrameSealer(key);
    return messages.flatMap((message) => sealer.seal(message.split("|").map((part) => Buffer.from(part))));
  };

  test("messages of any size come back whole, however their bytes arrive", async () => {
    const messages = ["a", "b|c|", "|", "x".repeat(700_000), `${"y".repeat(262_144)}|z`, ""];
    const bytes = Buffer.concat(seal(messages));
    expect(await readAll([bytes])).toEqual(messages);
    const pieces: Buffer[] = [];
    for (let from = 0; from < bytes.length; from += 4_097) pieces.push(bytes.subarray(from, from + 4_097));
    expect(await readAll(pieces)).toEqual(messages);
  });

  test("no frame is valid in another place, direction or exchange, or without what follows it", async () => {
    const frames = seal(["a", "b", "x".repeat(300_000)]);
    expect(frames).toHaveLength(4);
    const [a, b, first, second] = frames as [Buffer, Buffer, Buffer, Buffer];
    for (const bytes of [
      [b],
      [a, a],
      [a, first],
      [b, a],
      [a, b, second],
      [a, b, first],
      [a, b, first, a],
      [a, b.subarray(0, -1)],
    ])
      await expect(readAll(bytes)).rejects.toThrow();
    for (const key of [keyOf("answer"), keyOf("hello"), keyOf("call", Buffer.alloc(32, 1))])
      await expect(readAll([a], key)).rejects.toThrow("cannot be decrypted");
    expect(await readAll([a, b])).toEqual(["a", "b"]);
  });

  test("a frame or message that is too long is rejected before it is read", async () => {
    const huge = Buffer.alloc(8);
    huge.writeUInt32BE(256 * 1024 + 18);
    await expect(readAll([huge])).rejects.toThrow("at most");
    const reader = new PeerFrameReader(streamOf(...seal(["x".repeat(2_000)])));
    await expect(reader.next(new FrameOpener(keyOf("call")), 1_000)).rejects.toThrow("at most");
  });
});
