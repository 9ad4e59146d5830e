// Runs test files as calls of a tool with the capability `fetch`, against the server of server.ts: the whole way from the guest's
// WebSocket or EventSource to a socket of the host.
import { createGlovebox } from "../../src/host/index.ts";
import { type FileResult, type ServerAddress, toScript } from "./script.ts";
import type { TestFile } from "./tests.ts";

export interface ToolRunner extends AsyncDisposable {
  run(test: TestFile): Promise<FileResult>;
}

const TOOL = {
  name: "wpt",
  source: `export default async ({ script }) => {
    globalThis.self = globalThis;
    return await (0, eval)(script)((path) => fetchResource(path));
  };`,
};
const GRACE_MS = 10_000;
/** More than the longest test of the suite may take. */
const CALL_MS = 75_000;
const MEMORY_MIB = 256;
const EVERY_PORT = Array.from({ length: 0xffff }, (_, index) => index + 1);

export async function createToolRunner(server: ServerAddress): Promise<ToolRunner> {
  const glovebox = await createGlovebox({
    kv: "memory",
    egress: { allow: [{ to: "127.0.0.1", ports: EVERY_PORT, addresses: ["127.0.0.1"] }] },
    limits: { timeoutMs: CALL_MS, memoryMiB: MEMORY_MIB, outputBytes: 8 * 1024 * 1024 },
  });
  await glovebox.addTool(TOOL, { grant: ["fetch"] });
  let calls = 0;
  return {
    async run(test) {
      calls += 1;
      const result = await glovebox.execute(
        { id: `wpt${calls}`, toolName: TOOL.name, arguments: { script: `(${toScript(test, server)})` } },
        { timeoutMs: test.timeoutMs + GRACE_MS },
      );
      if (result.success) return result.output as unknown as FileResult;
      return { subtests: [], error: `${result.error.code}: ${result.error.message}` };
    },
    [Symbol.asyncDispose]: () => glovebox.close(),
  };
}
