// A connection to NATS that loses the messages which a test chooses. TCP loses none, but a connection that breaks loses those that were on their
// way, and only those.
import { type AddressInfo, createConnection, createServer, type Socket } from "node:net";
import { decodeFrame } from "../../src/host/fleet/protocol/wire.ts";

export interface NatsProxy extends AsyncDisposable {
  readonly url: string;
}

/** A message between control plane and executor, as far as its receiver has not validated it. */
export interface PassingMessage {
  readonly type?: unknown;
  /** Of an `event`: the message of the worker. */
  readonly message?: { readonly type?: unknown };
}

const LINE_END = "\r\n";
/** Operations of the NATS protocol with a payload, whose length is the last word of the line. */
const WITH_PAYLOAD = /^(?:H?PUB|H?MSG) .* (\d+)$/i;

/** Splits a stream into operations of the NATS protocol, each with its payload. */
class OperationReader {
  #rest = Buffer.alloc(0);

  *read(data: Buffer): Generator<{ readonly bytes: Buffer; readonly payload: Buffer | undefined }> {
    this.#rest = Buffer.concat([this.#rest, data]);
    for (;;) {
      const lineEnd = this.#rest.indexOf(LINE_END);
      if (lineEnd < 0) return;
      const from = lineEnd + LINE_END.length;
      const [, length] = WITH_PAYLOAD.exec(this.#rest.toString("latin1", 0, lineEnd)) ?? [];
      const end = length === undefined ? from : from + Number(length) + LINE_END.length;
      if (this.#rest.length < end) return;
      const payload = length === undefined ? undefined : this.#rest.subarray(from, end - LINE_END.length);
      yield { bytes: this.#rest.subarray(0, end), payload };
      this.#rest = this.#rest.subarray(end);
    }
  }
}

function messageIn(payload: Buffer | undefined): PassingMessage | undefined {
  try {
    return payload && (decodeFrame(payload).message as PassingMessage);
  } catch {
    return undefined;
  }
}

/** Listens, and passes on all messages but those for which `isLost` returns true. */
export async function openNatsProxy(port: number, isLost: (message: PassingMessage) => boolean): Promise<NatsProxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = createConnection(port, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      const reader = new OperationReader();
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
      from.on("data", (data: Buffer) => {
        for (const { bytes, payload } of reader.read(data)) {
          const message = messageIn(payload);
          if (message === undefined || !isLost(message)) to.write(Buffer.from(bytes));
        }
      });
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `nats://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
