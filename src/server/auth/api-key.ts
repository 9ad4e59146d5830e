// API keys: 256 random bits as text. The server stores only their SHA-256, which is enough because a random key cannot be guessed.
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

const KEY_BYTES = 32;
const KEY_PATTERN = /^gbx_[A-Za-z0-9_-]{43}$/;
/** Characters of a key that are stored and shown: 8 of 43 random ones. */
const PREFIX_LENGTH = 12;

export interface NewApiKey {
  /** The key. It is shown once and stored nowhere. */
  readonly key: string;
  readonly hash: string;
  readonly prefix: string;
}

export const hashOfKey = (key: string): string => createHash("sha256").update(key).digest("hex");

export function createApiKey(): NewApiKey {
  const key = `gbx_${randomBytes(KEY_BYTES).toString("base64url")}`;
  return { key, hash: hashOfKey(key), prefix: key.slice(0, PREFIX_LENGTH) };
}

export const isApiKey = (text: string): boolean => KEY_PATTERN.test(text);

/** Compares two hashes in constant time. The database compares before, but only hashes, whose prefix tells nothing about the key. */
export const isSameHash = (a: string, b: string): boolean =>
  a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));
