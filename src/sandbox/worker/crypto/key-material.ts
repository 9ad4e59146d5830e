// Checks an asymmetric key that a guest imports before OpenSSL reads it. The key itself states how many rounds the derivation from its
// passphrase takes, and OpenSSL would run them on a thread that cannot be stopped.
import { CryptoError } from "./errors.ts";

/** Maximum size of a key or certificate as text. An RSA key of 8192 bits takes 6.3 KiB as PEM; certificates are longer. */
export const MAX_KEY_TEXT_BYTES: number = 32 * 1024;
/** Maximum number of PBKDF2 rounds for a passphrase, as OWASP recommends. They take about 200 ms. */
const MAX_PASSPHRASE_ROUNDS = 600_000;
/** Maximum size of an encrypted key, whose content cannot be checked. An RSA key of 8192 bits takes 4.7 KiB, an ML-DSA-87 key 4.9 KiB. */
export const MAX_ENCRYPTED_KEY_BYTES: number = 5_376;
/**
 * Maximum size of a DSA key. While reading it, OpenSSL computes a power with the private number as exponent, of any size: 15 KiB take 29 s
 * (measured). A key of 3072 bits needs 0.8 KiB.
 */
const MAX_DSA_KEY_BYTES = 2_560;
/** Encoded object identifiers that OpenSSL reads as DSA: 1.2.840.10040.4, 1.3.14.3.2.12, .13 and .27. */
const DSA = ["2a8648ce3804", "2b0e03020c", "2b0e03020d", "2b0e03021b"].map((hex) => Buffer.from(hex, "hex"));
const PEM_BEGIN = /-----BEGIN ([A-Z0-9 ]{1,64})-----\s/g;
const PEM_LABELS = { private: /PRIVATE KEY$/, public: /(?:PUBLIC KEY|PRIVATE KEY|CERTIFICATE)$/ } as const;
/** PEM labels of traditional formats, which OpenSSL reads only as a key of that algorithm. */
const TRADITIONAL = /^(?:RSA|EC|DSA) PRIVATE KEY$/;
/** No two parts match white space: the guest chooses the text, and trying each division is quadratic. */
const BASE64_LINES = /^[A-Za-z0-9+/\s]*={0,2}$/;
const SCRYPT = Uint8Array.of(0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b);
const TAG = { integer: 0x02, objectIdentifier: 0x06, constructed: 0x20, sequence: 0x30 } as const;
const MAX_DEPTH = 16;

const reject = (message: string): never => {
  throw new CryptoError("OperationError", message);
};

interface Element {
  readonly tag: number;
  readonly whole: Uint8Array;
  readonly content: Uint8Array;
}

/** Reads the first DER element of the bytes. Returns undefined if they do not start with one. */
function readElement(bytes: Uint8Array): Element | undefined {
  const [tag, first] = bytes;
  if (tag === undefined || first === undefined) return undefined;
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
  if (lengthBytes > 3 || first === 0x80) return undefined;
  let length = first < 0x80 ? first : 0;
  for (const byte of bytes.subarray(2, 2 + lengthBytes)) length = length * 256 + byte;
  const start = 2 + lengthBytes;
  if (start + length > bytes.length) return undefined;
  return { tag, whole: bytes.subarray(0, start + length), content: bytes.subarray(start, start + length) };
}

function* elementsOf(bytes: Uint8Array, depth = 0): Generator<Element> {
  if (depth > MAX_DEPTH) reject("The key is nested too deeply");
  for (let rest = bytes; rest.length > 0; ) {
    const element = readElement(rest) ?? reject("The key is not DER");
    yield element;
    if ((element.tag & TAG.constructed) !== 0) yield* elementsOf(element.content, depth + 1);
    rest = rest.subarray(element.whole.length);
  }
}

const toNumber = (bytes: Uint8Array): number => bytes.reduce((sum, byte) => sum * 256 + byte, 0);
const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/**
 * Checks an EncryptedPrivateKeyInfo (RFC 5958). No number in its algorithm may exceed the allowed rounds, whatever its meaning. Keys that
 * this parser cannot read are rejected, because OpenSSL accepts more than DER.
 */
function checkEncryptedKey(der: Uint8Array): void {
  const outer = readElement(der);
  const algorithm = outer?.tag === TAG.sequence ? readElement(outer.content) : undefined;
  // An unencrypted key has a version number here.
  if (algorithm?.tag === TAG.integer) return;
  if (algorithm?.tag !== TAG.sequence) reject("The key is not DER");
  else for (const element of elementsOf(algorithm.content)) checkRounds(element);
  if (der.length > MAX_ENCRYPTED_KEY_BYTES)
    reject(`A key with a passphrase must have at most ${MAX_ENCRYPTED_KEY_BYTES} bytes`);
}

function checkRounds({ tag, content }: Element): void {
  if (tag === TAG.objectIdentifier && isSame(content, SCRYPT))
    reject("Keys encrypted with scrypt are not supported in the sandbox. Use PBKDF2");
  if (tag === TAG.integer && toNumber(content) > MAX_PASSPHRASE_ROUNDS)
    reject(`The passphrase of a key must take at most ${MAX_PASSPHRASE_ROUNDS} rounds`);
}

/**
 * Checks a private or public key as DER.
 * @throws {CryptoError} OperationError if reading the key would take OpenSSL too long
 */
export function checkKey(der: Uint8Array, hasPassphrase: boolean): void {
  const isDsa = (): boolean => DSA.some((identifier) => Buffer.from(der).includes(identifier));
  if (der.length > MAX_DSA_KEY_BYTES && isDsa()) reject(`A DSA key must have at most ${MAX_DSA_KEY_BYTES} bytes`);
  // Without a passphrase OpenSSL rejects an encrypted key by itself.
  if (hasPassphrase) checkEncryptedKey(der);
}

function checkPrivateBody(label: string, body: string, hasPassphrase: boolean): void {
  const isTraditional = TRADITIONAL.test(label);
  if (isTraditional && body.includes("Proc-Type")) {
    // PEM encryption derives the key in one round.
    if (body.length * 0.75 > MAX_DSA_KEY_BYTES)
      reject(`A key with PEM encryption must have at most ${MAX_DSA_KEY_BYTES} bytes`);
    return;
  }
  if (!BASE64_LINES.test(body.trimEnd())) reject("The key is not base64");
  checkKey(Buffer.from(body, "base64"), hasPassphrase && !isTraditional);
}

/**
 * Returns only the first PEM block with a key of this kind, so that OpenSSL reads exactly what was checked.
 * @throws {CryptoError} OperationError if there is no such block, or the key is not allowed
 */
export function readPem(bytes: Uint8Array, kind: "private" | "public", hasPassphrase: boolean): string {
  const text = Buffer.from(bytes).toString("latin1");
  for (const { index, 0: begin, 1: label = "" } of text.matchAll(PEM_BEGIN)) {
    const ending = `-----END ${label}-----`;
    const end = PEM_LABELS[kind].test(label) ? text.indexOf(ending, index) : -1;
    if (end < 0) continue;
    const body = text.slice(index + begin.length, end);
    // OpenSSL may treat a nested block as the first one.
    if (body.includes("-----BEGIN")) reject("The PEM block contains another block");
    if (label.endsWith("PRIVATE KEY")) checkPrivateBody(label, body, hasPassphrase);
    return text.slice(index, end + ending.length);
  }
  return reject(`Expected a ${kind} key as PEM, with lines -----BEGIN … and -----END …`);
}
