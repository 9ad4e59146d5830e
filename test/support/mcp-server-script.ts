// The upstream test server as a program: `node mcp-server-script.ts` serves MCP over stdin and stdout.
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createToolServer } from "./mcp-tools.ts";

serveStdio(createToolServer());
