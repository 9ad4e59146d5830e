// The thread on which Node runs one test file.
import { runInThisContext } from "node:vm";
import { parentPort, workerData } from "node:worker_threads";
import type { FileResult } from "./script.ts";

type Run = (readResource: (url: string) => Promise<string>) => Promise<FileResult>;

Object.assign(globalThis, { self: globalThis });
// The harness of the suite reports unhandled rejections.
process.on("uncaughtException", () => {});
process.on("unhandledRejection", () => {});

const waiting = new Map<string, { resolve(text: string): void; reject(error: Error): void }[]>();
parentPort?.on("message", ({ url, text }: { readonly url: string; readonly text?: string }) => {
  for (const { resolve, reject } of waiting.get(url) ?? []) {
    if (text === undefined) reject(new Error("There is no such resource"));
    else resolve(text);
  }
  waiting.delete(url);
});

function readResource(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    waiting.set(url, [...(waiting.get(url) ?? []), { resolve, reject }]);
    parentPort?.postMessage({ url });
  });
}

const run = runInThisContext(workerData as string) as Run;
const result = await run(readResource).catch((error: unknown): FileResult => ({ subtests: [], error: String(error) }));
parentPort?.postMessage({ result });
