// A process that serves MCP over stdin and stdout with failing host callbacks. Run by a test. Arguments: the callback
// (`onError` or `register`) and the number of its failure.
import { serveMcpStdio } from "../../src/host/mcp/server/index.ts";
import { FAILING_CALLBACKS } from "./failing-callbacks.ts";
import { makeGlovebox } from "./host-zone.ts";

const [callback = "", index = "0"] = process.argv.slice(2);
const failing = FAILING_CALLBACKS[Number(index)]?.[1] as () => never;
await using glovebox = await makeGlovebox();
await using server = serveMcpStdio(glovebox, {
  onError: failing,
  register: callback === "register" ? failing : ({ server }) => void Object.assign(server, { onerror: failing }),
});
await server.closed;
