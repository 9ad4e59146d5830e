// The test's upstream server as a program: `node mcp-server-script.ts` speaks over stdin and stdout.
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createToolServer } from "./mcp-tools.ts";

serveStdio(createToolServer());
