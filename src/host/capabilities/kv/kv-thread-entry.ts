// Entry of the embedded store's thread: opens the file, answers batches of requests, and closes the file on request.
import { parentPort, workerData } from "node:worker_threads";
import { type KvAnswer, KvDatabase, type KvRequest } from "./kv-database.ts";

/** The reply to a batch: answers to all requests or to the first ones, or the error of the whole batch. */
export type KvReply = { readonly answers: readonly KvAnswer[] } | { readonly error: string };

const database = new KvDatabase((workerData as { readonly path: string }).path);

function reply(requests: readonly KvRequest[]): KvReply {
  try {
    return { answers: database.run(requests) };
  } catch (thrown) {
    return { error: Error.isError(thrown) ? thrown.message : String(thrown) };
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
