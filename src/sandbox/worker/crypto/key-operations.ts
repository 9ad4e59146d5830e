// Synchronous operations of the guest's node:crypto with asymmetric keys: signatures, RSA encryption, key agreement, certificates.
// Each takes a few milliseconds, or some tens of milliseconds with the largest keys.
import * as nodeCrypto from "node:crypto";
import {
  createDiffieHellmanGroup,
  createECDH,
  createHash,
  createSign,
  createVerify,
  type DiffieHellmanGroup,
  diffieHellman,
  ECDH,
  getCurves,
  type KeyObject,
  privateDecrypt,
  privateEncrypt,
  publicDecrypt,
  publicEncrypt,
  type Sign,
  sign,
  type Verify,
  verify,
  X509Certificate,
} from "node:crypto";
import * as z from "zod";
import { CERTIFICATE_FIELDS } from "../../protocol/guest-messages.ts";
import { type CryptoAnswer, HandleSchema, NO_BYTES, TextSchema, toAnswer } from "./answer.ts";
import { CryptoError } from "./errors.ts";
import { MAX_KEY_TEXT_BYTES } from "./key-material.ts";
import { KeyObjects } from "./key-objects.ts";
import type { KeyStore } from "./key-store.ts";
import { RequestReader } from "./read-request.ts";

type Call = (args: readonly unknown[], bytes: readonly Uint8Array[]) => unknown;

/** Maximum number of open signatures. The guest's own code opens one at a time. */
const MAX_SIGNATURES = 16;
const MAX_GROUPS = 256;
const SignSchema = z.strictObject({
  padding: z.int().optional(),
  saltLength: z.int().min(-8).max(1_024).optional(),
  dsaEncoding: z.enum(["der", "ieee-p1363"]).optional(),
});
const EncryptSchema = z.strictObject({ padding: z.int().optional(), oaepHash: TextSchema.optional() });
const PointFormat = z.enum(["compressed", "uncompressed", "hybrid"]);
const RSA_FUNCTIONS = { privateDecrypt, privateEncrypt, publicDecrypt, publicEncrypt } as const;
const RsaFunction = z.enum(["privateDecrypt", "privateEncrypt", "publicDecrypt", "publicEncrypt"]);

const joined = (...parts: readonly Uint8Array[]): Buffer =>
  Buffer.concat([Uint8Array.of(...new Uint8Array(Uint16Array.of(parts[0]?.byteLength ?? 0).buffer)), ...parts]);

interface Mechanisms {
  readonly encapsulate: (key: unknown) => { readonly sharedKey: Buffer; readonly ciphertext: Buffer };
  readonly decapsulate: (key: unknown, ciphertext: Uint8Array) => Buffer;
}

/** Node has them since 24.7. */
function mechanism<Name extends keyof Mechanisms>(name: Name): Mechanisms[Name] {
  const run = (nodeCrypto as Partial<Mechanisms>)[name];
  if (run === undefined) throw new CryptoError("NotSupportedError", `${name}() needs Node 24.7 or newer on the host`);
  return run;
}

function certificateOf(bytes: readonly Uint8Array[]): X509Certificate {
  const [raw = NO_BYTES] = bytes;
  if (raw.byteLength > MAX_KEY_TEXT_BYTES) {
    throw new CryptoError("OperationError", `A certificate must have at most ${MAX_KEY_TEXT_BYTES} bytes`);
  }
  return new X509Certificate(raw);
}

/** The key operations of one isolate. */
export class KeyOperations {
  readonly keys: KeyObjects;
  readonly #cryptoKeys: KeyStore;
  readonly #signatures = new Map<number, Sign | Verify>();
  readonly #groups = new Map<number, DiffieHellmanGroup>();
  #lastHandle = 0;

  constructor(cryptoKeys: KeyStore) {
    this.#cryptoKeys = cryptoKeys;
    this.keys = new KeyObjects(cryptoKeys);
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#calls, name);
  }

  clear(): void {
    this.keys.clear();
    this.#signatures.clear();
    this.#groups.clear();
  }

  /** @throws {Error} any error, which the caller converts with `toFailure` */
  call(name: string, args: readonly unknown[], buffers: readonly ArrayBuffer[]): CryptoAnswer {
    const result = (this.#calls[name] as Call)(
      args,
      buffers.map((buffer) => new Uint8Array(buffer)),
    );
    if (result instanceof Uint8Array) return new Uint8Array(result).buffer;
    return toAnswer(result ?? null);
  }

  #signature(handle: unknown): Sign | Verify {
    const state = this.#signatures.get(HandleSchema.parse(handle));
    if (state === undefined) throw new CryptoError("InvalidStateError", "The signature is already finished");
    return state;
  }

  #group(handle: unknown): DiffieHellmanGroup {
    const group = this.#groups.get(HandleSchema.parse(handle));
    if (group === undefined) throw new CryptoError("TypeError", "Expected a Diffie-Hellman group");
    return group;
  }

  #openSignature(args: readonly unknown[]): number {
    if (this.#signatures.size >= MAX_SIGNATURES) this.#signatures.clear();
    const [name, isVerify] = z.tuple([TextSchema, z.boolean()]).parse(args);
    this.#lastHandle += 1;
    this.#signatures.set(this.#lastHandle, isVerify ? createVerify(name) : createSign(name));
    return this.#lastHandle;
  }

  /** Signs data, or verifies a signature. `bytes`: the data, and for a verification the signature. */
  #sign(args: readonly unknown[], bytes: readonly Uint8Array[]): unknown {
    const [algorithm, handle, options] = args;
    const key = { key: this.keys.get(handle) as never, ...SignSchema.parse(options) };
    const name = TextSchema.nullable().parse(algorithm) ?? undefined;
    const [data = NO_BYTES, signature] = bytes;
    return signature === undefined ? sign(name, data, key as never) : verify(name, data, key as never, signature);
  }

  #endSignature(args: readonly unknown[], bytes: readonly Uint8Array[]): unknown {
    const state = this.#signature(args[0]);
    this.#signatures.delete(args[0] as number);
    const key = { key: this.keys.get(args[1]), ...SignSchema.parse(args[2]) } as never;
    const [signature] = bytes;
    return signature === undefined ? (state as Sign).sign(key) : (state as Verify).verify(key, signature);
  }

  #crypt(args: readonly unknown[], bytes: readonly Uint8Array[]): unknown {
    const run = RSA_FUNCTIONS[RsaFunction.parse(args[0])];
    const [data = NO_BYTES, label] = bytes;
    const oaepLabel = label === undefined ? {} : { oaepLabel: Buffer.from(label) };
    return run({ key: this.keys.get(args[1]), ...EncryptSchema.parse(args[2]), ...oaepLabel } as never, data as never);
  }

  /** Operations by the names that the guest's platform modules use. Arguments are untrusted. */
  readonly #calls: { readonly [name: string]: Call } = {
    importKeyObject: (args, bytes) => this.keys.import(args, bytes),
    exportKeyObject: (args, bytes) => this.keys.export(args, bytes),
    equalKeyObjects: (args) => this.keys.equals(args),
    publicKeyObject: (args) => this.keys.publicOf(args),
    forgetKeyObjects: (args) => this.keys.forget(args),
    generateKeyObjects: (args) => this.keys.generate(args),
    keyObjectOf: (args) => this.keys.fromCryptoKey(args),
    cryptoKeyOf: (args) => this.keys.toCryptoKey(args, new RequestReader(this.#cryptoKeys, [])),
    digestBytes: (args) => createHash(TextSchema.parse(args[0])).digest().byteLength,
    secretKeyObject: (_args, bytes) => this.keys.addSecret(bytes[0] ?? NO_BYTES),
    secretOf: (args) => this.keys.secretOf(args),
    curves: () => getCurves(),
    signData: (args, bytes) => this.#sign(args, bytes),
    openSignature: (args) => this.#openSignature(args),
    updateSignature: (args, bytes) => {
      this.#signature(args[0]).update(bytes[0] ?? NO_BYTES);
      return null;
    },
    endSignature: (args, bytes) => this.#endSignature(args, bytes),
    cryptWithKey: (args, bytes) => this.#crypt(args, bytes),
    agreeOnSecret: (args) =>
      diffieHellman({ privateKey: this.keys.get(args[0]), publicKey: this.keys.get(args[1]) } as {
        privateKey: KeyObject;
        publicKey: KeyObject;
      }),
    ecdhGenerate: (args) => {
      const ecdh = createECDH(TextSchema.parse(args[0]));
      const point = ecdh.generateKeys();
      return joined(ecdh.getPrivateKey(), point);
    },
    ecdhPublic: (args, bytes) => {
      const ecdh = createECDH(TextSchema.parse(args[0]));
      ecdh.setPrivateKey(bytes[0] ?? NO_BYTES);
      return ecdh.getPublicKey();
    },
    ecdhSecret: (args, bytes) => {
      const ecdh = createECDH(TextSchema.parse(args[0]));
      ecdh.setPrivateKey(bytes[0] ?? NO_BYTES);
      return ecdh.computeSecret(bytes[1] ?? NO_BYTES);
    },
    ecdhConvert: (args, bytes) => {
      const [curve, format] = z.tuple([TextSchema, PointFormat]).parse(args);
      const point = Buffer.from(bytes[0] ?? NO_BYTES).toString("hex");
      return Buffer.from(String(ECDH.convertKey(point, curve, "hex", "hex", format)), "hex");
    },
    encapsulate: (args) => {
      const { sharedKey, ciphertext } = mechanism("encapsulate")(this.keys.get(args[0]));
      return joined(sharedKey, ciphertext);
    },
    decapsulate: (args, bytes) => mechanism("decapsulate")(this.keys.get(args[0]), bytes[0] ?? NO_BYTES),
    openGroup: (args) => {
      const group = createDiffieHellmanGroup(TextSchema.parse(args[0]));
      if (this.#groups.size >= MAX_GROUPS)
        throw new CryptoError("QuotaExceededError", `${MAX_GROUPS} Diffie-Hellman groups are open already`);
      this.#lastHandle += 1;
      this.#groups.set(this.#lastHandle, group);
      return { handle: this.#lastHandle, prime: group.getPrime("hex"), generator: group.getGenerator("hex") };
    },
    forgetGroups: (args) => {
      for (const handle of z.array(HandleSchema).parse(args[0])) this.#groups.delete(handle);
      return null;
    },
    groupGenerate: (args) => {
      const group = this.#group(args[0]);
      const point = group.generateKeys();
      return joined(group.getPrivateKey(), point);
    },
    groupSecret: (args, bytes) => this.#group(args[0]).computeSecret(bytes[0] ?? NO_BYTES),
    readCertificate: (_args, bytes) => {
      const certificate = certificateOf(bytes);
      const facts = CERTIFICATE_FIELDS.map((name) => [name, (certificate as unknown as Record<string, unknown>)[name]]);
      return {
        ...Object.fromEntries(facts),
        publicKey: this.keys.add(certificate.publicKey),
        raw: certificate.raw.toString("base64"),
      };
    },
    askCertificate: (args, bytes) => {
      const certificate = certificateOf(bytes);
      const [question, subject] = z
        .tuple([z.enum(CERTIFICATE_QUESTIONS), z.union([z.string().max(256), HandleSchema, z.null()])])
        .parse(args);
      switch (question) {
        case "checkIssued":
          return certificate.checkIssued(certificateOf(bytes.slice(1)));
        case "checkPrivateKey":
          return certificate.checkPrivateKey(this.keys.get(subject));
        case "verify":
          return certificate.verify(this.keys.get(subject));
        default:
          return certificate[question](String(subject));
      }
    },
  };
}

const CERTIFICATE_QUESTIONS = [
  "checkEmail",
  "checkHost",
  "checkIP",
  "checkIssued",
  "checkPrivateKey",
  "verify",
] as const;
