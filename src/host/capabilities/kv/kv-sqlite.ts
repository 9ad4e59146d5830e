// The default KvStore: a SQLite file (node:sqlite) in a thread, so that the host's event loop never waits for the disk or for a transaction
// of another process. Requests that arrive meanwhile share the next commit: one `set` takes 1.5 ms, a hundred at once 4 ms (measured).
// better-sqlite3 would be 27 MB of prebuilt binaries; node:sqlite is the same library and gets its security fixes with Node.
import { Worker } from "node:worker_threads";
import type { KvAnswer, KvRequest, KvSpaces } from "./kv-database.ts";
import type {
  KvDeleteOutcome,
  KvDeletion,
  KvEntry,
  KvListOptions,
  KvPage,
  KvQuota,
  KvSetOutcome,
  KvSpace,
  KvStore,
  KvTenantEntry,
  KvWrite,
} from "./kv-store.ts";
import type { KvReply } from "./kv-thread-entry.ts";
import { spaceName, tenantPrefix, toolOfSpace } from "./space-names.ts";

/** Limits of one batch. Requests that arrive during a transaction share the next one. Copying a batch to the thread takes host time. */
const MAX_BATCH = 256;
const MAX_BATCH_BYTES = 2 * 1024 * 1024;

const ENTRY = new URL(`./kv-thread-entry${import.meta.url.endsWith(".ts") ? ".ts" : ".js"}`, import.meta.url);

interface Waiting {
  readonly request: KvRequest;
  readonly resolve: (answer: never) => void;
  readonly reject: (reason: Error) => void;
}

const nameOf = ({ tenantId, tool }: KvSpace): string => spaceName(tenantId, tool);
/** Size of one page of an export. */
const EXPORT_PAGE = { prefix: "", limit: 100, bytes: 1024 * 1024 } as const;

export class SqliteKvStore implements KvStore {
  readonly #path: string;
  #thread: Worker | undefined;
  #waiting: Waiting[] = [];
  #pending: Waiting[] = [];
  #closed = false;

  /** The file is opened on the first request, and created if it does not exist. */
  constructor(path: string) {
    this.#path = path;
  }

  get(space: KvSpace, key: string): Promise<KvEntry | undefined> {
    return this.#send({ op: "get", space: nameOf(space), key });
  }

  set(space: KvSpace, key: string, write: KvWrite): Promise<KvSetOutcome> {
    return this.#send({ op: "set", space: nameOf(space), key, write });
  }

  delete(space: KvSpace, key: string, ifVersion?: string): Promise<KvDeleteOutcome> {
    return this.#send({ op: "delete", space: nameOf(space), key, ifVersion });
  }

  list(space: KvSpace, options: KvListOptions): Promise<KvPage> {
    return this.#send({ op: "list", space: nameOf(space), options });
  }

  usage(space: KvSpace): Promise<KvQuota> {
    return this.#send({ op: "usage", space: nameOf(space) });
  }

  /** Takes as long as copying the file. Other requests wait until then. */
  deleteTenant(tenantId: string): Promise<KvDeletion> {
    return this.#send({ op: "deleteTenant", prefix: tenantPrefix(tenantId) });
  }

  async *entries(tenantId: string): AsyncGenerator<KvTenantEntry, void> {
    const prefix = tenantPrefix(tenantId);
    for (let last: string | undefined; ; ) {
      const { spaces } = await this.#send<KvSpaces>({ op: "spaces", prefix, after: last });
      if (spaces.length === 0) return;
      for (const space of spaces) yield* this.#entriesOf(space);
      last = spaces.at(-1);
    }
  }

  async *#entriesOf(space: string): AsyncGenerator<KvTenantEntry, void> {
    const tool = toolOfSpace(space);
    for (let after: string | undefined, more = true; more; ) {
      const page = await this.#send<KvPage>({ op: "list", space, options: { ...EXPORT_PAGE, after } });
      for (const entry of page.entries) yield { ...entry, tool };
      more = page.more;
      after = page.entries.at(-1)?.key;
    }
  }

  /** Closes the store after all earlier requests. A second call is a no-op. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    const thread = this.#thread;
    if (thread === undefined) return;
    const exited = new Promise((resolve) => thread.once("exit", resolve));
    thread.ref();
    while (this.#waiting.length + this.#pending.length > 0 && this.#thread === thread) {
      await new Promise<void>((resolve) => {
        thread.once("message", () => resolve());
        thread.once("exit", () => resolve());
      });
    }
    if (this.#thread !== thread) return;
    thread.postMessage("close");
    await exited;
  }

  /** Ends the thread without waiting for its work, and rejects open requests. A thread that is stuck in the kernel does not delay this. */
  forceClose(): void {
    this.#closed = true;
    const thread = this.#thread;
    this.#thread = undefined;
    thread?.unref();
    void thread?.terminate().catch(() => undefined);
    const unanswered = [...this.#pending.splice(0), ...this.#waiting.splice(0)];
    for (const { reject } of unanswered) reject(new Error("The kv store was closed before it had answered"));
  }

  #send<Answer extends KvAnswer>(request: KvRequest): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#closed) {
        reject(new Error("The kv store is closed"));
        return;
      }
      this.#waiting.push({ request, resolve, reject });
      // Requests of the same turn of the event loop share a batch.
      if (this.#waiting.length === 1 && this.#pending.length === 0) queueMicrotask(() => this.#flush());
    });
  }

  #flush(): void {
    if (this.#pending.length > 0 || this.#waiting.length === 0) return;
    this.#pending = this.#waiting.splice(0, this.#batchLength());
    this.#thread ??= this.#start();
    this.#thread.ref();
    this.#thread.postMessage(this.#pending.map(({ request }) => request));
  }

  #batchLength(): number {
    let bytes = 0;
    if (this.#waiting[0]?.request.op === "deleteTenant") return 1;
    const end = this.#waiting.slice(0, MAX_BATCH).findIndex(({ request }) => {
      if (bytes > MAX_BATCH_BYTES || request.op === "deleteTenant") return true;
      bytes += request.op === "set" ? request.write.data.byteLength : 0;
      return false;
    });
    return end < 0 ? MAX_BATCH : end;
  }

  #start(): Worker {
    const thread = new Worker(ENTRY, {
      name: "glovebox-kv",
      workerData: { path: this.#path },
      env: {},
      // Node 24 calls its SQLite experimental, on stderr.
      execArgv: ["--no-warnings"],
    });
    let cause: unknown;
    thread.on("message", (reply: KvReply) => this.#receive(reply));
    thread.on("error", (error) => {
      cause = error;
    });
    thread.on("exit", () => {
      if (this.#thread !== thread) return;
      this.#thread = undefined;
      this.#settle((one) => one.reject(new Error("The thread of the kv store ended", { cause })));
    });
    return thread;
  }

  #receive(reply: KvReply): void {
    if ("error" in reply) {
      this.#settle((one) => one.reject(new Error(reply.error)));
      return;
    }
    // Requests without an answer are sent again, before later ones.
    this.#waiting.unshift(...this.#pending.splice(reply.answers.length));
    this.#settle((one, index) => one.resolve(reply.answers[index] as never));
  }

  #settle(end: (one: Waiting, index: number) => void): void {
    const ended = this.#pending;
    this.#pending = [];
    ended.forEach(end);
    if (this.#waiting.length > 0) this.#flush();
    else this.#thread?.unref();
  }
}
