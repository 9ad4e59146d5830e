// What a guest gives as an asymmetric key, looked at before OpenSSL is: a passphrase is stretched by as many rounds as the key itself says,
// in a thread that nothing stops.
import { CryptoRefusal } from "./refusal.ts";

/** An RSA key of 8192 bits takes 6.3 KiB as PEM; certificates are longer. */
export const MAX_KEY_TEXT_BYTES: number = 32 * 1024;
/** OWASP asks for 600,000 of PBKDF2; some 200 ms. */
const MAX_PASSPHRASE_ROUNDS = 600_000;
const PEM_BEGIN = /-----BEGIN ([A-Z0-9 ]{1,64})-----\s/g;
const PEM_LABELS = { private: /PRIVATE KEY$/, public: /(?:PUBLIC KEY|PRIVATE KEY|CERTIFICATE)$/ } as const;
const SCRYPT = Uint8Array.of(0x06, 0x09, 0x2b, 0x06, 0x01, 0x04, 0x01, 0xda, 0x47, 0x04, 0x0b);
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
 * EncryptedPrivateKeyInfo (RFC 5958): of its algorithm no number may be more than the rounds allowed, whichever it stands for.
 * @throws {CryptoRefusal}
 */
export function checkEncryptedKey(der: Uint8Array): void {
  const outer = readElement(der);
  const algorithm = outer?.tag === TAG.sequence ? readElement(outer.content) : undefined;
  // Not encrypted: a version stands there.
  if (algorithm === undefined || algorithm.tag !== TAG.sequence) return;
  for (const { tag, whole, content } of elementsOf(algorithm.content)) {
    if (tag === TAG.objectIdentifier && isSame(whole, SCRYPT))
      refuse("Keys under scrypt are not read here: use PBKDF2");
    if (tag === TAG.integer && toNumber(content) > MAX_PASSPHRASE_ROUNDS) {
      refuse(`A key's passphrase may take ${MAX_PASSPHRASE_ROUNDS} rounds at most here`);
    }
  }
}

/**
 * The first block that holds such a key, and nothing else: what was looked at is what is read.
 * @throws {CryptoRefusal}
 */
export function readPem(bytes: Uint8Array, kind: "private" | "public"): string {
  const text = Buffer.from(bytes).toString("latin1");
  for (const { index, 0: begin, 1: label = "" } of text.matchAll(PEM_BEGIN)) {
    const ending = `-----END ${label}-----`;
    const end = PEM_LABELS[kind].test(label) ? text.indexOf(ending, index) : -1;
    if (end < 0) continue;
    if (label === "ENCRYPTED PRIVATE KEY") {
      checkEncryptedKey(Buffer.from(text.slice(index + begin.length, end), "base64"));
    }
    return text.slice(index, end + ending.length);
  }
  return refuse(`There is no ${kind} key as PEM: expected -----BEGIN … and -----END …`);
}
