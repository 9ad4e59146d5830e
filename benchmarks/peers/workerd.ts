// workerd with its worker loader: a process of its own, reached by HTTP; the host that a job asks is the parent worker inside it.
import { spawn } from "node:child_process";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Job } from "../support/jobs.ts";
import type { Peer, PeerAdapter } from "./peer.ts";

const pathOf = (path: string): string => fileURLToPath(new URL(path, import.meta.url));
const BINARY = pathOf("../node_modules/workerd/bin/workerd");
/** Its binary is large: from a cold disk it takes its time. */
const START_MS = 14_000;

const toConfig = (port: number): string => `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .parent)],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const parent :Workerd.Worker = (
  modules = [(name = "parent.mjs", esModule = embed "parent.mjs")],
  compatibilityDate = "2026-11-01",
  bindings = [(name = "LOADER", workerLoader = ())],
);
`;

const toModule = ({ source }: Job): string => `import { WorkerEntrypoint } from "cloudflare:workers";
const main = ${source};
export default class extends WorkerEntrypoint {
  execute(input, ask) { return main(input, { ask }); }
}`;

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === "string") throw new Error("Expected a port");
  return address.port;
}

async function open(): Promise<Peer> {
  const folder = await mkdtemp(join(tmpdir(), "glovebox-workerd-"));
  const port = await freePort();
  await copyFile(pathOf("workerd-parent.mjs"), join(folder, "parent.mjs"));
  await writeFile(join(folder, "config.capnp"), toConfig(port));
  // The loader binding is one of its experiments.
  const child = spawn(BINARY, ["serve", "--experimental", join(folder, "config.capnp")], {
    stdio: ["ignore", "ignore", "pipe"],
    env: {},
  });
  let complaint = "";
  let isGone = false;
  child.stderr.on("data", (chunk: Buffer) => {
    complaint = (complaint + chunk.toString()).slice(-2_000);
  });
  child.on("error", (error) => {
    complaint += error.message;
    isGone = true;
  });
  child.on("exit", () => {
    isGone = true;
  });
  const post = async (body: object): Promise<unknown> => {
    const ask = (): Promise<Response> =>
      fetch(`http://127.0.0.1:${port}/`, { method: "POST", body: JSON.stringify(body) });
    // It closes a connection that has been idle for some seconds, and a request may just be on its way.
    const response = await ask().catch(ask);
    if (!response.ok) throw new Error(`workerd answered ${response.status}: ${complaint || (await response.text())}`);
    return response.json();
  };
  const close = async (): Promise<void> => {
    child.kill("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await untilItAnswers(post, () => isGone);
  } catch (error) {
    await close();
    throw new Error(complaint.split("\n")[0] || String(error), { cause: error });
  }
  let loaded = 0;
  return {
    run: (job) => post({ code: toModule(job), input: job.input }),
    load: async (job) => {
      const id = `loaded-${loaded}`;
      loaded += 1;
      const code = toModule(job);
      return { call: (input) => post({ code, input, id }), dispose: () => {} };
    },
    [Symbol.asyncDispose]: close,
  };
}

async function untilItAnswers(post: (body: object) => Promise<unknown>, isGone: () => boolean): Promise<void> {
  const end = performance.now() + START_MS;
  for (;;) {
    try {
      await post({ code: toModule({ source: "() => 1", input: null }), input: null });
      return;
    } catch (error) {
      if (isGone() || performance.now() > end) throw error;
      await pause(20);
    }
  }
}

export const workerd: PeerAdapter = { name: "workerd", canAsk: true, open };
