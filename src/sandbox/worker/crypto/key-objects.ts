// The node:crypto keys of one isolate. The guest has only handles and metadata of them; it gets the key material by an export.
import {
  createPrivateKey,
  createPublicKey,
  createSecretKey,
  generateKeyPair,
  generateKeyPairSync,
  type JsonWebKeyInput,
  KeyObject,
  type PrivateKeyInput,
  type PublicKeyInput,
  type webcrypto,
} from "node:crypto";
import { promisify } from "node:util";
import * as z from "zod";
import type { KeyObjectMetadata } from "../../protocol/crypto-messages.ts";
import { HandleSchema, NO_BYTES, TextSchema } from "./answer.ts";
import { CryptoError } from "./errors.ts";
import { checkKey, MAX_KEY_TEXT_BYTES, readPem } from "./key-material.ts";
import type { KeyStore } from "./key-store.ts";
import type { RequestReader } from "./read-request.ts";

/** Maximum number of keys. Each takes about 20 KiB, including OpenSSL's own data. */
const MAX_KEYS = 1_024;
/** Maximum size of an RSA modulus, as for crypto.subtle. Operations with larger keys would occupy a thread for too long. */
const MAX_MODULUS_BITS = 8_192;
/** Maximum size of a new key in a synchronous function, which blocks the guest and the worker. 2048 bits take 50 to 500 ms. */
const MAX_BITS_AT_ONCE = 2_048;
const MAX_NEW_BITS = 4_096;
/** Maximum size of a new DSA key. Finding its primes takes longer than for RSA. */
const MAX_DSA_BITS = 2_048;

/** Allowed public exponents. With others, few of the generated primes are usable, and creating a key would take many times as long. */
const EXPONENTS: readonly number[] = [3, 5, 17, 257, 65_537];
/** Maximum size of a secret key: the same as for derived bits. */
const MAX_SECRET_BYTES = 1024 * 1024;

const ImportSchema = z.strictObject({
  kind: z.enum(["private", "public"]),
  format: z.enum(["pem", "der", "jwk"]),
  type: z.enum(["pkcs1", "pkcs8", "sec1", "spki"]).optional(),
  hasPassphrase: z.boolean(),
  jwk: z.record(TextSchema, z.union([z.string().max(8 * 1024), z.boolean(), z.array(TextSchema).max(16)])).optional(),
});
const ExportSchema = z.strictObject({
  format: z.enum(["pem", "der", "jwk"]),
  type: z.enum(["pkcs1", "pkcs8", "sec1", "spki"]).optional(),
  cipher: TextSchema.optional(),
});
const GenerateSchema = z.tuple([
  z.enum([
    "rsa",
    "rsa-pss",
    "dsa",
    "ec",
    "ed25519",
    "ed448",
    "x25519",
    "x448",
    "dh",
    "ml-dsa-44",
    "ml-dsa-65",
    "ml-dsa-87",
    "ml-kem-512",
    "ml-kem-768",
    "ml-kem-1024",
  ]),
  z.strictObject({
    modulusLength: z.int().min(0).optional(),
    publicExponent: z
      .int()
      .min(0)
      .max(2 ** 32 - 1)
      .optional(),
    hashAlgorithm: TextSchema.optional(),
    mgf1HashAlgorithm: TextSchema.optional(),
    saltLength: z.int().min(0).max(1_024).optional(),
    divisorLength: z.int().min(0).max(512).optional(),
    namedCurve: TextSchema.optional(),
    paramEncoding: z.enum(["named", "explicit"]).optional(),
    group: TextSchema.optional(),
  }),
]);
type Generate = z.infer<typeof GenerateSchema>;
type Pair = { readonly publicKey: KeyObject; readonly privateKey: KeyObject };

const reject = (name: string, message: string): never => {
  throw new CryptoError(name, message);
};

/** @throws {CryptoError} if creating the key would take too long */
function readGenerate(args: readonly unknown[], isAtOnce: boolean): Generate {
  const [type, options] = GenerateSchema.parse(args);
  const { modulusLength = 0, publicExponent = 65_537 } = options;
  if (!EXPONENTS.includes(publicExponent)) {
    reject("OperationError", `Expected a public exponent of ${EXPONENTS.join(", ")}, got ${publicExponent}`);
  }
  const maxBits = isAtOnce ? MAX_BITS_AT_ONCE : type === "dsa" ? MAX_DSA_BITS : MAX_NEW_BITS;
  if (modulusLength > maxBits) {
    const instead = isAtOnce ? ". Use generateKeyPair() with a callback for larger keys" : "";
    reject("OperationError", `The modulus length of a new key must be at most ${maxBits} bits${instead}`);
  }
  if (type === "dsa" && isAtOnce)
    reject("OperationError", "DSA keys cannot be generated synchronously. Use generateKeyPair() with a callback");
  if (type === "dh" && options.group === undefined) {
    // Checking whether a number of 4096 bits is a safe prime took 57 s on a busy machine (measured), and a job cannot be stopped.
    reject("OperationError", "Expected the option group: generating a Diffie-Hellman prime takes too long");
  }
  return [type, options];
}

type GenerateAtOnce = (type: string, options: object) => Pair;
type GenerateLater = (type: string, options: object) => Promise<Pair>;

/** The KeyObjects of one isolate. */
export class KeyObjects {
  readonly #keys = new Map<number, KeyObject>();
  readonly #cryptoKeys: KeyStore;
  #lastHandle = 0;

  constructor(cryptoKeys: KeyStore) {
    this.#cryptoKeys = cryptoKeys;
  }

  get size(): number {
    return this.#keys.size;
  }

  clear(): void {
    this.#keys.clear();
  }

  /** @throws {CryptoError} TypeError if this isolate has no such handle */
  get(handle: unknown): KeyObject {
    const key = typeof handle === "number" ? this.#keys.get(handle) : undefined;
    return key ?? reject("TypeError", "Expected a KeyObject");
  }

  add(key: KeyObject): KeyObjectMetadata {
    const { modulusLength = 0, publicExponent, ...details } = key.asymmetricKeyDetails ?? {};
    if (modulusLength > MAX_MODULUS_BITS) {
      reject("NotSupportedError", `The modulus of a key must have at most ${MAX_MODULUS_BITS} bits`);
    }
    return {
      handle: this.#keep(key),
      type: key.type as "public" | "private",
      asymmetricKeyType: key.asymmetricKeyType,
      details: {
        ...(modulusLength === 0 ? {} : { modulusLength }),
        ...(publicExponent === undefined ? {} : { publicExponent: String(publicExponent) }),
        ...details,
      },
    };
  }

  #keep(key: KeyObject): number {
    if (this.#keys.size >= MAX_KEYS) reject("QuotaExceededError", `${MAX_KEYS} keys are open already`);
    this.#lastHandle += 1;
    this.#keys.set(this.#lastHandle, key);
    return this.#lastHandle;
  }

  /** Adds a secret key temporarily, while the guest converts it to a CryptoKey. Otherwise secret keys stay in the guest. */
  addSecret(bytes: Uint8Array): number {
    if (bytes.byteLength > MAX_SECRET_BYTES)
      reject("OperationError", `A secret key must have at most ${MAX_SECRET_BYTES} bytes`);
    return this.#keep(createSecretKey(bytes));
  }

  secretOf(args: readonly unknown[]): Uint8Array {
    return KeyObject.from(this.#exportable(args[0])).export({ format: "buffer" });
  }

  forget(args: readonly unknown[]): null {
    for (const handle of z.array(HandleSchema).parse(args[0])) this.#keys.delete(handle);
    return null;
  }

  /** Imports a key. `bytes`: the key (unless it is a JWK), then the passphrase. */
  import(args: readonly unknown[], bytes: readonly Uint8Array[]): KeyObjectMetadata {
    const { kind, format, type, hasPassphrase, jwk } = ImportSchema.parse(args[0]);
    const create = kind === "private" ? createPrivateKey : createPublicKey;
    if (format === "jwk") return this.add(create({ key: jwk ?? {}, format } as JsonWebKeyInput));
    const [material = NO_BYTES] = bytes;
    if (material.byteLength > MAX_KEY_TEXT_BYTES)
      reject("OperationError", `A key must have at most ${MAX_KEY_TEXT_BYTES} bytes`);
    const secret = hasPassphrase ? { passphrase: Buffer.from(bytes[1] ?? NO_BYTES) } : {};
    if (format === "pem") {
      const text = readPem(material, kind, hasPassphrase);
      return this.add(create({ key: text, format, ...secret } as PrivateKeyInput & PublicKeyInput));
    }
    checkKey(material, hasPassphrase);
    const given = { key: Buffer.from(material), format, type: type ?? "pkcs8", ...secret };
    return this.add(create(given as PrivateKeyInput & PublicKeyInput));
  }

  publicOf(args: readonly unknown[]): KeyObjectMetadata {
    return this.add(createPublicKey(this.get(args[0])));
  }

  /** Exports a key. `bytes`: the passphrase, if a cipher is given. */
  export(args: readonly unknown[], bytes: readonly Uint8Array[]): unknown {
    const key = this.get(args[0]);
    const { format, type, cipher } = ExportSchema.parse(args[1]);
    const secret = cipher === undefined ? {} : { cipher, passphrase: Buffer.from(bytes[0] ?? NO_BYTES) };
    return key.export({ format, type, ...secret } as never);
  }

  equals(args: readonly unknown[]): boolean {
    return this.get(args[0]).equals(this.get(args[1]));
  }

  /** Returns a CryptoKey of the guest's crypto.subtle. Rejects a key that is not extractable, since a KeyObject can always be exported. */
  #exportable(handle: unknown): webcrypto.CryptoKey {
    const key = this.#cryptoKeys.get(handle);
    if (!key.extractable) reject("TypeError", "A CryptoKey that is not extractable cannot be converted to a KeyObject");
    return key;
  }

  fromCryptoKey(args: readonly unknown[]): KeyObjectMetadata {
    return this.add(KeyObject.from(this.#exportable(args[0])));
  }

  toCryptoKey(args: readonly unknown[], reader: RequestReader): unknown {
    const usages = z.array(TextSchema).max(64).parse(args[3]) as webcrypto.KeyUsage[];
    const key = this.get(args[0]).toCryptoKey(reader.algorithm(args[1]) as never, args[2] === true, usages);
    // The algorithm of an HKDF or PBKDF2 key does not contain its size.
    return this.#cryptoKeys.add(key, this.get(args[0]).symmetricKeySize);
  }

  #addPair({ publicKey, privateKey }: Pair): unknown {
    return { publicKey: this.add(publicKey), privateKey: this.add(privateKey) };
  }

  generate(args: readonly unknown[]): unknown {
    const [type, options] = readGenerate(args, true);
    return this.#addPair((generateKeyPairSync as unknown as GenerateAtOnce)(type, options));
  }

  prepareGenerate(args: readonly unknown[]): () => Promise<unknown> {
    const [type, options] = readGenerate(args, false);
    const generateLater = promisify(generateKeyPair) as unknown as GenerateLater;
    return async () => this.#addPair(await generateLater(type, options));
  }
}
