// Reads the messages that other processes have added to the table, each once. Numbers of rows are given before their transactions commit, so a
// row can appear after later ones: the numbers that were missing are read again.
import { sql } from "kysely";
import type { Db } from "../database/open-database.ts";
import { decodeMessage, MAX_MESSAGE_BYTES, type ReceivedMessage } from "./messages.ts";

/** Longest time in ms for which a missing row is looked for. No transaction of the server takes longer. */
const GAP_MS = 40_000;
const MAX_GAPS = 1_000;
const BATCH = 500;

interface MessageRow {
  readonly id: number;
  readonly sender: string;
  readonly body: string;
}

export class ReplicaMessageReader {
  readonly #db: Db;
  /** Largest number that was read. */
  #last: number;
  /** Numbers below it that were not, with the time until which they are looked for, by performance.now(). */
  readonly #gaps = new Map<number, number>();

  private constructor(db: Db, last: number) {
    this.#db = db;
    this.#last = last;
  }

  /** Returns a reader of the messages that are sent from now on. */
  static async open(db: Db): Promise<ReplicaMessageReader> {
    const { rows } = await sql<{ last: number }>`
      select case when is_called then last_value else 0 end as last from replica_messages_id_seq`.execute(db);
    return new ReplicaMessageReader(db, Number(rows[0]?.last ?? 0));
  }

  /** Returns the messages that have arrived, in order, without those that are not valid. */
  async read(): Promise<readonly ReceivedMessage[]> {
    const received: ReceivedMessage[] = [];
    for (;;) {
      const gaps = this.#openGaps();
      const { rows } = await sql<MessageRow>`
        select id, left(sender, 64) as sender, left(body, ${MAX_MESSAGE_BYTES + 1}) as body from replica_messages
        where id > ${this.#last} or id = any(${gaps}::bigint[]) order by id limit ${BATCH}`.execute(this.#db);
      for (const { id, sender, body } of rows) {
        this.#note(id);
        const message = decodeMessage(body);
        if (message !== undefined) received.push({ sender, message });
      }
      if (rows.length < BATCH) return received;
    }
  }

  #openGaps(): readonly number[] {
    const now = performance.now();
    for (const [id, until] of this.#gaps) if (until < now) this.#gaps.delete(id);
    return [...this.#gaps.keys()];
  }

  #note(id: number): void {
    this.#gaps.delete(id);
    const until = performance.now() + GAP_MS;
    for (let missing = Math.max(this.#last + 1, id - MAX_GAPS); missing < id; missing += 1) {
      this.#gaps.set(missing, until);
    }
    this.#last = Math.max(this.#last, id);
    for (const oldest of this.#gaps.keys()) {
      if (this.#gaps.size <= MAX_GAPS) break;
      this.#gaps.delete(oldest);
    }
  }
}
