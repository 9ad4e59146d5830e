// Requests to the other replicas: one message, and the answers to it.
import { randomUUID } from "node:crypto";
import type { ReplicaBus } from "./bus.ts";
import type { ReplicaMessage } from "./messages.ts";

/** Longest time in ms to wait for a replica that counts as alive and does not answer, where a client waits too. */
export const ANSWER_MS = 3_000;

type Counts = NonNullable<Extract<ReplicaMessage, { readonly type: "answer" }>["counts"]>;

interface Waiting {
  readonly answered: Set<string>;
  isDone: boolean;
  readonly counts: Counts[];
  readonly onAnswer: () => void;
}

type Question = Extract<ReplicaMessage, { readonly request?: string | undefined }>;
type WithoutRequest<Message> = Message extends Question ? Omit<Message, "request"> : never;

/** What the other replicas have answered within the time. */
export interface Answers {
  /** Whether one of them has done what was requested. */
  readonly isDone: boolean;
  /** Replicas that live and did not answer. */
  readonly silent: readonly string[];
  /** The counts that they have answered with. */
  readonly counts: readonly Counts[];
}

export class ReplicaRequests implements Disposable {
  readonly #bus: ReplicaBus;
  readonly #waiting = new Map<string, Waiting>();
  readonly #subscription: Disposable;

  constructor(bus: ReplicaBus) {
    this.#bus = bus;
    this.#subscription = bus.subscribe("answer", ({ sender, message: { request, isDone, counts } }) => {
      const waiting = this.#waiting.get(request);
      if (waiting === undefined) return;
      waiting.answered.add(sender);
      waiting.isDone ||= isDone;
      if (counts !== undefined) waiting.counts.push(counts);
      waiting.onAnswer();
    });
  }

  /**
   * Sends a request to the other replicas that live, and waits for their answers.
   * @param until `one`: until one has done it; `all`: until all have answered
   */
  async send(
    message: WithoutRequest<Exclude<Question, { readonly type: "answer" }>>,
    { timeoutMs, until }: { readonly timeoutMs: number; readonly until: "one" | "all" },
  ): Promise<Answers> {
    const peers = await this.#bus.peers();
    if (peers.length === 0) return { isDone: false, silent: [], counts: [] };
    const request = randomUUID();
    const { promise, resolve } = Promise.withResolvers<void>();
    const missing = (): readonly string[] => peers.filter((peer) => !waiting.answered.has(peer));
    const onAnswer = (): void => {
      if (missing().length === 0 || (until === "one" && waiting.isDone)) resolve();
    };
    const waiting: Waiting = { answered: new Set(), isDone: false, counts: [], onAnswer };
    this.#waiting.set(request, waiting);
    const timer = setTimeout(resolve, timeoutMs);
    try {
      await this.#bus.publish({ ...message, request } as ReplicaMessage);
      await promise;
      return { isDone: waiting.isDone, silent: missing(), counts: waiting.counts };
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(request);
    }
  }

  /** Answers a request of another replica. */
  async answer(request: string, isDone: boolean, counts?: Counts): Promise<void> {
    await this.#bus.publish({ type: "answer", request, isDone, ...(counts === undefined ? {} : { counts }) });
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}
