// The keys of one exchange between two replicas. Both derive them from the master key and random bytes of the caller, and, from the first answer on,
// random bytes of the other replica: what was recorded of one exchange means nothing in another one, and no key encrypts the same frame number twice.
import type { MasterKey } from "../../secrets/master-key.ts";
import type { FrameKey } from "./frames.ts";

/** Number of random bytes that each side adds. */
export const RANDOM_BYTES = 32;

/** `hello` and `call` are sent by the caller, `answer` by the other replica. */
export type Direction = "hello" | "call" | "answer";

export interface ExchangeParties {
  /** Id of the replica that passes on a call. */
  readonly from: string;
  /** Id of the replica that gets it. */
  readonly to: string;
  /** Random bytes of the caller. */
  readonly random: Uint8Array;
}

/** Derives the keys of an exchange. */
export class ExchangeKeys {
  readonly #masterKey: Pick<MasterKey, "derivePeerKey">;
  readonly #parties: ExchangeParties;

  constructor(masterKey: Pick<MasterKey, "derivePeerKey">, parties: ExchangeParties) {
    this.#masterKey = masterKey;
    this.#parties = parties;
  }

  /** @param answered random bytes of the other replica, for all but `hello` */
  keyOf(direction: Direction, answered: Uint8Array = new Uint8Array()): FrameKey {
    const { from, to, random } = this.#parties;
    const salt = Buffer.concat([random, answered]);
    const context = JSON.stringify([
      "glovebox peers 1",
      direction,
      from,
      to,
      Buffer.from(random).toString("base64url"),
    ]);
    return { key: this.#masterKey.derivePeerKey(salt, context), context };
  }
}
