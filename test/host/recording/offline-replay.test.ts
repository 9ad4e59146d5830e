// Recorded calls of the tools in tools/ and examples/ and of random programs have the same outcome, byte for byte, when a process in a network namespace
// without any interface replays them. GLOVEBOX_REPLAY_CALLS=1000 replays 1,000 calls and prints the figure.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { CallRecording } from "../../../src/host/index.ts";
import { PYTHON_CACHE, SHARED_CACHE } from "../../support/host-zone.ts";
import { type CorpusCall, type CorpusOptions, corpusCalls, openCorpus } from "./offline-corpus.ts";

const CALLS = Number(process.env.GLOVEBOX_REPLAY_CALLS ?? 32);
const SEED = Number(process.env.GLOVEBOX_REPLAY_SEED ?? 20_262);
const CHILD = fileURLToPath(new URL("./offline-replay-child.ts", import.meta.url));

/** Of util-linux: runs a program in new namespaces. */
const UNSHARE = "unshare";

/** Whether a process can have a network namespace of its own here. */
function canUnshare(): boolean {
  try {
    execFileSync(UNSHARE, ["-rn", "true"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}
const ISOLATED = canUnshare();
if (!ISOLATED) console.log("Skipped: this machine does not let a process have a network namespace (unshare -rn)");

async function record(file: string): Promise<CorpusOptions> {
  const server = createServer(({ url }, response) => {
    if (url === "/json") response.setHeader("content-type", "application/json").end('{"a":[1]}');
    else if (url === "/png")
      response.setHeader("content-type", "image/png").end(Buffer.from([137, 80, 78, 71, 0, 255]));
    else if (url === "/long") response.end("x".repeat(5_000));
    else if (url === "/missing") response.writeHead(404).end("none");
    else response.setHeader("content-type", "text/plain").end(`häh ${Math.random()}`);
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const isWhole = CALLS >= 100;
  const options = { cache: (isWhole ? PYTHON_CACHE : SHARED_CACHE).directory, origin, isWhole };
  const glovebox = await openCorpus(options);
  const lines: string[] = [];
  /** A call whose worker process was lost has a recording with gaps, and is recorded again. */
  const recordOne = async (n: number, call: CorpusCall): Promise<void> => {
    for (let attempt = 1; ; attempt += 1) {
      let made: CallRecording | undefined;
      const onRecording = (recording: CallRecording): void => {
        made = recording;
      };
      const { success, ...result } = await glovebox.execute({ id: `call${n}`, ...call }, { record: { onRecording } });
      const isLost = !success && "error" in result && result.error.code === "SANDBOX_CRASHED";
      if (isLost && attempt < 4) continue;
      lines.push(JSON.stringify(made));
      return;
    }
  };
  const calls = corpusCalls(CALLS, SEED, options).entries();
  await Promise.all(
    Array.from({ length: 4 }, async () => {
      for (const [n, call] of calls) await recordOne(n, call);
    }),
  );
  await glovebox.close();
  server.close();
  writeFileSync(file, lines.join("\n"));
  return options;
}

test.skipIf(!ISOLATED)(
  `${CALLS} recorded calls have the same outcome without a network`,
  {
    timeout: 300_000 + CALLS * 2_000,
  },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "glovebox-offline-"));
    try {
      const file = join(folder, "recordings");
      const options = await record(file);
      const output = await new Promise<string>((resolve, reject) => {
        const args = ["-rn", process.execPath, CHILD, file, JSON.stringify(options)];
        const child = spawn(UNSHARE, args, { stdio: ["ignore", "pipe", "inherit"] });
        let text = "";
        child.stdout.on("data", (data: Buffer) => {
          text += data;
        });
        child.once("error", reject);
        child.once("close", () => resolve(text));
      });
      const { isOffline, total, identical, lost, others } = JSON.parse(output) as { readonly [key: string]: unknown };
      if (CALLS >= 1_000)
        console.log(
          `${total} recorded calls replayed without a network, ${identical} identical, ${lost} worker processes lost`,
        );
      expect({ isOffline, total, identical, others }).toEqual({
        isOffline: true,
        total: CALLS,
        identical: CALLS,
        others: [],
      });
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
);
