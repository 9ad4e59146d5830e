// A host that starts an upstream server and lives until it is killed: the script of a test.
import { ServerProcess } from "../../src/host/mcp/client/server-process.ts";

const without = JSON.parse(process.argv[2] ?? "[]") as never[];
const server = new ServerProcess({
  command: "sh",
  // Ended by neither of its stdin's end and a signal that it may refuse.
  args: ["-c", "trap '' TERM HUP INT; sleep 1000 & echo ready >&2; wait; sleep 1000"],
  environment: process.env,
  sandbox: { without },
});
await server.start();
setInterval(() => {
  if (server.diagnostics.stderr.includes("ready")) process.send?.(server.pid);
}, 20);
