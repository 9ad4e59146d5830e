// Ports for programs that are started with one, or started again with the same.
import { createServer } from "node:net";

/** Below the range from which Linux gives ports to sockets that ask for any: none of them takes the port before its program does. */
const LOWEST = 20_000;
const COUNT = 12_000;

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

export async function freePort(): Promise<number> {
  for (;;) {
    const port = LOWEST + Math.floor(Math.random() * COUNT);
    if (await isFree(port)) return port;
  }
}
