// An upstream server that will not end: `node mcp-stubborn-script.ts HOW`. `deaf` ignores that its input ends and every signal that can be
// ignored; `mute` answers nothing; `loop` answers up to a call, which it never leaves; `quit` ends at a question that it does not know,
// and `old` only says that it does not; these two end with their input.
import { createInterface } from "node:readline";

const how = process.argv[2];
if (how !== "quit" && how !== "old") {
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, () => {});
  setInterval(() => {}, 1_000);
}

const say = (message: object): void => {
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
};

createInterface({ input: process.stdin }).on("line", (line) => {
  if (how === "mute") return;
  const { id, method } = JSON.parse(line) as { readonly id?: number; readonly method: string };
  if (id === undefined) return;
  if (method === "initialize") {
    const serverInfo = { name: "stubborn", version: "0" };
    say({ id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo } });
  } else if (method === "tools/list") say({ id, result: { tools: [{ name: "t", inputSchema: { type: "object" } }] } });
  else if (method !== "tools/call") {
    if (how === "quit") process.exit(1);
    say({ id, error: { code: -32_601, message: "Method not found" } });
  } else {
    while (how === "loop");
    say({ id, result: { content: [{ type: "text", text: String(process.pid) }] } });
  }
});
