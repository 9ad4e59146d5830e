// A process with a server, which a test kills. Prints where it listens.
import { createServer } from "../../../src/server/index.ts";

const options = JSON.parse(process.argv[2] ?? "{}") as Parameters<typeof createServer>[0];
const server = await createServer({ ...options, port: 0, logLevel: "silent" });
process.once("SIGTERM", () => void server.close());
console.log(JSON.stringify({ url: server.url, adminKey: server.adminKey }));
