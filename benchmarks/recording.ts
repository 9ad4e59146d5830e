// What does recording a call add: over HTTP, as tenants turn it on, and in the library? Blocks of calls with and without it take turns.
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "../src/client/index.ts";
import { createGlovebox } from "../src/host/index.ts";
import { createServer } from "../src/server/index.ts";
import { measure, times } from "./support/measure.ts";

const KV_READS = `export const capabilities = { kv: true };
export default async (_, { kv }) => { for (let i = 0; i < 10; i += 1) await kv.get("key"); return true; };`;
const TOOLS: { readonly [name: string]: string } = { add: "export default ({ a, b }) => a + b", "kv-reads": KV_READS };
const INPUT = { a: 1, b: 2 };
// In a tight loop, calls would wait for isolates, of which recorded and other calls have separate stocks.
const PACE = { paceMs: 10, block: times(50, 5) };
const PLAIN = "not recorded";
const RECORDED = "recorded";

const agent = new Agent({ keepAlive: true });
const BODY = JSON.stringify({ input: INPUT });

function post(url: string, key: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      "content-length": BODY.length,
    };
    request(url, { method: "POST", agent, headers }, (response) => {
      response
        .resume()
        .on("end", () => (response.statusCode === 200 ? resolve() : reject(new Error("The call failed"))));
    })
      .on("error", reject)
      .end(BODY);
  });
}

const dataDir = mkdtempSync(join(tmpdir(), "glovebox-bench-"));
{
  await using server = await createServer({ port: 0, dataDir, logLevel: "silent" });
  await using glovebox = await createGlovebox({ cache: false, kv: "memory" });
  const key = server.adminKey ?? "";
  const client = createClient({ url: server.url, key });
  for (const id of ["plain", "recorded"]) {
    const recording = id === "recorded" ? { recording: { tools: ["*"], rate: 1 } } : {};
    await client.createTenant({ id, policy: { capabilities: ["kv"], ...recording } });
    for (const [name, source] of Object.entries(TOOLS)) await client.tenant(id).deploy({ name, source, approve: true });
  }
  for (const [name, source] of Object.entries(TOOLS)) {
    await glovebox.addTool({ name, source }, { grant: ["kv"] });
    const call = (tenant: string) => () => post(`${server.url}/v1/tenants/${tenant}/tools/${name}/calls`, key);
    const what = name === "add" ? "a tool that only adds" : "a tool that reads ten values of kv";
    await measure({
      name: `recording-http-${name}`,
      question: `What does recording add to a call over HTTP: ${what}`,
      ...PACE,
      samples: times(1_000, 50),
      warmup: times(200, 10),
      subjects: { [PLAIN]: call("plain"), [RECORDED]: call("recorded") },
    });
    const execute = (record?: { readonly onRecording: () => void }) => async () => {
      const context = record === undefined ? {} : { record };
      const result = await glovebox.execute({ id: "c", toolName: name, arguments: INPUT }, context);
      if (!result.success) throw new Error(result.error.message);
    };
    await measure({
      name: `recording-${name}`,
      question: `What does recording add to a call of the library: ${what}`,
      ...PACE,
      samples: times(1_000, 50),
      warmup: times(200, 10),
      subjects: { [PLAIN]: execute(), [RECORDED]: execute({ onRecording() {} }) },
    });
  }
}
agent.destroy();
rmSync(dataDir, { recursive: true, force: true });
