// Reads an object of the other side in parts, and checks it against its hash. A few parts are under way at the same time,
// so that a large object fills neither the connection nor the memory of NATS.

import type { PartRequest } from "../protocol/control-messages.ts";
import { carriedBytes, MAX_PART_BYTES, type ObjectRef } from "../protocol/message-fields.ts";
import { hashOf, ObjectError } from "./object-offers.ts";

const LEAST_PART_BYTES = 4_096;
/** Time in ms without a part after which an object cannot be read. */
const TIMEOUT_MS = 30_000;
/** Time in ms after which a request is sent again: it or its answer can be lost, for example when NATS restarts. */
const ATTEMPT_MS = 5_000;
/** Parts that are requested at the same time. */
const CONCURRENT_PARTS = 4;

export interface ObjectSource {
  /** Fencing token of the attempt that the object belongs to. */
  readonly token: string;
  /** Sends a request to the side that has the object. */
  readonly request: (request: Omit<PartRequest, "key">) => void;
  /** Whether the object is still needed. */
  readonly isWanted: () => boolean;
}

/** Which part an answer holds. */
export type PartName = Pick<PartRequest, "token" | "name" | "from">;
type OnPart = (part: Uint8Array | undefined) => void;

const keyOf = ({ token, name, from }: PartName): string => `${token} ${name} ${from}`;

export class ObjectReader {
  readonly #connection: { readonly maxPayload: number };
  readonly #attemptMs: number;
  readonly #pending = new Map<string, OnPart>();

  /**
   * @param connection says the largest payload of one message in bytes, which can change when NATS restarts
   * @param attemptMs time after which a request without an answer is sent again
   */
  constructor(connection: { readonly maxPayload: number }, attemptMs: number = ATTEMPT_MS) {
    this.#connection = connection;
    this.#attemptMs = attemptMs;
  }

  /**
   * Reads an object.
   * @throws {ObjectError} as a rejection, if it is missing, does not arrive, or is not what its hash says
   */
  async read({ name, sha256, bytes }: ObjectRef, source: ObjectSource): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    const partBytes = Math.max(LEAST_PART_BYTES, carriedBytes(this.#connection.maxPayload, MAX_PART_BYTES));
    const count = Math.ceil(bytes / partBytes);
    let next = 0;
    const readParts = async (): Promise<void> => {
      for (let index = next; index < count; index = next) {
        next += 1;
        const from = index * partBytes;
        const length = Math.min(partBytes, bytes - from);
        try {
          parts[index] = await this.#readPart({ type: "fetch", token: source.token, name, from, length }, source);
        } catch (thrown) {
          // The others need no further parts.
          next = count;
          throw thrown;
        }
      }
    };
    await Promise.all(Array.from({ length: Math.min(CONCURRENT_PARTS, count) }, readParts));
    const object = Buffer.concat(parts);
    if (hashOf(object) !== sha256) throw new ObjectError("An object is not what its hash says");
    return object;
  }

  async #readPart(request: Omit<PartRequest, "key">, { request: send, isWanted }: ObjectSource): Promise<Uint8Array> {
    const key = keyOf(request);
    const until = performance.now() + TIMEOUT_MS;
    const { promise, resolve, reject } = Promise.withResolvers<Uint8Array>();
    this.#pending.set(key, (part) => {
      if (part === undefined) reject(new ObjectError("An object is missing"));
      else if (part.byteLength !== request.length) reject(new ObjectError("A part of an object has another size"));
      else resolve(part);
    });
    const tick = (): void => {
      if (!isWanted()) reject(new ObjectError("An object is not needed any longer"));
      else if (performance.now() >= until) reject(new ObjectError("A part of an object did not arrive in time"));
      else send(request);
    };
    const timer = setInterval(tick, this.#attemptMs);
    try {
      tick();
      return await promise;
    } finally {
      clearInterval(timer);
      this.#pending.delete(key);
    }
  }

  /** Receives an answer. One that is not expected, for example to a repeated request, is ignored. */
  receive(part: PartName, bytes: Uint8Array | undefined): void {
    this.#pending.get(keyOf(part))?.(bytes);
  }
}
