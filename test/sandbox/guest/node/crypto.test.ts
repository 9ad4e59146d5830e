// Compares node:crypto in a guest with Node's own.
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../../support/guest.ts";

type Case = [why: string, run: () => unknown];

describe("node:crypto", () => {
  test.for<Case>([
    [
      "hashes, at once, in pieces and as a stream",
      async () => {
        const { createHash, createHmac, createSecretKey, hash } = process.getBuiltinModule("node:crypto");
        const { Readable } = process.getBuiltinModule("node:stream");
        const long = "x".repeat(600_000);
        const started = createHash("sha256").update("a");
        const copied = started.copy().update("c").digest("hex");
        const streamed = await Readable.from(["a", "b"]).pipe(createHash("sha1")).toArray();
        return [
          ["md5", "sha1", "sha256", "sha512", "sha3-256", "ripemd160"].map((name) =>
            createHash(name).update("ä").digest("hex"),
          ),
          createHash("sha256").update(long).update(Buffer.from("b")).digest("base64url"),
          createHash("shake128", { outputLength: 8 }).update("a").digest("hex"),
          createHmac("sha256", "key").update("a").update("YQ==", "base64").digest("base64"),
          createHmac("sha1", Buffer.from([1]))
            .update("a")
            .digest().length,
          createHmac("sha1", createSecretKey(Buffer.from("k")))
            .update("a")
            .digest("hex"),
          createSecretKey(Buffer.from("k")).equals(createSecretKey(Buffer.from("k"))),
          copied,
          started.update("b").digest("hex"),
          streamed.map((one: Buffer) => one.toString("hex")),
          hash("md5", "a"),
        ];
      },
    ],
    [
      "returns the digest of a hash that a pipeline has ended",
      async () => {
        const { createHash } = process.getBuiltinModule("node:crypto");
        const { Readable } = process.getBuiltinModule("node:stream");
        const { pipeline } = process.getBuiltinModule("node:stream/promises");
        const hash = createHash("sha256");
        await pipeline(Readable.from(["a", "b"]), hash);
        const digest = hash.digest("hex");
        try {
          return hash.digest("hex");
        } catch (error) {
          return [digest, (error as { code?: string }).code];
        }
      },
    ],
    [
      "gives errors of arguments the codes that they have in Node",
      () => {
        const { createCipheriv, pbkdf2Sync, pbkdf2, scryptSync } = process.getBuiltinModule("node:crypto");
        const none = Buffer.alloc(0);
        const runs: (() => unknown)[] = [
          () => createCipheriv("nope", none, none),
          () => pbkdf2Sync("p", "s", 0, 5, "sha1"),
          () => pbkdf2Sync("p", "s", 1, -5, "sha1"),
          () => pbkdf2Sync("p", "s", 1, 5, "nope"),
          () => pbkdf2("p", "s", 0, 5, "sha1", () => {}),
          () => scryptSync("p", "s", 5, { N: 3 }),
          () => scryptSync("p", "s", 5, { N: 1 }),
          () => scryptSync("p", "s", -1),
        ];
        return runs.map((run) => {
          try {
            return run();
          } catch (error) {
            return (error as { code?: string }).code;
          }
        });
      },
    ],
    [
      "encrypts and decrypts",
      () => {
        const { createCipheriv, createDecipheriv } = process.getBuiltinModule("node:crypto");
        const key = Buffer.alloc(32, 1);
        const gcm = createCipheriv("aes-256-gcm", key, Buffer.alloc(12, 2)).setAAD(Buffer.from("aad"));
        const sealed = gcm.update("secret", "utf8", "hex") + gcm.final("hex");
        const open = createDecipheriv("aes-256-gcm", key, Buffer.alloc(12, 2)).setAAD(Buffer.from("aad"));
        open.setAuthTag(gcm.getAuthTag());
        const cbc = createCipheriv("aes-128-cbc", Buffer.alloc(16, 3), Buffer.alloc(16, 4));
        const block = Buffer.concat([cbc.update("block"), cbc.final()]);
        const forged = createDecipheriv("aes-256-gcm", key, Buffer.alloc(12, 2));
        forged.setAuthTag(Buffer.alloc(16));
        forged.update(sealed, "hex");
        const fails = (run: () => unknown): boolean => {
          try {
            run();
            return false;
          } catch {
            return true;
          }
        };
        return [
          sealed,
          gcm.getAuthTag().toString("hex"),
          open.update(sealed, "hex", "utf8") + open.final("utf8"),
          block.toString("hex"),
          fails(() => forged.final()),
          fails(() => createCipheriv("aes-256-gcm", "short", Buffer.alloc(12))),
          fails(() => createCipheriv("nope", key, null)),
        ];
      },
    ],
    [
      "derives keys and compares",
      async () => {
        const crypto = process.getBuiltinModule("node:crypto");
        const { promisify } = process.getBuiltinModule("node:util");
        const hex = (bytes: unknown): string => Buffer.from(bytes as Buffer).toString("hex");
        return [
          hex(await promisify(crypto.pbkdf2)("pw", "salt", 1_000, 20, "sha256")),
          hex(await promisify(crypto.scrypt)("pw", "salt", 16)),
          hex(
            await new Promise((resolve) => crypto.scrypt("pw", "salt", 16, { N: 1024 }, (_error, key) => resolve(key))),
          ),
          hex(crypto.pbkdf2Sync("pw", "salt", 10, 20, "sha512")),
          hex(crypto.scryptSync("pw", "salt", 16, { N: 256 })),
          hex(crypto.hkdfSync("sha256", "key", "salt", "info", 16)),
          crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("a")),
          crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("b")),
        ];
      },
    ],
    [
      "rejects invalid arguments as Node does",
      () => {
        const crypto = process.getBuiltinModule("node:crypto");
        return [
          () => crypto.createHash("nope"),
          () => crypto.createHash("sha1").update(1 as never),
          () => crypto.randomBytes(-1),
          () => crypto.randomInt(5, 5),
          () => crypto.timingSafeEqual(Buffer.from("a"), Buffer.from("ab")),
          () => {
            const hash = crypto.createHash("sha1");
            hash.digest();
            hash.update("a");
          },
        ].map((run) => {
          try {
            return String(run());
          } catch (error) {
            return (error as Error).name;
          }
        });
      },
    ],
    [
      "fills the elements of an array with random bytes",
      () => {
        const { randomFillSync } = process.getBuiltinModule("node:crypto");
        const untouched = (words: Uint32Array): readonly boolean[] => [...words].map((word) => word === 0);
        const fail = (...rest: readonly unknown[]): unknown => {
          try {
            return typeof randomFillSync(new Uint32Array(4), ...(rest as [number]));
          } catch (error) {
            return [(error as NodeJS.ErrnoException).code, (error as Error).message];
          }
        };
        return [
          untouched(randomFillSync(new Uint32Array(4))),
          untouched(randomFillSync(new Uint32Array(4), 1)),
          untouched(randomFillSync(new Uint32Array(4), 1, 2)),
          [fail(5), fail(-1), fail("1"), fail(Number.NaN), fail(2, 3), fail(0, -1), fail(0, "1"), fail(4, 0)],
        ];
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run, undefined);
  });

  test("returns random values", async () => {
    const [bytes, other, filled, number, later, uuid, same] = await inGuest(async () => {
      const crypto = process.getBuiltinModule("node:crypto");
      const target = Buffer.alloc(8);
      crypto.randomFillSync(target, 4);
      return [
        crypto.randomBytes(16).toString("hex"),
        crypto.randomBytes(16).toString("hex"),
        target.subarray(0, 4).toString("hex"),
        crypto.randomInt(10, 20),
        await new Promise((resolve) => crypto.randomBytes(4, (_error, value) => resolve(value.length))),
        crypto.randomUUID(),
        crypto.webcrypto === (globalThis as { crypto?: unknown }).crypto,
      ] as const;
    });
    expect(bytes).toMatch(/^[0-9a-f]{32}$/);
    expect(other).not.toBe(bytes);
    expect(filled).toBe("00000000");
    expect(number >= 10 && number < 20).toBe(true);
    expect(later).toBe(4);
    expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(same).toBe(true);
  });
});
