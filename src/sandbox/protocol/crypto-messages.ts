// Protocol between the guest's cryptography modules and the worker: methods, their arguments, and the members of algorithm dictionaries.
// Data only, without imports: this file is bundled into the guest's platform modules and into the worker.

/**
 * Kind of an argument, which determines its encoding: text, numbers and booleans are JSON values, bytes an index into the attached
 * buffers, a key its handle.
 */
export type ArgumentKind =
  | "algorithm"
  | "bytes"
  | "key"
  | "boolean"
  | "usages"
  | "format"
  | "length"
  | "keyData"
  | "text"
  | "lengthOrAlgorithm";

/** Operation that an algorithm is used for (Web Cryptography API, "Algorithm Normalization"). */
export type Operation =
  | "decrypt"
  | "deriveBits"
  | "digest"
  | "encrypt"
  | "generateKey"
  | "getKeyLength"
  | "importKey"
  | "sign"
  | "verify";

export interface Argument {
  readonly kind: ArgumentKind;
  /** For an algorithm: the operations whose parameters are read. */
  readonly operations: readonly Operation[];
}

const argument = (kind: ArgumentKind, ...operations: readonly Operation[]): Argument => ({ kind, operations });
const algorithm = (...operations: readonly Operation[]): Argument => argument("algorithm", ...operations);
const BYTES = argument("bytes");
const KEY = argument("key");
const EXTRACTABLE = argument("boolean");
const USAGES = argument("usages");
const FORMAT = argument("format");

/** Arguments of the methods of SubtleCrypto. A wrapping algorithm takes the parameters of `encrypt`, or none. */
export const SUBTLE_METHODS = {
  encrypt: [algorithm("encrypt"), KEY, BYTES],
  decrypt: [algorithm("decrypt"), KEY, BYTES],
  sign: [algorithm("sign"), KEY, BYTES],
  verify: [algorithm("verify"), KEY, BYTES, BYTES],
  digest: [algorithm("digest"), BYTES],
  generateKey: [algorithm("generateKey"), EXTRACTABLE, USAGES],
  deriveKey: [algorithm("deriveBits"), KEY, algorithm("importKey", "getKeyLength"), EXTRACTABLE, USAGES],
  deriveBits: [algorithm("deriveBits"), KEY, argument("length")],
  importKey: [FORMAT, argument("keyData"), algorithm("importKey"), EXTRACTABLE, USAGES],
  exportKey: [FORMAT, KEY],
  wrapKey: [FORMAT, KEY, KEY, algorithm("encrypt")],
  unwrapKey: [FORMAT, BYTES, KEY, algorithm("decrypt"), algorithm("importKey"), EXTRACTABLE, USAGES],
  getPublicKey: [KEY, USAGES],
  encapsulateBits: [algorithm(), KEY],
  encapsulateKey: [algorithm(), KEY, algorithm("importKey"), EXTRACTABLE, USAGES],
  decapsulateBits: [algorithm(), KEY, BYTES],
  decapsulateKey: [algorithm(), KEY, BYTES, algorithm("importKey"), EXTRACTABLE, USAGES],
} as const satisfies { readonly [method: string]: readonly Argument[] };
export type SubtleMethod = keyof typeof SUBTLE_METHODS;

/** Operations for which the third argument of `SubtleCrypto.supports()` is an algorithm. For the others it is a length. */
export const SUPPORTS_WITH_ALGORITHM: readonly string[] = [
  "deriveKey",
  "wrapKey",
  "unwrapKey",
  "encapsulateKey",
  "decapsulateKey",
];

/** Type of a member of an algorithm dictionary. */
export type MemberKind = "text" | "number" | "bytes" | "integer" | "hash" | "key";

export const MEMBERS: { readonly [member: string]: MemberKind } = {
  __proto__: null as never,
  additionalData: "bytes",
  associatedData: "bytes",
  context: "bytes",
  counter: "bytes",
  customization: "bytes",
  domainSeparation: "number",
  functionName: "bytes",
  hash: "hash",
  info: "bytes",
  iterations: "number",
  iv: "bytes",
  label: "bytes",
  length: "number",
  memory: "number",
  modulusLength: "number",
  name: "text",
  namedCurve: "text",
  nonce: "bytes",
  outputLength: "number",
  parallelism: "number",
  passes: "number",
  public: "key",
  publicExponent: "integer",
  salt: "bytes",
  saltLength: "number",
  secretValue: "bytes",
  tagLength: "number",
  version: "number",
};

const AES = "AES-(?:CBC|CTR|GCM|KW|OCB)";
const RSA = "RSA-(?:OAEP|PSS)|RSASSA-PKCS1-V1_5";
const EDWARDS_OR_LATTICE = "ED448|ML-DSA-(?:44|65|87)";
const AEAD = "AES-(?:GCM|OCB)|CHACHA20-POLY1305";
/** A dictionary: a pattern for the algorithms' names in upper case, and its members in the order in which they are read. */
type Row = readonly [names: string, ...members: readonly string[]];

const IMPORT: readonly Row[] = [
  [`${RSA}|HMAC`, "hash"],
  ["ECDSA|ECDH", "namedCurve"],
  ["HMAC|KMAC(?:128|256)", "length"],
];
const SIGN: readonly Row[] = [
  ["ECDSA", "hash"],
  ["RSA-PSS", "saltLength"],
  [EDWARDS_OR_LATTICE, "context"],
  ["KMAC(?:128|256)", "customization", "outputLength"],
];
const ENCRYPT: readonly Row[] = [
  ["AES-CBC", "iv"],
  ["AES-CTR", "counter", "length"],
  [AEAD, "additionalData", "iv", "tagLength"],
  ["RSA-OAEP", "label"],
];

export const PARAMETERS: { readonly [Name in Operation]: readonly Row[] } = {
  encrypt: ENCRYPT,
  decrypt: ENCRYPT,
  sign: SIGN,
  verify: SIGN,
  importKey: IMPORT,
  digest: [
    ["CSHAKE(?:128|256)", "customization", "functionName", "outputLength"],
    ["KT(?:128|256)", "customization", "outputLength"],
    ["TURBOSHAKE(?:128|256)", "domainSeparation", "outputLength"],
  ],
  generateKey: [
    [RSA, "modulusLength", "publicExponent", "hash"],
    ["ECDSA|ECDH", "namedCurve"],
    ["HMAC", "hash", "length"],
    [`${AES}|KMAC(?:128|256)`, "length"],
  ],
  getKeyLength: [
    ["HMAC", "hash"],
    [`${AES}|HMAC|KMAC(?:128|256)`, "length"],
  ],
  deriveBits: [
    ["ECDH|X25519|X448", "public"],
    ["HKDF", "hash", "info", "salt"],
    ["PBKDF2", "hash", "iterations", "salt"],
    ["ARGON2(?:D|I|ID)", "associatedData", "memory", "nonce", "parallelism", "passes", "secretValue", "version"],
  ],
};

/** Text members of the dictionary JsonWebKey (RFC 7517), in the order of the Web Cryptography API. */
export const JWK_TEXTS: readonly string[] = [
  "kty",
  "use",
  "alg",
  "crv",
  "x",
  "y",
  "d",
  "n",
  "e",
  "p",
  "q",
  "dp",
  "dq",
  "qi",
  "k",
  "pub",
  "priv",
];
export const JWK_PRIME_TEXTS: readonly string[] = ["r", "d", "t"];

/** Metadata of a key, as the guest sees it. The key material stays in the worker. */
export interface KeyMetadata {
  readonly handle: number;
  readonly type: string;
  readonly extractable: boolean;
  /** Contains `publicExponent` as a list of bytes. */
  readonly algorithm: { readonly [member: string]: unknown };
  readonly usages: readonly string[];
}

/** Metadata of an asymmetric key of node:crypto, as the guest sees it. */
export interface KeyObjectMetadata {
  readonly handle: number;
  readonly type: "public" | "private";
  readonly asymmetricKeyType: string | undefined;
  /** Contains `publicExponent` as decimal digits. */
  readonly details: { readonly [name: string]: unknown };
}

/** Result of a job, without its buffers. Failures are values because the worker never throws into a guest. */
export type JobAnswer =
  | { readonly ok: true; readonly type: "bytes" }
  | { readonly ok: true; readonly type: "value"; readonly value: unknown }
  | { readonly ok: true; readonly type: "key"; readonly key: KeyMetadata }
  | { readonly ok: true; readonly type: "pair"; readonly publicKey: KeyMetadata; readonly privateKey: KeyMetadata }
  /** The ciphertext is the first buffer. The shared key is the second buffer, or `sharedKey` if it is defined. */
  | { readonly ok: true; readonly type: "encapsulated"; readonly sharedKey: KeyMetadata | undefined }
  | Failure;

/** `name` is the name of a DOMException, `TypeError` or `Error`. `code` is set for functions of node:crypto. */
export interface Failure {
  readonly ok: false;
  readonly name: string;
  readonly message: string;
  readonly code?: string;
}

/** Maximum number of bytes to process in one step on the worker's main thread. Hashing 1 MiB takes one to three milliseconds. */
export const MAX_PIECE_BYTES: number = 1024 * 1024;
/** Maximum number of bytes in all buffers of one job: the same as for one buffer of a request. */
export const MAX_JOB_BYTES: number = 8 * 1024 * 1024;
/** Maximum number of jobs of one isolate that the worker runs at the same time. Further jobs wait in the guest and count towards its memory. */
export const MAX_JOBS = 8;
export const MAX_WAITING_BYTES: number = 2 * MAX_JOB_BYTES;
export const MAX_REQUEST_LENGTH: number = 128 * 1024;
/** Maximum number of random bytes in one request. */
export const MAX_RANDOM_BYTES = 65_536;
