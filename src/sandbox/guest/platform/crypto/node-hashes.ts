// Hashes and HMACs of node:crypto, used through update() and digest() or as streams.
import { adoptable, callable } from "../shared/callable-classes.ts";
import { checkString } from "../shared/node-error.ts";
import { Transform } from "../streams/node-stream.ts";
import { type NativeHash, openHash, openHmac } from "./crypto-native.ts";
import { type Data, type Done, encode } from "./node-crypto-data.ts";
import { keyBytes } from "./node-keys.ts";

/** A hash or an HMAC, used through update() and digest() or as a stream. */
class HashState extends adoptable(Transform) {
  readonly #native: NativeHash;
  /** The digest that the stream has emitted. As in Node, one call of digest() returns it again. */
  #flushed: Uint8Array<ArrayBuffer> | undefined;
  constructor(native: NativeHash, options?: object) {
    super(options);
    this.#native = native;
  }
  update(data: Data, encoding?: string): this {
    this.#native.update(keyBytes(data, "data", encoding));
    return this;
  }
  digest(encoding?: string): unknown {
    const digest = this.#flushed ?? this.#native.digest();
    this.#flushed = undefined;
    return encode(digest, encoding);
  }
  copy(options?: { readonly outputLength?: number }): HashState {
    return new HashState(this.#native.copy(options?.outputLength));
  }
  override _transform(chunk: Data, encoding: string, done: Done): void {
    this.update(chunk, encoding);
    done();
  }
  override _flush(done: Done): void {
    this.#flushed = this.#native.digest();
    done(null, encode(this.#flushed.slice()));
  }
}

class HmacState extends HashState {}

type HashSettings = { readonly outputLength?: number } | undefined;

const hashArguments = (algorithm: string, options?: HashSettings): [NativeHash, HashSettings] => {
  checkString(algorithm, "algorithm");
  return [openHash(algorithm, options), options];
};

type HmacSettings = { readonly encoding?: string } | undefined;

const hmacArguments = (algorithm: string, key: Data, options?: HmacSettings): [NativeHash, HmacSettings] => {
  checkString(algorithm, "hmac");
  return [openHmac(algorithm, keyBytes(key, "key", options?.encoding)), options];
};

export const Hash = callable(HashState, { convert: hashArguments });

export const Hmac = callable(HmacState, { convert: hmacArguments });

export const createHash = (...args: Parameters<typeof hashArguments>): HashState =>
  new HashState(...hashArguments(...args));

export const createHmac = (...args: Parameters<typeof hmacArguments>): HmacState =>
  new HmacState(...hmacArguments(...args));

export function hash(algorithm: string, data: Data, given?: string | { readonly outputEncoding?: string }): unknown {
  const encoding = typeof given === "string" ? given : (given?.outputEncoding ?? "hex");
  return createHash(algorithm).update(data).digest(encoding);
}
