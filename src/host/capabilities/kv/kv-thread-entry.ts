// The embedded store's thread: opens the file, answers batches of requests, closes it when told.
import { parentPort, workerData } from "node:worker_threads";
import { type KvAnswer, KvDatabase, type KvRequest } from "./kv-database.ts";

/** What crosses back: answers for all requests or the first of them, or why there is none for any. */
export type KvReply = { readonly answers: readonly KvAnswer[] } | { readonly problem: string };

const database = new KvDatabase((workerData as { readonly path: string }).path);

function reply(requests: readonly KvRequest[]): KvReply {
  try {
    return { answers: database.run(requests) };
  } catch (thrown) {
    return { problem: Error.isError(thrown) ? thrown.message : String(thrown) };
  }
}

parentPort?.on("message", (requests: readonly KvRequest[] | "close") => {
  if (requests !== "close") {
    parentPort?.postMessage(reply(requests));
    return;
  }
  database.close();
  parentPort?.close();
});
