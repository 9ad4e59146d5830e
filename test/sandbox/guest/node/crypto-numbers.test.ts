// Compares primes, Argon2, key encapsulation and the small functions of node:crypto in a guest with Node's own.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest, runGuest } from "../../../support/guest.ts";

type Case = [why: string, run: () => unknown];

test.for<Case>([
  [
    "checks numbers for primality",
    async () => {
      const { checkPrime, checkPrimeSync, getDiffieHellman } = process.getBuiltinModule("node:crypto");
      const { promisify } = process.getBuiltinModule("node:util");
      const later = promisify(checkPrime) as (value: unknown, options?: object) => Promise<boolean>;
      const group = getDiffieHellman("modp1").getPrime();
      const numbers = Array.from({ length: 70 }, (_, index) => BigInt(index));
      // A Carmichael number, a product of two primes, a Mersenne prime, and a strong pseudoprime to the first twelve prime bases.
      const special = [561n, 65_537n * 65_539n, 2n ** 127n - 1n, 318_665_857_834_031_151_167_461n];
      const bytes = [
        group,
        new Uint8Array(),
        new Uint16Array([7]),
        new Uint8Array([7]).buffer,
        new DataView(new ArrayBuffer(2)),
      ];
      const all = [...numbers, ...special, ...bytes] as bigint[];
      const asynchronous: boolean[] = [];
      for (const number of all) asynchronous.push(await later(number));
      return [all.map((number) => checkPrimeSync(number)), asynchronous, await later(7n, { checks: 3 })];
    },
  ],
  [
    "rejects invalid arguments of checkPrime and checkPrimeSync",
    () => {
      const { checkPrime, checkPrimeSync } = process.getBuiltinModule("node:crypto") as unknown as Record<
        string,
        (...args: unknown[]) => unknown
      >;
      const calls = [[7], ["7"], [-7n], [], [7n, null], [7n, 5], [7n, { checks: -1 }], [7n, { checks: "a" }]];
      return [...calls, [7n, { checks: 1.5 }], [7n, { checks: 2 ** 31 }]].map((args) =>
        [checkPrimeSync, checkPrime].map((run) => {
          try {
            return run?.(...args, () => {});
          } catch (error) {
            const { name, code, message } = error as NodeJS.ErrnoException;
            return [name, code, message];
          }
        }),
      );
    },
  ],
  [
    "generates primes with the required properties",
    async () => {
      const { checkPrimeSync, generatePrime, generatePrimeSync } = process.getBuiltinModule("node:crypto");
      const { promisify } = process.getBuiltinModule("node:util");
      const later = promisify(generatePrime) as (size: number, options?: object) => Promise<ArrayBuffer & bigint>;
      const options = [
        {},
        { add: 12n, rem: 11n },
        { add: Buffer.from([12]), rem: Buffer.from([11]) },
        { add: 30n },
        { rem: 5n },
        { safe: true },
        { safe: true, add: 12n, rem: 11n },
      ];
      const shown: unknown[] = [];
      for (const one of options) {
        const given = { ...one, bigint: true } as const;
        for (const prime of [generatePrimeSync(64, given), await later(64, given)]) {
          const half = "safe" in one ? checkPrimeSync((prime - 1n) / 2n) : undefined;
          shown.push([
            checkPrimeSync(prime),
            prime.toString(2).length,
            half,
            "add" in one ? Number(prime % 12n) === 11 || Number(prime % 30n) : 0,
          ]);
        }
      }
      const bytes = [
        generatePrimeSync(2),
        generatePrimeSync(3),
        generatePrimeSync(3, { safe: true }),
        generatePrimeSync(20),
        await later(20),
      ];
      return [
        shown,
        bytes.map((one) => [one instanceof ArrayBuffer, one.byteLength]),
        bytes.slice(0, 3).map((one) => [...new Uint8Array(one)]),
      ];
    },
  ],
  [
    "rejects invalid arguments of generatePrimeSync",
    () => {
      const { generatePrimeSync } = process.getBuiltinModule("node:crypto");
      const calls = [
        [0],
        [1],
        [-1],
        [1.5],
        ["8"],
        [2 ** 31],
        [8, null],
        [8, 5],
        [8, { safe: 1 }],
        [8, { bigint: 1 }],
        [8, { add: "a" }],
        [8, { add: -3n }],
        [8, { add: 512n }],
        [8, { add: 0n }],
        [8, { add: 4n, rem: 5n }],
        [5, { safe: true }],
      ];
      return calls.map((args) => {
        try {
          return generatePrimeSync(...(args as [number]));
        } catch (error) {
          const { name, code, message } = error as NodeJS.ErrnoException;
          // Node 24 gives no code to errors of OpenSSL here.
          return [name, message.startsWith("error:") ? "" : code, message];
        }
      });
    },
  ],
  [
    "derives keys with Argon2",
    async () => {
      const { argon2, argon2Sync } = process.getBuiltinModule("node:crypto");
      const small = {
        message: "password",
        nonce: Buffer.alloc(16, 7),
        parallelism: 1,
        tagLength: 24,
        memory: 64,
        passes: 2,
      };
      const large = { ...small, secret: "s", associatedData: Buffer.from("a"), parallelism: 4, memory: 100 };
      const keys: string[] = [];
      for (const algorithm of ["argon2d", "argon2i", "argon2id"] as const) {
        for (const parameters of [small, large, { ...small, secret: "", associatedData: "" }]) {
          keys.push(argon2Sync(algorithm, parameters).toString("hex"));
          const key = await new Promise<Buffer>((resolve, reject) =>
            argon2(algorithm, parameters, (error, derived) => (error === null ? resolve(derived) : reject(error))),
          );
          keys.push(key.toString("hex"));
        }
      }
      return keys;
    },
  ],
  [
    "rejects invalid arguments of argon2 and argon2Sync",
    () => {
      const crypto = process.getBuiltinModule("node:crypto") as unknown as Record<
        string,
        (...args: unknown[]) => unknown
      >;
      const valid = { message: "m", nonce: "saltsalt", parallelism: 1, tagLength: 16, memory: 8, passes: 1 };
      const wrong = {
        message: [undefined, 5],
        nonce: ["short", undefined],
        parallelism: [0, 2 ** 24, "a", undefined, 1.5, 2],
        tagLength: [3, 2 ** 32, undefined],
        memory: [7, undefined, 2 ** 32],
        passes: [0, undefined, 2 ** 32],
        secret: [5, null],
        associatedData: [5],
      };
      const calls = Object.entries(wrong).flatMap(([name, values]) =>
        values.map((value) => ["argon2id", { ...valid, [name]: value }] as unknown[]),
      );
      return [...calls, ["x", valid], [5, valid], ["argon2i"]].map((args) =>
        ["argon2Sync", "argon2"].map((name) => {
          try {
            return String(crypto[name]?.(...args, () => {}));
          } catch (error) {
            const { name, code, message } = error as NodeJS.ErrnoException;
            return [name, code, message];
          }
        }),
      );
    },
  ],
  [
    "encapsulates keys",
    async () => {
      const { encapsulate, decapsulate, generateKeyPairSync } = process.getBuiltinModule("node:crypto");
      const shown: unknown[] = [];
      const attempt = (run: () => unknown): unknown => {
        try {
          return run();
        } catch (error) {
          return [(error as NodeJS.ErrnoException).code, (error as Error).message];
        }
      };
      for (const type of ["ml-kem-512", "ml-kem-768", "ml-kem-1024", "x25519"] as const) {
        const { publicKey, privateKey } = generateKeyPairSync(type as "x25519");
        const { sharedKey, ciphertext } = encapsulate(publicKey);
        const later = await new Promise<{ ciphertext: Buffer; sharedKey: Buffer }>((resolve) =>
          encapsulate(privateKey.export({ format: "pem", type: "pkcs8" }), (_error, result) => resolve(result)),
        );
        const same = await new Promise<Buffer>((resolve) =>
          decapsulate(privateKey, later.ciphertext, (_error, key) => resolve(key)),
        );
        const error = await new Promise<Error | null>((resolve) => decapsulate(privateKey, Buffer.from("x"), resolve));
        shown.push(
          [sharedKey.length, ciphertext.length, decapsulate(privateKey, ciphertext).equals(sharedKey)],
          // Node 24 gives it no code.
          [same.equals(later.sharedKey), error instanceof Error],
          attempt(() => decapsulate(privateKey, Buffer.from("x"))),
          attempt(() => decapsulate(publicKey, ciphertext)),
        );
      }
      shown.push(attempt(() => encapsulate(generateKeyPairSync("ed25519").publicKey)));
      return shown;
    },
  ],
  [
    "describes ciphers",
    () => {
      const { getCipherInfo } = process.getBuiltinModule("node:crypto") as unknown as {
        getCipherInfo(...args: unknown[]): object | undefined;
      };
      const calls = [
        ["aes-128-gcm"],
        ["AES-256-CBC"],
        ["aes-256-cbc", { keyLength: 5 }],
        ["aes-128-gcm", { ivLength: 16 }],
        ["nope"],
        [901],
      ];
      return [...calls, ["chacha20-poly1305"], [null], ["aes-128-cbc", null], ["aes-128-cbc", { keyLength: "a" }]].map(
        (args) => {
          try {
            return getCipherInfo(...args) ?? "unknown";
          } catch (error) {
            return (error as Error).message;
          }
        },
      );
    },
  ],
  [
    "reads the options of randomUUIDv7 and reports a secure heap",
    () => {
      const { randomUUIDv7, secureHeapUsed } = process.getBuiltinModule("node:crypto") as unknown as Record<
        string,
        (options?: unknown) => unknown
      >;
      const errors = [5, null, { disableEntropyCache: 1 }].map((options) => {
        try {
          return typeof randomUUIDv7?.(options);
        } catch (error) {
          return (error as Error).message;
        }
      });
      return [errors, secureHeapUsed?.(), typeof randomUUIDv7?.({ disableEntropyCache: true })];
    },
  ],
])("node:crypto %s, as in Node", async ([, run]) => {
  await expectLikeNode(run, undefined);
});

test("node:crypto gives errors of primes and of encapsulated keys the codes of Node 26", async () => {
  const codes = await inGuest(async () => {
    const { decapsulate, generateKeyPairSync, generatePrimeSync } = process.getBuiltinModule("node:crypto");
    const { privateKey } = generateKeyPairSync("ml-kem-512" as "x25519");
    const late = await new Promise<Error | null>((resolve) => decapsulate(privateKey, Buffer.from("x"), resolve));
    const found = [(late as NodeJS.ErrnoException).code];
    for (const run of [() => generatePrimeSync(1), () => generatePrimeSync(8, { add: 0n })]) {
      try {
        run();
      } catch (error) {
        found.push((error as NodeJS.ErrnoException).code);
      }
    }
    return found;
  }, undefined);
  expect(codes).toEqual(["ERR_CRYPTO_OPERATION_FAILED", "ERR_OSSL_BN_BITS_TOO_SMALL", "ERR_OSSL_BN_DIV_BY_ZERO"]);
});

describe("node:crypto", () => {
  test("creates UUIDs that start with the time", async () => {
    const [before, first, second, after] = await inGuest(() => {
      const { randomUUIDv7 } = process.getBuiltinModule("node:crypto") as unknown as { randomUUIDv7(): string };
      return [Date.now(), randomUUIDv7(), randomUUIDv7(), Date.now()] as const;
    });
    expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(second).not.toBe(first);
    const time = Number.parseInt(first.replace("-", "").slice(0, 12), 16);
    expect(time).toBeGreaterThanOrEqual(before);
    expect(time).toBeLessThanOrEqual(after);
  });

  test.for([
    ["a prime of 4253 bits", "checkPrime(2n ** 4253n - 1n, done)", "at most 3072 bits"],
    ["a million checks", "checkPrime(2n ** 521n - 1n, { checks: 1e6 }, done)", "at most 128"],
    ["Argon2 with a GiB", "argon2('argon2id', { ...valid, memory: 2 ** 20 }, done)", "memory in KiB must be at most"],
    ["Argon2 with a million passes", "argon2('argon2id', { ...valid, passes: 1e6 }, done)", "times its passes"],
    ["Argon2 with 17 lanes", "argon2('argon2id', { ...valid, memory: 136, parallelism: 17 }, done)", "parallelism"],
    ["primes that cannot exist", "generatePrime(64, { add: 12n, rem: 4n }, done)", "invalid options.rem"],
    ["safe primes that cannot exist", "generatePrime(16, { add: 12n, rem: 1n, safe: true }, done)", "No prime"],
  ])("rejects %s", async ([, call, message]) => {
    const end = await runGuest(`async () => {
      const { argon2, checkPrime, generatePrime } = process.getBuiltinModule("node:crypto");
      const valid = { message: "m", nonce: "saltsalt", parallelism: 1, tagLength: 16, memory: 64, passes: 1 };
      return await new Promise((resolve, reject) => {
        const done = (error, value) => (error ? reject(error) : resolve(value));
        ${call};
      });
    }`);
    expect(end.outcome).toBe("thrown");
    expect((end.value as Error).message).toContain(message);
  });

  test("a synchronous search for a prime can be stopped", async () => {
    const end = await runGuest(`() => process.getBuiltinModule("node:crypto").generatePrimeSync(20_000)`, {
      deadlineMs: 500,
    });
    expect(end.outcome).toBe("cpu");
  });
});
