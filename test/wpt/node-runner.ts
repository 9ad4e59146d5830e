// Runs a test file in Node, on a separate thread, as the reference for the sandbox.
import { Worker } from "node:worker_threads";
import { readResource } from "./sandbox-runner.ts";
import { type FileResult, type ServerAddress, toScript } from "./script.ts";
import type { TestFile } from "./tests.ts";

const THREAD = new URL("./node-thread.ts", import.meta.url);
const GRACE_MS = 10_000;

/** @param server required for tests that are `served` */
export async function runInNode(test: TestFile, server?: ServerAddress): Promise<FileResult> {
  const { promise, resolve } = Promise.withResolvers<FileResult>();
  const thread = new Worker(THREAD, {
    workerData: `(${toScript(test, server)})`,
    execArgv: ["--experimental-eventsource"],
    stdout: true,
    stderr: true,
  });
  const timer = setTimeout(() => resolve({ subtests: [], error: "timed out" }), test.timeoutMs + GRACE_MS);
  thread.on("error", (error) => resolve({ subtests: [], error: String(error) }));
  thread.on("exit", () => resolve({ subtests: [], error: "the thread ended" }));
  thread.on("message", (message: { readonly url: string } | { readonly result: FileResult }) => {
    if ("result" in message) {
      resolve(message.result);
      return;
    }
    try {
      thread.postMessage({ url: message.url, text: readResource(test, message.url) });
    } catch {
      thread.postMessage({ url: message.url });
    }
  });
  try {
    return await promise;
  } finally {
    clearTimeout(timer);
    await thread.terminate();
  }
}
