// The asymmetric keys of node:crypto of one isolate: a guest has their numbers and facts, and what they are made of when it exports them.
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
import type { KeyObjectFacts } from "../../protocol/crypto-messages.ts";
import { checkKey, MAX_KEY_TEXT_BYTES, readPem } from "./key-material.ts";
import type { KeyStore } from "./key-store.ts";
import type { RequestReader } from "./read-request.ts";
import { CryptoRefusal } from "./refusal.ts";

/** Some 20 KiB each with what OpenSSL keeps for one. */
const MAX_KEYS = 1_024;
/** As for crypto.subtle: an operation with more takes too long for a thread that nothing stops. */
const MAX_MODULUS_BITS = 8_192;
/** While the guest waits, and with it the worker: 2048 bits take 50 to 500 ms. */
const MAX_BITS_AT_ONCE = 2_048;
const MAX_NEW_BITS = 4_096;
/** Finding a prime for DSA takes longer. */
const MAX_DSA_BITS = 2_048;

/** What divides one by small primes fits few of the primes that are found: a key would take many times as long. */
const EXPONENTS: readonly number[] = [3, 5, 17, 257, 65_537];
/** As of a key that is derived. */
const MAX_SECRET_BYTES = 1024 * 1024;

const Text = z.string().max(64);
const Handle = z.int();
const ImportSchema = z.strictObject({
  kind: z.enum(["private", "public"]),
  format: z.enum(["pem", "der", "jwk"]),
  type: z.enum(["pkcs1", "pkcs8", "sec1", "spki"]).optional(),
  hasPassphrase: z.boolean(),
  jwk: z.record(Text, z.union([z.string().max(8 * 1024), z.boolean(), z.array(Text).max(16)])).optional(),
});
const ExportSchema = z.strictObject({
  format: z.enum(["pem", "der", "jwk"]),
  type: z.enum(["pkcs1", "pkcs8", "sec1", "spki"]).optional(),
  cipher: Text.optional(),
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
    hashAlgorithm: Text.optional(),
    mgf1HashAlgorithm: Text.optional(),
    saltLength: z.int().min(0).max(1_024).optional(),
    divisorLength: z.int().min(0).max(512).optional(),
    namedCurve: Text.optional(),
    paramEncoding: z.enum(["named", "explicit"]).optional(),
    group: Text.optional(),
  }),
]);
type Generate = z.infer<typeof GenerateSchema>;
type Pair = { readonly publicKey: KeyObject; readonly privateKey: KeyObject };

const refuse = (name: string, message: string): never => {
  throw new CryptoRefusal(name, message);
};

/** @throws {CryptoRefusal} */
function readGenerate(args: readonly unknown[], isAtOnce: boolean): Generate {
  const [type, options] = GenerateSchema.parse(args);
  const { modulusLength = 0, publicExponent = 65_537 } = options;
  if (!EXPONENTS.includes(publicExponent)) {
    refuse("OperationError", `A public exponent may be ${EXPONENTS.join(", ")} here, got ${publicExponent}`);
  }
  const most = isAtOnce ? MAX_BITS_AT_ONCE : type === "dsa" ? MAX_DSA_BITS : MAX_NEW_BITS;
  if (modulusLength > most) {
    const instead = isAtOnce ? "; generateKeyPair() with a callback makes longer ones" : "";
    refuse("OperationError", `A new key's modulus length may be ${most} bits at most here${instead}`);
  }
  if (type === "dsa" && isAtOnce)
    refuse("OperationError", "DSA keys are made by generateKeyPair() with a callback here");
  if (type === "dh" && options.group === undefined) {
    refuse("OperationError", "Diffie-Hellman keys are made of a group here: finding a prime takes too long");
  }
  return [type, options];
}

type GenerateAtOnce = (type: string, options: object) => Pair;
type GenerateLater = (type: string, options: object) => Promise<Pair>;

/** Of one isolate. */
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

  /** @throws {CryptoRefusal} TypeError for what is no handle of this isolate's */
  get(handle: unknown): KeyObject {
    const key = typeof handle === "number" ? this.#keys.get(handle) : undefined;
    return key ?? refuse("TypeError", "Expected a KeyObject");
  }

  add(key: KeyObject): KeyObjectFacts {
    const { modulusLength = 0, publicExponent, ...details } = key.asymmetricKeyDetails ?? {};
    if (modulusLength > MAX_MODULUS_BITS) {
      refuse("NotSupportedError", `A key's modulus may have ${MAX_MODULUS_BITS} bits at most here`);
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
    if (this.#keys.size >= MAX_KEYS) refuse("QuotaExceededError", `${MAX_KEYS} keys are open already`);
    this.#lastHandle += 1;
    this.#keys.set(this.#lastHandle, key);
    return this.#lastHandle;
  }

  /** For as long as a guest makes a CryptoKey of it: its secret keys are its own. */
  addSecret(bytes: Uint8Array): number {
    if (bytes.byteLength > MAX_SECRET_BYTES)
      refuse("OperationError", `A secret key may have ${MAX_SECRET_BYTES} bytes`);
    return this.#keep(createSecretKey(bytes));
  }

  secretOf(args: readonly unknown[]): Uint8Array {
    return KeyObject.from(this.#exportable(args[0])).export() as unknown as Uint8Array;
  }

  forget(args: readonly unknown[]): null {
    for (const handle of z.array(Handle).parse(args[0])) this.#keys.delete(handle);
    return null;
  }

  /** Bytes: the key (but for a JWK), then the passphrase. */
  import(args: readonly unknown[], bytes: readonly Uint8Array[]): KeyObjectFacts {
    const { kind, format, type, hasPassphrase, jwk } = ImportSchema.parse(args[0]);
    const create = kind === "private" ? createPrivateKey : createPublicKey;
    if (format === "jwk") return this.add(create({ key: jwk ?? {}, format } as JsonWebKeyInput));
    const [material = new Uint8Array()] = bytes;
    if (material.byteLength > MAX_KEY_TEXT_BYTES)
      refuse("OperationError", `A key may have ${MAX_KEY_TEXT_BYTES} bytes`);
    const secret = hasPassphrase ? { passphrase: Buffer.from(bytes[1] ?? new Uint8Array()) } : {};
    if (format === "pem") {
      const text = readPem(material, kind, hasPassphrase);
      return this.add(create({ key: text, format, ...secret } as PrivateKeyInput & PublicKeyInput));
    }
    checkKey(material, hasPassphrase);
    const given = { key: Buffer.from(material), format, type: type ?? "pkcs8", ...secret };
    return this.add(create(given as PrivateKeyInput & PublicKeyInput));
  }

  publicOf(args: readonly unknown[]): KeyObjectFacts {
    return this.add(createPublicKey(this.get(args[0]) as never));
  }

  /** Bytes: the passphrase, where there is a cipher. */
  export(args: readonly unknown[], bytes: readonly Uint8Array[]): unknown {
    const key = this.get(args[0]);
    const { format, type, cipher } = ExportSchema.parse(args[1]);
    const secret = cipher === undefined ? {} : { cipher, passphrase: Buffer.from(bytes[0] ?? new Uint8Array()) };
    return key.export({ format, type, ...secret } as never);
  }

  equals(args: readonly unknown[]): boolean {
    return this.get(args[0]).equals(this.get(args[1]));
  }

  /** Of the guest's crypto.subtle. A key that may not be exported must not become one that may. */
  #exportable(handle: unknown): webcrypto.CryptoKey {
    const key = this.#cryptoKeys.get(handle);
    if (!key.extractable) refuse("TypeError", "A CryptoKey that is not extractable cannot become a KeyObject here");
    return key;
  }

  fromCryptoKey(args: readonly unknown[]): KeyObjectFacts {
    return this.add(KeyObject.from(this.#exportable(args[0])));
  }

  toCryptoKey(args: readonly unknown[], reader: RequestReader): unknown {
    const usages = z.array(Text).max(64).parse(args[3]) as webcrypto.KeyUsage[];
    const key = this.get(args[0]).toCryptoKey(reader.algorithm(args[1]) as never, args[2] === true, usages);
    // What a key of HKDF or PBKDF2 holds is not in its algorithm.
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
