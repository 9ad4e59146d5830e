// Decides whether load balancers should send requests to this process. A process is not ready if it stops, if its database cannot be read or
// written, if it has not reached NATS since its start, or if other replicas reach NATS and it does not. When no replica reaches NATS any more, all
// of them stay ready: all but calls works.
import type { OpenDatabase } from "../database/open-database.ts";
import { checkWrite } from "../database/write-check.ts";
import type { ReplicaBus } from "../replicas/bus.ts";
import type { ReplicaRequests } from "../replicas/requests.ts";

/** How often the database is written to, in ms, however many requests there are. */
const WRITE_MS = 3_000;
/** How often the other replicas are requested to say whether they reach NATS, in ms. */
const PEERS_MS = 1_000;
/** Longest time in ms to wait for a database or for the other replicas. */
const DATABASE_WAIT_MS = 5_000;
const PEERS_WAIT_MS = 1_000;

export interface ReadinessDependencies {
  readonly database: Pick<OpenDatabase, "db" | "kind" | "path">;
  readonly bus: Pick<ReplicaBus, "replicaId" | "subscribe">;
  readonly requests: ReplicaRequests;
  /** Returns whether the server has not begun to stop. */
  readonly isOpen: () => boolean;
  /** Returns whether the server reaches its NATS server, or needs none. */
  readonly reachesNats: () => boolean;
  readonly onError: (error: unknown) => void;
}

/** Why a server is not ready. */
export interface NotReady {
  readonly message: string;
  readonly retryAfterSeconds: number;
}

/** Runs a check once at a time, and remembers its outcome for a while. */
class RepeatedCheck<Outcome> {
  readonly #check: () => Promise<Outcome>;
  readonly #intervalMs: number;
  #last: Promise<Outcome> | undefined;
  /** By performance.now(). Infinity while the check runs. */
  #until = 0;

  constructor(check: () => Promise<Outcome>, intervalMs: number) {
    this.#check = check;
    this.#intervalMs = intervalMs;
  }

  run(): Promise<Outcome> {
    if (this.#last === undefined || performance.now() >= this.#until) {
      this.#until = Number.POSITIVE_INFINITY;
      const last = this.#check();
      this.#last = last;
      const end = (): void => {
        this.#until = performance.now() + this.#intervalMs;
      };
      last.then(end, end);
    }
    return this.#last;
  }
}

export class Readiness implements Disposable {
  readonly #dependencies: ReadinessDependencies;
  readonly #read: RepeatedCheck<unknown>;
  readonly #write: RepeatedCheck<void>;
  readonly #peers: RepeatedCheck<boolean>;
  readonly #subscription: Disposable;
  /** Whether NATS was reached once. A wrong URL must not pass a rolling update, and an outage must not make all replicas unready. */
  #hasReachedNats = false;

  constructor(dependencies: ReadinessDependencies) {
    this.#dependencies = dependencies;
    const { database, bus, requests, isOpen, reachesNats } = dependencies;
    this.#hasReachedNats = reachesNats();
    // One at a time, so that requests without a key cannot use all connections of a database that is slow.
    this.#read = new RepeatedCheck(() => database.db.selectFrom("tenants").select("id").limit(1).execute(), 0);
    this.#write = new RepeatedCheck(() => checkWrite(database, bus.replicaId), WRITE_MS);
    this.#peers = new RepeatedCheck(async () => {
      const { isDone } = await requests.send({ type: "nats" }, { timeoutMs: PEERS_WAIT_MS, until: "one" });
      return isDone;
    }, PEERS_MS);
    this.#subscription = bus.subscribe("nats", async ({ sender, message: { request } }) => {
      if (sender !== bus.replicaId) await requests.answer(request, isOpen() && reachesNats());
    });
  }

  /** Returns why the server is not ready; undefined if it is. Never rejects. */
  async check(): Promise<NotReady | undefined> {
    const { isOpen, reachesNats, onError } = this.#dependencies;
    if (!isOpen()) return { message: "The server is shutting down", retryAfterSeconds: 1 };
    if (!(await this.#succeeds(this.#read.run())))
      return { message: "The server cannot reach its database", retryAfterSeconds: 5 };
    if (!(await this.#succeeds(this.#write.run())))
      return { message: "The server's database accepts no writes", retryAfterSeconds: 5 };
    if (reachesNats()) {
      this.#hasReachedNats = true;
      return undefined;
    }
    if (!this.#hasReachedNats)
      return { message: "The server has not reached its NATS server yet", retryAfterSeconds: 5 };
    // Without an answer, it is not known that another replica is better off.
    const isElsewhere = await this.#peers.run().catch((thrown: unknown) => {
      onError(thrown);
      return false;
    });
    return isElsewhere ? { message: "The server cannot reach its NATS server", retryAfterSeconds: 5 } : undefined;
  }

  async #succeeds(work: Promise<unknown>): Promise<boolean> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`The database has not answered within ${DATABASE_WAIT_MS} ms`)),
      DATABASE_WAIT_MS,
    );
    try {
      await Promise.race([work, late.promise]);
      return true;
    } catch (thrown) {
      this.#dependencies.onError(thrown);
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}
