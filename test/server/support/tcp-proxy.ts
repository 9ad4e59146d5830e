// A connection to a database or to NATS that a test can cut or freeze.
import { createConnection, createServer, type Socket } from "node:net";

export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** Connections that were refused since the cut. */
  readonly refused: number;
  /** Ends all connections, and refuses new ones. */
  cut(): void;
  restore(): void;
  /** Ends all connections once, when the clients have sent this many more pieces of data. */
  cutAfter(pieces: number): void;
  /** How many of these pieces have not arrived yet. */
  readonly left: number;
  /** Passes nothing on in either direction, as a network that loses every packet: no connection ends, new ones wait. */
  freeze(): void;
  /** Passes on what has arrived meanwhile. */
  thaw(): void;
}

/** Listens, and forwards each connection to a port of this machine. @param host address to listen on. Default: loopback */
export async function openTcpProxy(target: number, host = "127.0.0.1"): Promise<TcpProxy> {
  const sockets = new Set<Socket>();
  let isCut = false;
  let isFrozen = false;
  let refused = 0;
  let left = 0;
  const server = createServer((client) => {
    client.on("error", () => {});
    if (isCut) {
      refused += 1;
      client.destroy();
      return;
    }
    const upstream = createConnection(target, "127.0.0.1");
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
      from.on("data", (data) => {
        if (from === client && left > 0) {
          left -= 1;
          if (left === 0) {
            destroyAll();
            return;
          }
        }
        if (!to.write(data)) from.pause();
      });
      from.on("end", () => to.end());
      to.on("drain", () => {
        if (!isFrozen) from.resume();
      });
      if (isFrozen) from.pause();
    }
  });
  const destroyAll = (): void => {
    for (const socket of sockets) socket.destroy();
  };
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  return {
    port: (server.address() as { readonly port: number }).port,
    get refused() {
      return refused;
    },
    cut: () => {
      isCut = true;
      refused = 0;
      destroyAll();
    },
    restore: () => {
      isCut = false;
    },
    cutAfter: (pieces) => {
      left = pieces;
    },
    get left() {
      return left;
    },
    freeze: () => {
      isFrozen = true;
      for (const socket of sockets) socket.pause();
    },
    thaw: () => {
      isFrozen = false;
      for (const socket of sockets) socket.resume();
    },
    [Symbol.asyncDispose]: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      destroyAll();
      await closed;
    },
  };
}
