// What a guest gives as an asymmetric key, looked at before OpenSSL is: a passphrase is stretched by as many rounds as the key itself says,
// in a thread that nothing stops.
import { CryptoRefusal } from "./refusal.ts";

/** An RSA key of 8192 bits takes 6.3 KiB as PEM; certificates are longer. */
export const MAX_KEY_TEXT_BYTES: number = 32 * 1024;
/** OWASP asks for 600,000 of PBKDF2; some 200 ms. */
const MAX_PASSPHRASE_ROUNDS = 600_000;
/** What is in it is seen only by OpenSSL. An RSA key of 8192 bits takes 4.7 KiB, one of ML-DSA-87 4.9. */
export const MAX_ENCRYPTED_KEY_BYTES: number = 5_376;
/** OpenSSL raises to DSA's private number as it reads it, of whatever size: one of 15 KiB takes it 29 s [m], of 3072 bits 0.8 KiB are enough. */
const MAX_DSA_KEY_BYTES = 2_560;
/** Contents of the object identifiers that OpenSSL takes for DSA's: 1.2.840.10040.4, 1.3.14.3.2.12, .13 and .27. */
const DSA = ["2a8648ce3804", "2b0e03020c", "2b0e03020d", "2b0e03021b"].map((hex) => Buffer.from(hex, "hex"));
const PEM_BEGIN = /-----BEGIN ([A-Z0-9 ]{1,64})-----\s/g;
const PEM_LABELS = { private: /PRIVATE KEY$/, public: /(?:PUBLIC KEY|PRIVATE KEY|CERTIFICATE)$/ } as const;
/** Of one algorithm, which OpenSSL reads as nothing else. */
const TRADITIONAL = /^(?:RSA|EC|DSA) PRIVATE KEY$/;
const BASE64_LINES = /^[A-Za-z0-9+/\s]*={0,2}\s*$/;
const SCRYPT = Uint8Array.of(0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b);
const TAG = { integer: 0x02, objectIdentifier: 0x06, constructed: 0x20, sequence: 0x30 } as const;
const MAX_DEPTH = 16;

const refuse = (message: string): never => {
  throw new CryptoRefusal("OperationError", message);
};

interface Element {
  readonly tag: number;
  readonly whole: Uint8Array;
  readonly content: Uint8Array;
}

/** One element of DER at the beginning; undefined where there is none. */
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
  if (depth > MAX_DEPTH) refuse("The key is nested too deeply");
  for (let rest = bytes; rest.length > 0; ) {
    const element = readElement(rest) ?? refuse("The key is not DER");
    yield element;
    if ((element.tag & TAG.constructed) !== 0) yield* elementsOf(element.content, depth + 1);
    rest = rest.subarray(element.whole.length);
  }
}

const toNumber = (bytes: Uint8Array): number => bytes.reduce((sum, byte) => sum * 256 + byte, 0);
const isSame = (a: Uint8Array, b: Uint8Array): boolean => Buffer.compare(a, b) === 0;

/**
 * EncryptedPrivateKeyInfo (RFC 5958): of its algorithm no number may be more than the rounds allowed, whichever it stands for. What cannot
 * be read here is not given to OpenSSL, which reads more than DER.
 */
function checkEncryptedKey(der: Uint8Array): void {
  const outer = readElement(der);
  const algorithm = outer?.tag === TAG.sequence ? readElement(outer.content) : undefined;
  // Not encrypted: a version stands there.
  if (algorithm?.tag === TAG.integer) return;
  if (algorithm?.tag !== TAG.sequence) refuse("The key is not DER");
  else for (const element of elementsOf(algorithm.content)) checkRounds(element);
  if (der.length > MAX_ENCRYPTED_KEY_BYTES)
    refuse(`A key with a passphrase may have ${MAX_ENCRYPTED_KEY_BYTES} bytes at most here`);
}

function checkRounds({ tag, content }: Element): void {
  if (tag === TAG.objectIdentifier && isSame(content, SCRYPT))
    refuse("Keys under scrypt are not read here: use PBKDF2");
  if (tag === TAG.integer && toNumber(content) > MAX_PASSPHRASE_ROUNDS)
    refuse(`A key's passphrase may take ${MAX_PASSPHRASE_ROUNDS} rounds at most here`);
}

/**
 * A key as DER, private or public, before OpenSSL reads it.
 * @throws {CryptoRefusal} OperationError for what would take it too long
 */
export function checkKey(der: Uint8Array, hasPassphrase: boolean): void {
  const isDsa = (): boolean => DSA.some((identifier) => Buffer.from(der).includes(identifier));
  if (der.length > MAX_DSA_KEY_BYTES && isDsa()) refuse(`A DSA key may have ${MAX_DSA_KEY_BYTES} bytes at most here`);
  // Without one OpenSSL gives up by itself.
  if (hasPassphrase) checkEncryptedKey(der);
}

function checkPrivateBody(label: string, body: string, hasPassphrase: boolean): void {
  const isTraditional = TRADITIONAL.test(label);
  if (isTraditional && body.includes("Proc-Type")) {
    // Encrypted as a whole, by one round.
    if (body.length * 0.75 > MAX_DSA_KEY_BYTES)
      refuse(`A key encrypted as PEM may have ${MAX_DSA_KEY_BYTES} bytes here`);
    return;
  }
  if (!BASE64_LINES.test(body)) refuse("The key is not base64");
  checkKey(Buffer.from(body, "base64"), hasPassphrase && !isTraditional);
}

/**
 * The first block that holds such a key, and nothing else: what was looked at is what is read.
 * @throws {CryptoRefusal}
 */
export function readPem(bytes: Uint8Array, kind: "private" | "public", hasPassphrase: boolean): string {
  const text = Buffer.from(bytes).toString("latin1");
  for (const { index, 0: begin, 1: label = "" } of text.matchAll(PEM_BEGIN)) {
    const ending = `-----END ${label}-----`;
    const end = PEM_LABELS[kind].test(label) ? text.indexOf(ending, index) : -1;
    if (end < 0) continue;
    const body = text.slice(index + begin.length, end);
    // OpenSSL may take another block's beginning for the first.
    if (body.includes("-----BEGIN")) refuse("A key as PEM holds another one");
    if (label.endsWith("PRIVATE KEY")) checkPrivateBody(label, body, hasPassphrase);
    return text.slice(index, end + ending.length);
  }
  return refuse(`There is no ${kind} key as PEM: expected -----BEGIN … and -----END …`);
}
