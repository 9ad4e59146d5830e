// Receives what executors send about the calls of this control plane: checks each message, reads the ones that were too large to be sent at once,
// and passes them to the attempts of the calls in order.
import { ObjectReader } from "../objects/object-reader.ts";
import { OrderedTasks } from "../ordered-tasks.ts";
import { type CountedMessage, type ExecutorCallMessage, ExecutorMessageSchema } from "../protocol/executor-messages.ts";
import { decodeFrame, type WireFrame } from "../protocol/wire.ts";
import type { RemoteAttempt } from "./remote-attempt.ts";
import type { RemoteExecutor } from "./remote-executor.ts";

interface InboxEvents {
  /** A message about a call could not be read. */
  readonly onUnreadable: (token: string) => void;
  /** An executor has sent what a correct one never sends. */
  readonly onViolation: (executor: RemoteExecutor<RemoteAttempt>, thrown: unknown) => void;
}

export class ExecutorInbox {
  readonly #events: InboxEvents;
  readonly #tasks: OrderedTasks;
  readonly #reader: ObjectReader;

  constructor(connection: { readonly maxPayload: number }, events: InboxEvents) {
    this.#events = events;
    this.#tasks = new OrderedTasks(events.onUnreadable);
    this.#reader = new ObjectReader(connection);
  }

  /** @throws {Error} for a message that a correct executor never sends */
  receive(executor: RemoteExecutor<RemoteAttempt>, frame: WireFrame): void {
    const message = ExecutorMessageSchema.parse(frame.message);
    if (message.type === "running") {
      this.#compare(executor, message.calls);
      return;
    }
    if (message.type === "sessions-ended") {
      // A name that is missing is one of a session that has ended here, or of another executor.
      for (const [token, reason] of message.sessions)
        executor.sessions.get(token)?.reportEnded(reason === "other" ? undefined : reason);
      return;
    }
    // Without an attempt, it is a late message, or one about a call of another executor: the subject names its sender.
    const attempt = executor.attempts.get(message.token);
    switch (message.type) {
      case "fetch":
        if (executor.sendPart(message)) attempt?.read();
        return;
      case "part":
        if (attempt !== undefined) this.#reader.receive(message, frame.parts[0]);
        return;
      case "received":
        attempt?.offers.remove(message.name);
        return;
    }
    if (attempt === undefined) {
      // The executor waits until its object is read.
      if (message.type === "object") executor.sendReceived(message.token, message.name);
      return;
    }
    if (!attempt.count(message.n)) return;
    // A queue without a limit would let an executor fill the memory of this process.
    if (attempt.isReadingObject && !attempt.giveUpObject(message))
      throw new Error("An executor sent a message about a call before its object was taken");
    const parts = message.type === "lost" ? [] : frame.parts;
    this.#tasks.run(message.token, () => this.#process(attempt, message, parts));
  }

  #process(attempt: RemoteAttempt, message: CountedMessage, parts: readonly Buffer[]): Promise<void> | undefined {
    if (message.type === "object") return this.#readObject(attempt, message);
    if (!attempt.isOver) this.#deliver(attempt, message, parts);
    return undefined;
  }

  /** Reads a message that was too large to be sent at once. */
  async #readObject(attempt: RemoteAttempt, message: Extract<CountedMessage, { type: "object" }>): Promise<void> {
    const { token, executor } = attempt;
    try {
      if (attempt.isOver) return;
      attempt.isReadingObject = true;
      if (message.bytes > attempt.maxBytes) throw new Error("An executor offered more than its call may send");
      const bytes = await this.#reader.read(message, {
        token,
        request: (request) => executor.send(request),
        isWanted: () => !attempt.isOver,
      });
      attempt.isReadingObject = false;
      const frame = decodeFrame(bytes);
      const inner = ExecutorMessageSchema.parse(frame.message);
      if (!("n" in inner) || inner.type === "object" || inner.token !== token)
        throw new Error("An executor offered a message that does not concern its call");
      this.#deliver(attempt, inner, frame.parts);
    } finally {
      executor.sendReceived(token, message.name);
    }
  }

  #deliver(attempt: RemoteAttempt, message: ExecutorCallMessage, parts: readonly Buffer[]): void {
    try {
      attempt.receive(message, parts);
    } catch (thrown) {
      this.#events.onViolation(attempt.executor, thrown);
    }
  }

  /** Ends the calls that the executor does not run any more, and those of which a message is missing. */
  #compare(executor: RemoteExecutor<RemoteAttempt>, calls: readonly (readonly [string, number])[]): void {
    const sent = new Map(calls);
    for (const attempt of [...executor.attempts.values()]) {
      const n = sent.get(attempt.token);
      // One whose last message is being read has ended on the executor.
      if (n === undefined ? attempt.isAcknowledged && !attempt.isReadingObject : n !== attempt.received) attempt.lose();
    }
  }
}
