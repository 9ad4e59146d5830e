// What the suite starts for each client scenario: it hands the scenario to the process that has the client, and ends as that one says. To
// load a Glovebox fifty times would take a minute of CPU time.
import { request } from "node:http";

const {
  MCP_CONFORMANCE_SCENARIO: name = "",
  MCP_CONFORMANCE_PROTOCOL_VERSION: revision,
  MCP_CONFORMANCE_CONTEXT,
} = process.env;
const scenario = { url: process.argv.at(-1), name, revision, context: JSON.parse(MCP_CONFORMANCE_CONTEXT ?? "{}") };
const asked = request({ port: Number(process.argv[2]), host: "127.0.0.1", method: "POST" }, (response) => {
  process.exitCode = response.statusCode === 200 ? 0 : 1;
  response.pipe(process.stdout);
});
asked.end(JSON.stringify(scenario));
