// Tests crypto in a guest: it returns what Node returns, including errors, and keys stay in the worker.
import { createHash, type webcrypto } from "node:crypto";
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest, openGuest, runGuest } from "../../support/guest.ts";

type CryptoKeyPair = webcrypto.CryptoKeyPair;

/** Runs in the guest and in Node. It must not use anything from its scope. */
const roundTrips: { readonly [name: string]: () => Promise<unknown> } = {
  "digests as Node does": async () => {
    const bytes = new TextEncoder().encode("Glovebox");
    const made: string[] = [];
    for (const name of ["SHA-1", "sha-256", "SHA-384", "SHA-512", "SHA3-256"]) {
      made.push(String(new Uint8Array(await crypto.subtle.digest(name, bytes))));
    }
    return made;
  },
  "signs and verifies with HMAC": async () => {
    const { subtle } = crypto;
    const algorithm = { name: "HMAC", hash: "SHA-256" };
    const key = await subtle.importKey("raw", new Uint8Array(32).fill(7), algorithm, true, ["sign", "verify"]);
    const signature = await subtle.sign("HMAC", key, new Uint8Array(100));
    const isRight = await subtle.verify("HMAC", key, signature, new Uint8Array(100));
    const isWrong = await subtle.verify("HMAC", key, signature, new Uint8Array(99));
    const jwk = await subtle.exportKey("jwk", key);
    return [String(new Uint8Array(signature)), isRight, isWrong, jwk, key.algorithm, key.usages, key.type];
  },
  "encrypts with AES in every mode": async () => {
    const { subtle } = crypto;
    const made: string[] = [];
    const iv = new Uint8Array(16).fill(1);
    for (const [name, parameters] of [
      ["AES-CBC", { iv }],
      ["AES-CTR", { counter: iv, length: 64 }],
      ["AES-GCM", { iv, additionalData: new Uint8Array(5), tagLength: 96 }],
    ] as const) {
      const key = await subtle.importKey("raw", new Uint8Array(32), name, false, ["encrypt", "decrypt"]);
      const sealed = await subtle.encrypt({ name, ...parameters } as never, key, new Uint8Array(40).fill(3));
      const opened = await subtle.decrypt({ name, ...parameters } as never, key, sealed);
      made.push(String(new Uint8Array(sealed)), String(new Uint8Array(opened)));
    }
    return made;
  },
  "derives with PBKDF2, HKDF, ECDH and X25519": async () => {
    const { subtle } = crypto;
    const made: unknown[] = [];
    const salt = new Uint8Array(8);
    for (const [name, parameters] of [
      ["PBKDF2", { hash: "SHA-256", salt, iterations: 1_000 }],
      ["HKDF", { hash: "SHA-512", salt, info: salt }],
    ] as const) {
      const key = await subtle.importKey("raw", new Uint8Array(9), name, false, ["deriveBits", "deriveKey"]);
      made.push(String(new Uint8Array(await subtle.deriveBits({ name, ...parameters } as never, key, 256))));
      const aes = { name: "AES-KW", length: 128 };
      const derived = await subtle.deriveKey({ name, ...parameters } as never, key, aes, true, ["wrapKey"]);
      made.push(await subtle.exportKey("jwk", derived));
    }
    for (const algorithm of [{ name: "ECDH", namedCurve: "P-521" }, { name: "X25519" }]) {
      const ours = (await subtle.generateKey(algorithm, true, ["deriveBits"])) as CryptoKeyPair;
      const theirs = (await subtle.generateKey(algorithm, true, ["deriveBits"])) as CryptoKeyPair;
      const derive = async (mine: CryptoKeyPair, other: CryptoKeyPair): Promise<string> => {
        const parameters = { name: algorithm.name, public: other.publicKey };
        return String(new Uint8Array(await subtle.deriveBits(parameters, mine.privateKey, 256)));
      };
      made.push((await derive(ours, theirs)) === (await derive(theirs, ours)));
    }
    return made;
  },
  "signs with each kind of key pair, and moves keys in every format": async () => {
    const { subtle } = crypto;
    const made: unknown[] = [];
    const rsa = { modulusLength: 2048, publicExponent: new Uint8Array([1, 0, 1]), hash: "SHA-256" };
    for (const [generate, sign] of [
      [{ name: "RSASSA-PKCS1-v1_5", ...rsa }, "RSASSA-PKCS1-v1_5"],
      [
        { name: "RSA-PSS", ...rsa },
        { name: "RSA-PSS", saltLength: 32 },
      ],
      [
        { name: "ECDSA", namedCurve: "P-384" },
        { name: "ECDSA", hash: "SHA-384" },
      ],
      [{ name: "Ed25519" }, "Ed25519"],
    ] as const) {
      const pair = (await subtle.generateKey(generate as never, true, ["sign", "verify"])) as CryptoKeyPair;
      const { publicKey, privateKey } = pair;
      const pkcs8 = await subtle.exportKey("pkcs8", privateKey);
      const again = await subtle.importKey("pkcs8", pkcs8, generate as never, false, ["sign"]);
      const spki = await subtle.importKey("spki", await subtle.exportKey("spki", publicKey), generate as never, true, [
        "verify",
      ]);
      const jwk = await subtle.exportKey("jwk", spki);
      const known = await subtle.importKey("jwk", jwk, generate as never, true, ["verify"]);
      const signature = await subtle.sign(sign, again, new Uint8Array(10));
      made.push(await subtle.verify(sign, known, signature, new Uint8Array(10)), Object.keys(jwk), known.algorithm);
    }
    return made;
  },
  "wraps and unwraps keys": async () => {
    const { subtle } = crypto;
    const wrapping = await subtle.importKey("raw", new Uint8Array(16), "AES-KW", false, ["wrapKey", "unwrapKey"]);
    const secret = await subtle.importKey("raw", new Uint8Array(24).fill(9), "AES-CBC", true, ["encrypt"]);
    const wrapped = await subtle.wrapKey("raw", secret, wrapping, "AES-KW");
    const back = await subtle.unwrapKey("raw", wrapped, wrapping, "AES-KW", "AES-CBC", true, ["encrypt"]);
    return [String(new Uint8Array(wrapped)), await subtle.exportKey("jwk", back)];
  },
  "clones keys": async () => {
    const { subtle } = crypto;
    const key = await subtle.importKey("raw", new Uint8Array(16), "AES-CTR", true, ["encrypt"]);
    const { copy } = structuredClone({ copy: key });
    return [copy !== key, copy instanceof CryptoKey, await subtle.exportKey("jwk", copy)];
  },
  "names what is wrong as the standard does": async () => {
    const { subtle } = crypto;
    const key = await subtle.importKey("raw", new Uint8Array(16), "AES-GCM", false, ["encrypt"]);
    const iv = new Uint8Array(12);
    const attempts: (() => Promise<unknown>)[] = [
      () => subtle.digest("SHA-99", iv),
      () => subtle.digest("SHA-256", "text" as never),
      () => subtle.exportKey("raw", key),
      () => subtle.decrypt({ name: "AES-GCM", iv }, key, iv),
      () => subtle.encrypt({ name: "AES-GCM" } as never, key, iv),
      () => subtle.encrypt({ name: "AES-CBC", iv: new Uint8Array(16) }, key, iv),
      () => subtle.encrypt({ name: "AES-GCM", iv, tagLength: 3 }, key, iv),
      () => subtle.importKey("raw", new Uint8Array(3), "AES-GCM", false, ["encrypt"]),
      () => subtle.importKey("raw", new Uint8Array(16), "AES-GCM", false, ["sign"]),
      () => subtle.importKey("raw", new Uint8Array(16), "AES-GCM", false, ["nothing" as never]),
      () => subtle.importKey("jwk", { kty: "oct" }, "AES-GCM", false, ["encrypt"]),
      () => subtle.importKey("none" as never, iv, "AES-GCM", false, []),
      () => subtle.generateKey({ name: "AES-GCM", length: 100 }, false, ["encrypt"]),
      () => subtle.generateKey({ name: "AES-GCM", length: 128 }, false, []),
      () => subtle.sign("HMAC", {} as never, iv),
      () => (subtle.digest as (name: string) => Promise<unknown>)("SHA-1"),
    ];
    const names: unknown[] = [];
    for (const attempt of attempts) {
      const error: Error = await attempt().then(
        () => new Error("It has worked"),
        (thrown) => thrown,
      );
      names.push([error.name, error instanceof DOMException, error instanceof TypeError]);
    }
    return names;
  },
};

describe("crypto.subtle", () => {
  for (const [name, run] of Object.entries(roundTrips)) test(name, () => expectLikeNode(run, undefined));

  test("copies bytes after reading the algorithm, so that later changes have no effect", async () => {
    const digests = await inGuest(async () => {
      const bytes = new Uint8Array(4);
      const algorithm = {
        get name(): string {
          bytes[0] = 1;
          return "SHA-1";
        },
      };
      const made = crypto.subtle.digest(algorithm, bytes);
      bytes.fill(9);
      bytes.buffer.transfer();
      return [await made, await crypto.subtle.digest("SHA-1", Uint8Array.of(1, 0, 0, 0))].map((digest) =>
        String(new Uint8Array(digest)),
      );
    });
    expect(digests[0]).toBe(digests[1]);
  });

  test("digests more data than the limit of one operation", async () => {
    const digest = await inGuest(async () => {
      const made = await crypto.subtle.digest("sha-512", new Uint8Array(20 * 2 ** 20).fill(3));
      return Array.from(new Uint8Array(made));
    });
    expect(digest).toEqual([
      ...createHash("sha512")
        .update(new Uint8Array(20 * 2 ** 20).fill(3))
        .digest(),
    ]);
  });

  test("accepts thousands of concurrent operations", async () => {
    const sum = await inGuest(async () => {
      const made = Array.from({ length: 3_000 }, (_, index) => crypto.subtle.digest("SHA-256", new Uint8Array(index)));
      return (await Promise.all(made)).reduce((bytes, { byteLength }) => bytes + byteLength, 0);
    });
    expect(sum).toBe(3_000 * 32);
  });

  test("accepts the largest operations concurrently, and rejects larger ones", async () => {
    const made = await runGuest(
      async () => {
        const { subtle } = crypto;
        const key = await subtle.importKey("raw", new Uint8Array(16), "AES-GCM", false, ["encrypt"]);
        const seal = (size: number): Promise<ArrayBuffer> =>
          subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, key, new Uint8Array(size));
        const largest = 8 * 2 ** 20 - 12;
        const sealed = await Promise.all([1, 2, 3, 4, 5].map(() => seal(largest)));
        const rejected = await seal(largest + 1).catch((error: Error) => error.name);
        return [sealed.every(({ byteLength }) => byteLength === largest + 16), rejected];
      },
      { memoryMiB: 256 },
    );
    expect(made.value).toEqual([true, "OperationError"]);
  });

  test("releases keys that the guest no longer references", async () => {
    const made = await runGuest(
      async () => {
        for (let index = 0; index < 6_000; index += 1) {
          await crypto.subtle.importKey("raw", new Uint8Array(16), "AES-GCM", false, ["encrypt"]);
        }
        return "all";
      },
      { memoryMiB: 64 },
    );
    expect(made.value).toBe("all");
  });

  test("keeps keys between calls in the same isolate", async () => {
    await using tool = await openGuest<{ first: boolean }, unknown>(
      `async ({ first }) => {
        if (first) globalThis.key = await crypto.subtle.generateKey({ name: "AES-KW", length: 128 }, true, ["wrapKey"]);
        return (await crypto.subtle.exportKey("raw", globalThis.key)).byteLength;
      }`,
    );
    expect((await tool.call({ first: true })).value).toBe(16);
    expect((await tool.call({ first: false })).value).toBe(16);
  });
});

describe("crypto", () => {
  test("has random values and UUIDs", async () => {
    const { uuids, zeros, errors } = await inGuest(() => {
      const bytes = [1, 200, 5_000, 65_536].map((size) => crypto.getRandomValues(new Uint8Array(size)));
      const names: string[] = [];
      for (const array of [new Uint8Array(65_537), new Float64Array(1), {} as never]) {
        try {
          crypto.getRandomValues(array as never);
        } catch (error) {
          names.push((error as Error).name);
        }
      }
      return {
        uuids: Array.from({ length: 1_000 }, () => crypto.randomUUID()),
        zeros: bytes.map((list) => list.filter((byte) => byte === 0).length / list.length),
        errors: names,
      };
    });
    expect(new Set(uuids).size).toBe(1_000);
    for (const uuid of uuids)
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    for (const share of zeros.slice(1)) expect(share).toBeLessThan(0.05);
    expect(errors).toEqual(["QuotaExceededError", "TypeMismatchError", "TypeError"]);
  });

  test("has interfaces that cannot be constructed", async () => {
    const found = await inGuest(() => {
      const names: string[] = [];
      for (const Interface of [Crypto, SubtleCrypto, CryptoKey]) {
        try {
          new (Interface as unknown as new () => unknown)();
        } catch (error) {
          names.push(`${Interface.name} ${(error as Error).name}`);
        }
      }
      const methods = Object.keys(SubtleCrypto.prototype).length;
      return { names, methods, text: `${crypto} ${crypto.subtle}`, same: [crypto.subtle].includes(crypto.subtle) };
    });
    expect(found.names).toEqual(["Crypto TypeError", "SubtleCrypto TypeError", "CryptoKey TypeError"]);
    expect(found).toMatchObject({ methods: 17, text: "[object Crypto] [object SubtleCrypto]", same: true });
  });
});
