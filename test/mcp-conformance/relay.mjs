// Runs once for each client scenario: passes the scenario to the process with the client, and exits with its status. Loading a Glovebox fifty
// times would take a minute of CPU time, and removing types from this file each time two seconds.
import { request } from "node:http";

const {
  MCP_CONFORMANCE_SCENARIO: name = "",
  MCP_CONFORMANCE_PROTOCOL_VERSION: revision,
  MCP_CONFORMANCE_CONTEXT,
} = process.env;
const scenario = { url: process.argv.at(-1), name, revision, context: JSON.parse(MCP_CONFORMANCE_CONTEXT ?? "{}") };
const outgoing = request({ port: Number(process.argv[2]), host: "127.0.0.1", method: "POST" }, (response) => {
  process.exitCode = response.statusCode === 200 ? 0 : 1;
  response.pipe(process.stdout);
});
outgoing.end(JSON.stringify(scenario));
