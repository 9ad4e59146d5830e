// What does a tools/call cost over MCP, sixteen at one time: the SDK's own server with a plain function, and ours with a sandboxed tool?
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { reportLatencies, times } from "./support/measure.ts";
import { benchmarkPath } from "./support/tools.ts";

const CALLS = times(2_000, 40);
const CONCURRENCY = 16;
const ROUNDS = times(4, 1);

const KINDS = {
  sdk: "the SDK's server, a function of its own process",
  host: "glovebox/mcp, a function of its own process",
  tool: 'glovebox/mcp, sandboxed, isolation "tool"',
  call: 'glovebox/mcp, sandboxed, isolation "call"',
} as const;
type Kind = keyof typeof KINDS;

interface Served {
  readonly process: ChildProcess;
  readonly client: Client;
}

async function open(kind: Kind): Promise<Served> {
  const child = spawn(process.execPath, [benchmarkPath("support/mcp-child.ts"), kind], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const [url] = await new Promise<readonly string[]>((resolve) =>
    createInterface(child.stdout).once("line", (line) => resolve([line])),
  );
  const client = new Client({ name: "benchmark", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(new StreamableHTTPClientTransport(new URL(url ?? "")));
  await client.listTools();
  return { process: child, client };
}

/** Makes the given number of calls, sixteen in parallel. Each must be correct. */
async function load({ client }: Served, calls: number): Promise<readonly number[]> {
  const taken: number[] = [];
  let left = calls;
  const caller = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const a = left;
      const began = performance.now();
      const { structuredContent } = await client.callTool({ name: "add", arguments: { a, b: 1 } });
      taken.push(performance.now() - began);
      const { sum } = structuredContent as { readonly sum: number };
      if (sum !== a + 1) throw new Error(`Expected ${a + 1}, got ${sum}`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, caller));
  return taken;
}

const kinds = Object.keys(KINDS) as Kind[];
const served = new Map<Kind, Served>();
const taken = new Map<Kind, number[]>(kinds.map((kind) => [kind, []]));
try {
  for (const kind of kinds) {
    const one = await open(kind);
    served.set(kind, one);
    await load(one, times(400, 20));
  }
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const [kind, one] of served) taken.get(kind)?.push(...(await load(one, CALLS / ROUNDS)));
  }
} finally {
  for (const { client, process: child } of served.values()) {
    await client.close();
    child.stdin?.end();
  }
}

await reportLatencies({
  name: "mcp",
  question: `${CALLS.toLocaleString("en")} tools/call of "add", ${CONCURRENCY} at one time, through the SDK's client over HTTP (2026-07-28)`,
  taken: new Map(kinds.map((kind) => [KINDS[kind], taken.get(kind) ?? []])),
  notes: [
    "Each server is a process of its own, the client another; they take turns. The client and HTTP are part of each figure.",
    "Sixteen callers keep two cores busy: a p50 is what client, HTTP and server take of them together, so a sandbox behind the same HTTP can only add to what a plain function costs.",
  ],
});
