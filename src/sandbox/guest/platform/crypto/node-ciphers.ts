// Ciphers of node:crypto, used through update() and final() or as streams.
import { adoptable, callable } from "../shared/callable-classes.ts";
import { checkInteger, checkObject, checkString, invalidArgument } from "../shared/node-error.ts";
import { Transform } from "../streams/node-stream.ts";
import { callWorker } from "./crypto-call.ts";
import { type NativeCipher, openCipher } from "./crypto-native.ts";
import { type Data, type Done, encode } from "./node-crypto-data.ts";
import { keyBytes } from "./node-keys.ts";
import { MAX_RANDOM_BYTES, MIN_INT32 } from "./node-random.ts";

interface CipherSettings {
  readonly authTagLength?: number;
}

class Cipher extends adoptable(Transform) {
  readonly #native: NativeCipher;
  constructor(native: NativeCipher, options?: object) {
    super(options);
    this.#native = native;
  }
  update(data: Data, inputEncoding?: string, outputEncoding?: string): unknown {
    return encode(this.#native.update(keyBytes(data, "data", inputEncoding)), outputEncoding);
  }
  final(encoding?: string): unknown {
    return encode(this.#native.final(), encoding);
  }
  getAuthTag(): unknown {
    return encode(this.#native.getAuthTag());
  }
  setAuthTag(tag: Data, encoding?: string): this {
    this.#native.setAuthTag(keyBytes(tag, "buffer", encoding));
    return this;
  }
  setAAD(data: Data, options?: { readonly plaintextLength?: number; readonly encoding?: string }): this {
    this.#native.setAAD(keyBytes(data, "buffer", options?.encoding), options?.plaintextLength);
    return this;
  }
  setAutoPadding(on = true): this {
    this.#native.setAutoPadding(on);
    return this;
  }
  override _transform(chunk: Data, encoding: string, done: Done): void {
    attempt(done, () => this.update(chunk, encoding));
  }
  override _flush(done: Done): void {
    attempt(done, () => this.final());
  }
}

function attempt(done: Done, make: () => unknown): void {
  let data: unknown;
  try {
    data = make();
  } catch (error) {
    done(error as Error);
    return;
  }
  done(null, data);
}

class DecipherState extends Cipher {}

type CipherArguments = [algorithm: string, key: Data, iv: Data | null, options?: CipherSettings];

const cipherArguments =
  (decrypt: boolean) =>
  (...[algorithm, key, iv, options = {}]: CipherArguments): [NativeCipher, object] => {
    checkString(algorithm, "cipher");
    const { authTagLength } = options;
    const bytes = { key: keyBytes(key, "key"), iv: iv === null ? null : keyBytes(iv, "iv") };
    return [
      openCipher({ algorithm, decrypt, ...bytes, ...(authTagLength === undefined ? {} : { authTagLength }) }),
      options,
    ];
  };

const encryption = cipherArguments(false);

const decryption = cipherArguments(true);

export const Cipheriv = callable(Cipher, { convert: encryption });

export const Decipheriv = callable(DecipherState, { convert: decryption });

export const createCipheriv = (...args: CipherArguments): Cipher => new Cipher(...encryption(...args));

export const createDecipheriv = (...args: CipherArguments): Cipher => new DecipherState(...decryption(...args));

export function getCipherInfo(nameOrNid: unknown, options: unknown = {}): unknown {
  if (typeof nameOrNid !== "string" && typeof nameOrNid !== "number") {
    throw invalidArgument("nameOrNid", "one of type string or number", nameOrNid);
  }
  checkObject(options, "options");
  const { keyLength, ivLength } = options as { readonly keyLength?: unknown; readonly ivLength?: unknown };
  if (keyLength !== undefined) checkInteger(keyLength, "options.keyLength", MIN_INT32, MAX_RANDOM_BYTES);
  if (ivLength !== undefined) checkInteger(ivLength, "options.ivLength", MIN_INT32, MAX_RANDOM_BYTES);
  const info = callWorker("cipherInfo", [nameOrNid, keyLength ?? null, ivLength ?? null], []);
  return info === null ? undefined : Object.assign(Object.create(null), info);
}
