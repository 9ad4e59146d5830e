// A process with a server, which a test kills. Prints where it listens.
import { createServer } from "../../../src/server/index.ts";

const options = JSON.parse(process.argv[2] ?? "{}") as Parameters<typeof createServer>[0];
const { url, adminKey } = await createServer({ ...options, port: 0, logLevel: "silent" });
console.log(JSON.stringify({ url, adminKey }));
