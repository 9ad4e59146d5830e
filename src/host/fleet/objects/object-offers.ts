// Data of a call that is too large for one message: the sender offers it, the receiver reads it in parts. The sender keeps
// it in memory until the receiver has it or the call has ended. It uses no stream of NATS, because NATS answers with rights
// of its own.
import { createHash, randomBytes } from "node:crypto";
import type { PartRequest } from "../protocol/control-messages.ts";
import type { ObjectRef } from "../protocol/message-fields.ts";

/** Thrown if an object is missing, incomplete, too large or not what its hash says. */
export class ObjectError extends Error {
  override readonly name = "ObjectError";
}

export const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** Returns the description of bytes that are offered under a random name. */
export const describeObject = (bytes: Uint8Array): ObjectRef => ({
  name: randomBytes(16).toString("base64url"),
  sha256: hashOf(bytes),
  bytes: bytes.byteLength,
});

/** How often the whole object may be read: a reader repeats a request without an answer for as long as it waits. */
const MAX_READS = 8;
/** Each request counts as at least this number of bytes, so that many small ones are limited too. */
const LEAST_COUNTED_BYTES = 4_096;

interface Offer {
  readonly read: () => Uint8Array;
  /** Bytes that may still be requested. */
  left: number;
  readonly onDone: () => void;
}

/** The objects of one call. */
export class ObjectOffers {
  readonly #offers = new Map<string, Offer>();
  #isClosed = false;

  /**
   * Offers an object. Resolves when the other side has it, or the call is over.
   * @param read returns its bytes, which are the same each time
   */
  async add({ name, bytes }: ObjectRef, read: () => Uint8Array): Promise<void> {
    if (this.#isClosed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#offers.set(name, { read, left: MAX_READS * (bytes + LEAST_COUNTED_BYTES), onDone: resolve });
    await promise;
  }

  /**
   * Returns a part of an object; undefined if there is no such object, or it has no such part.
   * @throws {ObjectError} if the other side requests more than a correct reader does
   */
  partOf({ name, from, length }: Pick<PartRequest, "name" | "from" | "length">): Uint8Array | undefined {
    const offer = this.#offers.get(name);
    if (offer === undefined) return undefined;
    offer.left -= Math.max(length, LEAST_COUNTED_BYTES);
    if (offer.left < 0) throw new ObjectError("The parts of an object were requested too often");
    const object = offer.read();
    return from + length > object.byteLength ? undefined : object.subarray(from, from + length);
  }

  /** The other side has the object, or does not need it. */
  remove(name: string): void {
    const offer = this.#offers.get(name);
    this.#offers.delete(name);
    offer?.onDone();
  }

  /** Drops every object. Later ones are dropped at once. */
  close(): void {
    this.#isClosed = true;
    for (const name of [...this.#offers.keys()]) this.remove(name);
  }
}
