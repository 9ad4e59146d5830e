// Functions of the guest's `node:crypto` that SubtleCrypto does not have: incremental hashes, HMACs and ciphers, and key derivation.
// They are synchronous, so each piece of data is small; longer operations are jobs.
import * as nodeCrypto from "node:crypto";
import {
  type CipherGCM,
  type Cipheriv,
  checkPrime,
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  type DecipherGCM,
  type Decipheriv,
  getCipherInfo,
  getCiphers,
  getHashes,
  type Hash,
  type Hmac,
  hkdfSync,
  pbkdf2,
  scrypt,
} from "node:crypto";
import { promisify } from "node:util";
import * as z from "zod";
import { MAX_PIECE_BYTES } from "../../protocol/crypto-messages.ts";
import { type CryptoAnswer, HandleSchema, NO_BYTES, TextSchema, toAnswer } from "./answer.ts";
import { CryptoError } from "./errors.ts";
import { checkArgon2, checkPbkdf2, checkPrimality, checkScrypt } from "./job-limits.ts";

type State = Hash | Hmac | Cipheriv | Decipheriv;
type Call = (args: readonly unknown[], bytes: readonly Uint8Array[]) => CryptoAnswer;

/** Maximum number of open hashes and ciphers of one isolate. Each takes one or two kilobytes. */
const MAX_STATES = 1_024;
const MAX_KEY_BYTES = 64 * 1024;
const MAX_OUTPUT_BYTES = 1024 * 1024;
/** Symmetric and cheap. Triple DES is not for new data; payment signatures, XML encryption and PKCS #12 use it. */
const CIPHERS =
  /^(?:aes-?(?:128|192|256)-(?:cbc|ccm|ctr|gcm|ecb|cfb|cfb1|cfb8|ocb|ofb)|aes(?:128|192|256)|aes-?(?:128|192|256)-wrap(?:-pad)?|id-aes(?:128|192|256)-(?:[cg]cm|wrap(?:-pad)?)|chacha20-poly1305|des-?ede3(?:-(?:cbc|cfb|cfb1|cfb8|ecb|ofb))?|des3)$/i;

const Length = z.int().min(0).max(MAX_OUTPUT_BYTES);
const OutputLength = Length.nullable();
const HashArgs = z.tuple([TextSchema, OutputLength]);
const CipherArgs = z.tuple([TextSchema, z.boolean(), z.int().min(1).max(16).nullable()]);
const CipherInfoArgs = z.tuple([z.union([TextSchema, z.int()]), z.int().nullable(), z.int().nullable()]);
const DerivationArgs = z.tuple([
  TextSchema,
  z
    .int()
    .min(1)
    .max(2 ** 31 - 1),
  Length,
]);
const ScryptArgs = z.tuple([
  z
    .int()
    .min(2)
    .max(2 ** 31),
  z
    .int()
    .min(1)
    .max(2 ** 20),
  z
    .int()
    .min(1)
    .max(2 ** 20),
  Length,
]);

const Argon2Args = z.tuple([
  z.enum(["argon2d", "argon2i", "argon2id"]),
  z.int().min(1),
  Length.min(4),
  z.int().min(8),
  z.int().min(1),
]);

type Argon2 = (
  algorithm: string,
  parameters: object,
  callback: (error: Error | null, derived: Uint8Array) => void,
) => void;
const isPrime = promisify<Uint8Array, object, boolean>(checkPrime);
const derivePbkdf2 = promisify(pbkdf2);
const deriveScrypt = promisify<Uint8Array, Uint8Array, number, object, Buffer>(scrypt);

function toBuffer(bytes: Uint8Array): ArrayBuffer {
  return new Uint8Array(bytes).buffer;
}

/** Returns the required number of buffers after checking their sizes. */
function take(bytes: readonly Uint8Array[], count: number): Uint8Array[] {
  if (bytes.length < count) throw new CryptoError("TypeError", "Expected bytes");
  for (const { byteLength } of bytes) {
    if (byteLength > MAX_PIECE_BYTES)
      throw new CryptoError("OperationError", `A piece must have at most ${MAX_PIECE_BYTES} bytes`);
  }
  return bytes.slice(0, count);
}

function takeKey(bytes: readonly Uint8Array[]): Uint8Array {
  const [key = NO_BYTES] = take(bytes, 1);
  if (key.byteLength > MAX_KEY_BYTES)
    throw new CryptoError("OperationError", `A key must have at most ${MAX_KEY_BYTES} bytes`);
  return key;
}

const hashOptions = (outputLength: number | null): object => (outputLength === null ? {} : { outputLength });

/** The open hashes and ciphers of one isolate. */
export class NodeFunctions {
  readonly #states = new Map<number, State>();
  #lastHandle = 0;

  get size(): number {
    return this.#states.size;
  }

  clear(): void {
    this.#states.clear();
  }

  /** @throws {Error} any error, which the caller converts with `toFailure` */
  call(name: string, args: readonly unknown[], buffers: readonly ArrayBuffer[]): CryptoAnswer {
    const run = Object.hasOwn(this.#calls, name) ? this.#calls[name] : undefined;
    if (run === undefined) throw new CryptoError("NotSupportedError", `Unknown function "${name}"`);
    const bytes = buffers.map((buffer) => new Uint8Array(buffer));
    return run(args, bytes);
  }

  #open(state: State): string {
    if (this.#states.size >= MAX_STATES) {
      throw new CryptoError("QuotaExceededError", `${MAX_STATES} hashes and ciphers are open already`);
    }
    this.#lastHandle += 1;
    this.#states.set(this.#lastHandle, state);
    return toAnswer(this.#lastHandle);
  }

  #state<Kind extends State>(args: readonly unknown[]): Kind {
    const state = this.#states.get(HandleSchema.parse(args[0]));
    if (state === undefined) throw new CryptoError("InvalidStateError", "The hash or cipher is already finished");
    return state as Kind;
  }

  #close<Kind extends State>(args: readonly unknown[]): Kind {
    const state = this.#state<Kind>(args);
    this.#states.delete(HandleSchema.parse(args[0]));
    return state;
  }

  /**
   * Functions by name. `args` starts with a handle, except for functions that open one. Arguments are untrusted. If the object of a handle
   * lacks a method, the resulting TypeError is returned to the guest.
   */
  readonly #calls: { readonly [name: string]: Call } = {
    hashes: () => toAnswer(getHashes()),
    ciphers: () => toAnswer(getCiphers().filter((name) => CIPHERS.test(name))),
    cipherInfo: (args) => {
      const [name, keyLength, ivLength] = CipherInfoArgs.parse(args);
      const options = {
        ...(keyLength === null ? {} : { keyLength }),
        ...(ivLength === null ? {} : { ivLength }),
      };
      const info = getCipherInfo(name as string, options);
      return toAnswer(info !== undefined && CIPHERS.test(info.name) ? info : null);
    },
    hash: (args, bytes) => {
      const [algorithm, outputLength] = HashArgs.parse(args);
      const [data = NO_BYTES] = take(bytes, 1);
      return toBuffer(createHash(algorithm, hashOptions(outputLength)).update(data).digest());
    },
    hmac: (args, bytes) => {
      const [, data = NO_BYTES] = take(bytes, 2);
      return toBuffer(createHmac(TextSchema.parse(args[0]), takeKey(bytes)).update(data).digest());
    },
    openHash: (args) => {
      const [algorithm, outputLength] = HashArgs.parse(args);
      return this.#open(createHash(algorithm, hashOptions(outputLength)));
    },
    openHmac: (args, bytes) => this.#open(createHmac(TextSchema.parse(args[0]), takeKey(bytes))),
    copyHash: (args) => this.#open(this.#state<Hash>(args).copy(hashOptions(OutputLength.parse(args[1] ?? null)))),
    updateHash: (args, bytes) => {
      this.#state<Hash>(args).update(take(bytes, 1)[0] ?? "");
      return toAnswer(null);
    },
    digest: (args) => toBuffer(this.#close<Hash>(args).digest()),
    openCipher: (args, bytes) => this.#openCipher(args, bytes),
    updateCipher: (args, bytes) => toBuffer(this.#state<Cipheriv>(args).update(take(bytes, 1)[0] ?? NO_BYTES)),
    endCipher: (args) => {
      const cipher = this.#close<CipherGCM>(args);
      const last = cipher.final();
      // Return the tag together with the last bytes, so that the state can be released now.
      const tag = typeof cipher.getAuthTag === "function" ? tagOf(cipher) : NO_BYTES;
      return toBuffer(Buffer.concat([Uint8Array.of(tag.byteLength), tag, last]));
    },
    setAad: (args, bytes) => {
      const plaintextLength = Length.nullable().parse(args[1] ?? null);
      const [aad = NO_BYTES] = take(bytes, 1);
      this.#state<CipherGCM>(args).setAAD(aad, plaintextLength === null ? undefined : { plaintextLength });
      return toAnswer(null);
    },
    setTag: (args, bytes) => {
      this.#state<DecipherGCM>(args).setAuthTag(take(bytes, 1)[0] ?? NO_BYTES);
      return toAnswer(null);
    },
    setPadding: (args) => {
      this.#state<Cipheriv>(args).setAutoPadding(args[1] === true);
      return toAnswer(null);
    },
    close: (args) => {
      for (const handle of z.array(HandleSchema).max(MAX_STATES).parse(args[0])) this.#states.delete(handle);
      return toAnswer(null);
    },
    hkdf: (args, bytes) => {
      const [digest, length] = z.tuple([TextSchema, Length]).parse(args);
      const [key, salt, info] = take(bytes, 3) as [Uint8Array, Uint8Array, Uint8Array];
      return hkdfSync(digest, key, salt, info, length);
    },
  };

  #openCipher(args: readonly unknown[], bytes: readonly Uint8Array[]): string {
    const [algorithm, isDecipher, authTagLength] = CipherArgs.parse(args);
    if (!CIPHERS.test(algorithm))
      throw new CryptoError(
        "NotSupportedError",
        "Unsupported cipher. Expected a mode of AES or of Triple DES, or chacha20-poly1305",
        "ERR_CRYPTO_UNKNOWN_CIPHER",
      );
    const key = takeKey(bytes);
    const iv = bytes[1] ?? null;
    const options = (authTagLength === null ? {} : { authTagLength }) as object;
    const open = isDecipher ? createDecipheriv : createCipheriv;
    return this.#open(open(algorithm, key, iv, options) as Cipheriv);
  }

  /** Prepares a job for a function that would block the worker for too long. */
  prepareJob(name: string, args: readonly unknown[], buffers: readonly ArrayBuffer[]): () => Promise<ArrayBuffer> {
    const bytes = buffers.map((buffer) => new Uint8Array(buffer));
    if (name === "checkPrime") return prepareCheckPrime(args, bytes);
    if (name === "argon2") return prepareArgon2(args, bytes);
    const [secret, salt] = take(bytes, 2) as [Uint8Array, Uint8Array];
    if (name === "pbkdf2") {
      const [digest, iterations, length] = DerivationArgs.parse(args);
      checkPbkdf2(iterations, length, createHash(digest).digest().byteLength);
      return async () => toBuffer(await derivePbkdf2(secret, salt, iterations, length, digest));
    }
    if (name === "scrypt") {
      const [N, r, p, length] = ScryptArgs.parse(args);
      checkScrypt(N, r, p);
      // Node's own check requires slightly more than 128 * N * r.
      const options = { N, r, p, maxmem: 128 * N * r + 1024 * 1024 };
      return async () => toBuffer(await deriveScrypt(secret, salt, length, options));
    }
    throw new CryptoError("NotSupportedError", `Unknown function "${name}"`);
  }
}

function prepareCheckPrime(args: readonly unknown[], bytes: readonly Uint8Array[]): () => Promise<ArrayBuffer> {
  const [checks] = z.tuple([z.int().min(0)]).parse(args);
  const [candidate = NO_BYTES] = take(bytes, 1);
  checkPrimality(8 * candidate.byteLength, checks);
  return async () => toBuffer(Uint8Array.of((await isPrime(candidate, { checks })) ? 1 : 0));
}

function prepareArgon2(args: readonly unknown[], bytes: readonly Uint8Array[]): () => Promise<ArrayBuffer> {
  const [algorithm, parallelism, tagLength, memory, passes] = Argon2Args.parse(args);
  const [message, nonce, secret, associatedData] = take(bytes, 4);
  checkArgon2({ memory, passes, parallelism });
  // Node has it since 24.7.
  const { argon2 } = nodeCrypto as { readonly argon2?: Argon2 };
  if (argon2 === undefined) {
    throw new CryptoError("NotSupportedError", "Argon2 needs Node 24.7 or newer on the host. Use argon2Sync()");
  }
  const parameters = { message, nonce, secret, associatedData, parallelism, tagLength, memory, passes };
  return async () => toBuffer(await promisify(argon2)(algorithm, parameters));
}

function tagOf(cipher: CipherGCM): Uint8Array {
  try {
    return cipher.getAuthTag();
  } catch {
    // The mode has no authentication tag.
    return NO_BYTES;
  }
}
