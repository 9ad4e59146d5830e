// Compares the primitives of the guest's node:crypto with Node's own.
import { createCipheriv, createHash, createHmac, hkdfSync, pbkdf2Sync, scryptSync } from "node:crypto";
import { expect, test } from "vitest";
import { loadSandboxArtifacts } from "../../../src/bundler/artifacts/sandbox-artifacts.ts";
import type * as Native from "../../../src/sandbox/guest/platform/crypto/crypto-native.ts";
import type { PlatformModuleName } from "../../../src/sandbox/protocol/platform-modules.ts";
import { createEngine } from "../../../src/sandbox/worker/isolate/engine.ts";
import { bundleCode, GuestTool } from "../../support/guest.ts";
import { loadCrypto } from "../../support/load-crypto.ts";

/** The platform module is not a global, so it is loaded instead of `URL`. */
const EXPOSE = `(function (require) { return { URL: require("crypto-native"), URLSearchParams: undefined }; })`;

async function withNative<Output>(run: (native: typeof Native) => Output | Promise<Output>): Promise<Output> {
  const { preludeSource, readPlatformModule } = await loadSandboxArtifacts();
  const engine = createEngine({
    preludeSource,
    loadCrypto,
    preludeCache: new Uint8Array(0),
    readPlatformModule: (name: PlatformModuleName) => (name === "url" ? EXPOSE : readPlatformModule(name)),
  });
  const code = bundleCode(`{ default: () => (${run})(URL) }`);
  await using tool = new GuestTool({ engine, code, settings: {} });
  await tool.load();
  const { outcome, text, value } = await tool.call<Output>();
  if (outcome !== "output") throw new Error(`Expected an output, got ${outcome}: ${text}`);
  return value;
}

test("openHash() and openHmac() return the digests of Node, in pieces and at once", async () => {
  const made = await withNative(({ openHash, openHmac }) => {
    const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    const once = openHash("sha256");
    once.update(new Uint8Array(100).fill(1));
    const long = openHash("sha512");
    for (let index = 0; index < 20; index += 1) long.update(new Uint8Array(300_000).fill(index));
    const copied = openHash("MD5");
    copied.update(new Uint8Array(5));
    const copy = copied.copy();
    copied.update(new Uint8Array(5));
    const hmac = openHmac("sha1", new Uint8Array(10).fill(2));
    hmac.update(new Uint8Array(2_000_000));
    const shake = openHash("shake256", { outputLength: 50 });
    return [once, long, copied, copy, hmac, shake].map((hash) => hex(hash.digest()));
  });
  const long = createHash("sha512");
  for (let index = 0; index < 20; index += 1) long.update(new Uint8Array(300_000).fill(index));
  expect(made).toEqual([
    createHash("sha256").update(new Uint8Array(100).fill(1)).digest("hex"),
    long.digest("hex"),
    createHash("md5").update(new Uint8Array(10)).digest("hex"),
    createHash("md5").update(new Uint8Array(5)).digest("hex"),
    createHmac("sha1", new Uint8Array(10).fill(2)).update(new Uint8Array(2_000_000)).digest("hex"),
    createHash("shake256", { outputLength: 50 }).digest("hex"),
  ]);
});

test("openCipher() encrypts as Node does, and decrypts authentic data", async () => {
  const made = await withNative(({ openCipher }) => {
    const parts = { key: new Uint8Array(32).fill(1), iv: new Uint8Array(12).fill(2), algorithm: "aes-256-gcm" };
    const cipher = openCipher({ ...parts, decrypt: false });
    cipher.setAAD(new Uint8Array(3));
    const sealed = cipher.update(new Uint8Array(3_000_000).fill(7));
    const end = cipher.final();
    const tag = cipher.getAuthTag();
    const open = (lie: number): string => {
      const decipher = openCipher({ ...parts, decrypt: true });
      decipher.setAAD(new Uint8Array(3));
      decipher.setAuthTag(tag.map((byte) => byte ^ lie));
      try {
        const opened = decipher.update(sealed);
        decipher.final();
        return `${opened.length} of ${opened[2_999_999]}`;
      } catch (error) {
        return (error as Error).message;
      }
    };
    return { tag: [...tag], end: end.length, sealed: [...sealed.slice(-4)], right: open(0), wrong: open(1) };
  });
  const cipher = createCipheriv("aes-256-gcm", new Uint8Array(32).fill(1), new Uint8Array(12).fill(2));
  cipher.setAAD(new Uint8Array(3));
  const sealed = cipher.update(new Uint8Array(3_000_000).fill(7));
  cipher.final();
  expect(made).toMatchObject({ tag: [...cipher.getAuthTag()], end: 0, sealed: [...sealed.subarray(-4)] });
  expect(made.right).toBe("3000000 of 7");
  expect(made.wrong).toMatch(/authenticate/);
});

test("pbkdf2(), scrypt() and hkdf() derive the same keys as Node", async () => {
  const made = await withNative(async ({ pbkdf2, scrypt, hkdf }) => {
    const [password, salt] = [new Uint8Array(6).fill(4), new Uint8Array(8).fill(5)];
    return [
      await pbkdf2({ password, salt, iterations: 5_000, length: 70, digest: "sha512" }),
      await scrypt({ password, salt, length: 64, N: 16_384, r: 8, p: 1 }),
      hkdf({ digest: "sha256", key: password, salt, info: new Uint8Array(0), length: 42 }),
    ].map((bytes) => Array.from(bytes));
  });
  const [password, salt] = [new Uint8Array(6).fill(4), new Uint8Array(8).fill(5)];
  expect(made).toEqual(
    [
      pbkdf2Sync(password, salt, 5_000, 70, "sha512"),
      scryptSync(password, salt, 64, { N: 16_384, r: 8, p: 1 }),
      new Uint8Array(hkdfSync("sha256", password, salt, new Uint8Array(0), 42)),
    ].map((bytes) => [...bytes]),
  );
});

test("pbkdf2Sync() and scryptSync() derive the same without the worker", async () => {
  const made = await withNative(({ pbkdf2Sync, scryptSync }) => {
    const [password, salt] = [new Uint8Array(6).fill(4), new Uint8Array(8).fill(5)];
    return [
      pbkdf2Sync({ password, salt, iterations: 2_000, length: 70, digest: "sha512" }),
      pbkdf2Sync({ password, salt, iterations: 2_000, length: 20, digest: "SHA-1" }),
      pbkdf2Sync({ password, salt, iterations: 50, length: 20, digest: "sha3-256" }),
      scryptSync({ password, salt, length: 64, N: 1_024, r: 8, p: 2 }),
    ].map((bytes) => Array.from(bytes));
  });
  const [password, salt] = [new Uint8Array(6).fill(4), new Uint8Array(8).fill(5)];
  expect(made).toEqual(
    [
      pbkdf2Sync(password, salt, 2_000, 70, "sha512"),
      pbkdf2Sync(password, salt, 2_000, 20, "sha1"),
      pbkdf2Sync(password, salt, 50, 20, "sha3-256"),
      scryptSync(password, salt, 64, { N: 1_024, r: 8, p: 2 }),
    ].map((bytes) => [...bytes]),
  );
});

test("randomInt(), randomBytes() and timingSafeEqual() work", async () => {
  const made = await withNative(({ randomInt, randomBytes, timingSafeEqual }) => {
    const counts = [0, 0, 0];
    for (let index = 0; index < 3_000; index += 1) counts[randomInt(5, 8) - 5] = (counts[randomInt(5, 8) - 5] ?? 0) + 1;
    const [a, b] = [Uint8Array.of(1, 2), Uint8Array.of(1, 3)];
    return { counts, bytes: randomBytes(100_000).length, equal: [timingSafeEqual(a, a), timingSafeEqual(a, b)] };
  });
  for (const count of made.counts) expect(count).toBeGreaterThan(500);
  expect(made).toMatchObject({ bytes: 100_000, equal: [true, false] });
});

test("invalid arguments are rejected with Node's errors and codes", async () => {
  const errors = await withNative(async ({ openHash, openCipher, openHmac, pbkdf2, scrypt }) => {
    const few = new Uint8Array(3);
    const attempts: (() => unknown)[] = [
      () => openHash("sha-none"),
      () => openHmac("sha-none", few),
      () => openCipher({ algorithm: "aes-128-cbc", key: few, iv: few, decrypt: false }),
      () => openCipher({ algorithm: "camellia-128-cbc", key: few, iv: few, decrypt: false }),
      () => pbkdf2({ password: few, salt: few, iterations: 2e9, length: 32, digest: "sha256" }),
      () => scrypt({ password: few, salt: few, length: 32, N: 2 ** 20, r: 8, p: 1 }),
      () => {
        const hash = openHash("sha1");
        hash.digest();
        hash.update(few);
      },
    ];
    const seen: string[] = [];
    for (const attempt of attempts) {
      try {
        await attempt();
        seen.push("It has worked");
      } catch (error) {
        seen.push(`${(error as Error).name} ${(error as { code?: string }).code}`);
      }
    }
    return seen;
  });
  expect(errors).toEqual([
    "Error undefined",
    "TypeError ERR_CRYPTO_INVALID_DIGEST",
    "TypeError ERR_CRYPTO_INVALID_IV",
    "Error ERR_CRYPTO_UNKNOWN_CIPHER",
    "Error undefined",
    "Error undefined",
    "Error ERR_CRYPTO_HASH_FINALIZED",
  ]);
});
