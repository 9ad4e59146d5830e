// deno as a subprocess with no permissions: a process for each call, the job on its standard input, JSON on its standard output.
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Peer, PeerAdapter } from "./peer.ts";

const BINARY = fileURLToPath(new URL("../node_modules/.bin/deno", import.meta.url));
const ARGUMENTS = ["run", "--quiet", "--no-prompt", "--no-config", "--no-remote", "--no-npm", "--no-lock", "-"];

async function open(): Promise<Peer> {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-deno-"));
  const env = { DENO_DIR: folder, DENO_NO_UPDATE_CHECK: "1", NO_COLOR: "1" };
  return {
    run: ({ source, input }) =>
      new Promise((resolve, reject) => {
        const child = spawn(BINARY, ARGUMENTS, { env });
        let output = "";
        let complaint = "";
        child.stdout.on("data", (chunk: Buffer) => {
          output += chunk.toString();
        });
        child.stderr.on("data", (chunk: Buffer) => {
          complaint += chunk.toString();
        });
        child.on("error", reject);
        child.on("close", (code) => {
          if (code === 0) resolve(JSON.parse(output));
          else reject(new Error(complaint.split("\n")[0]));
        });
        child.stdin.end(`console.log(JSON.stringify(await (${source})(${JSON.stringify(input)}, {})));`);
      }),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

export const deno: PeerAdapter = { name: "deno", canAsk: false, open };
