// A host that starts an upstream server and runs until it is killed. Run by a test.
import { ServerProcess } from "../../src/host/mcp/client/server-process.ts";

const without = JSON.parse(process.argv[2] ?? "[]") as never[];
const server = new ServerProcess({
  command: "sh",
  // The server ends neither when its stdin ends nor on a signal that it may ignore.
  args: ["-c", "trap '' TERM HUP INT; sleep 1000 & echo ready >&2; wait; sleep 1000"],
  environment: process.env,
  sandbox: { without },
});
await server.start();
setInterval(() => {
  if (server.diagnostics.stderr.includes("ready")) process.send?.(server.pid);
}, 20);
