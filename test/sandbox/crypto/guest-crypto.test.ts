// Tests the worker's side of a guest's cryptography with requests that a hostile guest could send.
import { afterEach, describe, expect, test } from "vitest";
import { type JobAnswer, type KeyMetadata, MAX_JOBS } from "../../../src/sandbox/protocol/crypto-messages.ts";
import { GuestCrypto } from "../../../src/sandbox/worker/crypto/guest-crypto.ts";
import { NativeJobQueue } from "../../../src/sandbox/worker/crypto/native-job-queue.ts";

interface Answered {
  readonly answer: JobAnswer;
  readonly buffers: readonly ArrayBuffer[];
}

const opened: Guest[] = [];
afterEach(() => {
  for (const guest of opened.splice(0)) guest.crypto.dispose();
});

class Guest {
  readonly crypto: GuestCrypto;
  readonly #waiting = new Map<number, (answered: Answered) => void>();
  idle = 0;
  /** Called when the guest takes a result. */
  taken: Promise<void> = Promise.resolve();
  #lastId = 0;

  constructor(jobQueue = new NativeJobQueue(), memoryMiB = 64) {
    this.crypto = new GuestCrypto({
      jobQueue,
      memoryMiB,
      answer: (id, text, buffers) => {
        this.#waiting.get(id)?.({ answer: JSON.parse(text) as JobAnswer, buffers });
        return this.taken;
      },
      onIdle: () => {
        this.idle += 1;
      },
    });
    opened.push(this);
  }

  /** Returns the outcome of a job, or why it was not started. */
  async job(method: string, args: readonly unknown[], ...buffers: readonly unknown[]): Promise<Answered> {
    this.#lastId += 1;
    const id = this.#lastId;
    const answered = new Promise<Answered>((resolve) => this.#waiting.set(id, resolve));
    const begun = JSON.parse(this.crypto.begin(id, JSON.stringify({ method, args }), buffers)) as object;
    return "name" in begun ? { answer: begun as JobAnswer, buffers: [] } : await answered;
  }

  async key(extractable = false): Promise<KeyMetadata> {
    const { answer } = await this.job(
      "importKey",
      ["raw", 0, "AES-GCM", extractable, ["encrypt"]],
      new ArrayBuffer(16),
    );
    if (!answer.ok || answer.type !== "key") throw new Error(`Expected a key, got ${JSON.stringify(answer)}`);
    return answer.key;
  }
}

const RSA = { name: "RSA-PSS", publicExponent: 0, hash: "SHA-256" };
const exponent = Uint8Array.of(1, 0, 1).buffer;
const rejected: readonly [
  what: string,
  method: string,
  args: readonly unknown[],
  buffers: readonly unknown[],
  name: string,
][] = [
  ["an unknown method", "constructor", [], [], "TypeError"],
  ["a method of Object", "toString", [], [], "TypeError"],
  ["too few arguments", "digest", [], [], "TypeError"],
  ["a missing buffer", "digest", ["SHA-1", 3], [], "TypeError"],
  ["an object that is not a buffer", "digest", ["SHA-1", 0], [{ byteLength: 3 }], "TypeError"],
  ["a shared buffer", "digest", ["SHA-1", 0], [new SharedArrayBuffer(8)], "TypeError"],
  ["a buffer that is too large", "digest", ["SHA-1", 0], [new ArrayBuffer(40 * 2 ** 20)], "QuotaExceededError"],
  ["an unknown key", "sign", ["HMAC", 99, 0], [new ArrayBuffer(1)], "TypeError"],
  ["an unknown key in an algorithm", "deriveBits", [{ name: "X25519", public: "1" }, 1, 8], [], "TypeError"],
  ["an algorithm that is a list", "digest", [["SHA-1"], 0], [new ArrayBuffer(1)], "TypeError"],
  ["usages that are not strings", "generateKey", [{ name: "AES-GCM", length: 128 }, true, [{}]], [], "TypeError"],
  [
    "an RSA key of 8192 bits",
    "generateKey",
    [{ ...RSA, modulusLength: 8_192 }, true, ["sign"]],
    [exponent],
    "OperationError",
  ],
  [
    "an HMAC key of 512 MiB",
    "generateKey",
    [{ name: "HMAC", hash: "SHA-1", length: 2 ** 32 - 8 }, true, ["sign"]],
    [],
    "OperationError",
  ],
  [
    "a digest of a GiB",
    "digest",
    [{ name: "TurboSHAKE128", outputLength: 2 ** 32 - 8 }, 0],
    [new ArrayBuffer(1)],
    "OperationError",
  ],
  [
    "a PBKDF2 of hours",
    "pbkdf2",
    ["sha512", 2 ** 31 - 1, 64],
    [new ArrayBuffer(1), new ArrayBuffer(1)],
    "OperationError",
  ],
  [
    "a PBKDF2 of a megabyte",
    "pbkdf2",
    ["sha512", 1_000, 1_000_000],
    [new ArrayBuffer(1), new ArrayBuffer(1)],
    "OperationError",
  ],
  ["a scrypt of gigabytes", "scrypt", [2 ** 24, 8, 1, 64], [new ArrayBuffer(1), new ArrayBuffer(1)], "OperationError"],
  [
    "a scrypt of minutes",
    "scrypt",
    [2 ** 14, 8, 10_000, 64],
    [new ArrayBuffer(1), new ArrayBuffer(1)],
    "OperationError",
  ],
];

describe("GuestCrypto.begin()", () => {
  test.for(rejected)("rejects %s", async ([, method, args, buffers, name]) => {
    const guest = new Guest();
    expect((await guest.job(method, args, ...buffers)).answer).toMatchObject({ ok: false, name });
    expect(guest.crypto.isBusy).toBe(false);
  });

  test("rejects derivations that would take too long", async () => {
    const guest = new Guest();
    const { answer } = await guest.job("importKey", ["raw", 0, "PBKDF2", false, ["deriveBits"]], new ArrayBuffer(8));
    const handle = answer.ok && answer.type === "key" ? answer.key.handle : -1;
    const pbkdf2 = { name: "PBKDF2", hash: "SHA-256", salt: 0 };
    for (const [iterations, bits] of [
      [4e9, 256],
      [100_000, 8e6],
      [1, 2 ** 31],
    ]) {
      const derived = await guest.job("deriveBits", [{ ...pbkdf2, iterations }, handle, bits], new ArrayBuffer(8));
      expect(derived.answer).toMatchObject({ ok: false, name: "OperationError" });
    }
  });

  test("rejects keys of another isolate, and keys that are not extractable", async () => {
    const [mine, other] = [new Guest(), new Guest()];
    const { handle } = await other.key(true);
    expect((await mine.job("exportKey", ["raw", handle])).answer).toMatchObject({ ok: false, name: "TypeError" });
    const hidden = await mine.key(false);
    expect((await mine.job("exportKey", ["raw", hidden.handle])).answer).toMatchObject({
      ok: false,
      name: "InvalidAccessError",
    });
  });

  test("accepts only members of the standard", async () => {
    const text = `{"method":"digest","args":[{"name":"SHA-1","__proto__":{"then":1},"constructor":{"prototype":{}},"x":{}},0]}`;
    const guest = new Guest();
    expect(guest.crypto.begin(1, text, [new ArrayBuffer(1)])).toBe("{}");
    await expect.poll(() => guest.idle).toBe(1);
    expect(({} as { then?: unknown }).then).toBeUndefined();
  });

  test("limits the number of jobs", async () => {
    const guest = new Guest();
    const args = ["sha256", 50_000, 32];
    const jobs = Array.from({ length: MAX_JOBS + 3 }, () =>
      guest.job("pbkdf2", args, new ArrayBuffer(1), new ArrayBuffer(1)),
    );
    const answers = await Promise.all(jobs);
    expect(answers.filter(({ answer }) => answer.ok)).toHaveLength(MAX_JOBS);
    expect(guest.crypto.isBusy).toBe(false);
  });

  test("starts no further jobs for a guest that does not read results", async () => {
    const guest = new Guest();
    const { promise, resolve } = Promise.withResolvers<void>();
    guest.taken = promise;
    const seal = () =>
      guest.job("digest", [{ name: "TurboSHAKE128", outputLength: 8_000 * 1_000 }, 0], new ArrayBuffer(1));
    const made: boolean[] = [];
    for (let index = 0; index < 2 * MAX_JOBS + 4; index += 1) made.push((await seal()).answer.ok);
    expect(made.filter(Boolean)).toHaveLength(2 * MAX_JOBS);
    resolve();
    await promise;
    expect((await seal()).answer.ok).toBe(true);
  });

  test("counts a key by the size of its source", async () => {
    const guest = new Guest(new NativeJobQueue(), 8);
    const add = () => guest.job("importKey", ["raw", 0, "PBKDF2", false, ["deriveBits"]], new ArrayBuffer(1_000_000));
    expect([(await add()).answer.ok, (await add()).answer.ok, (await add()).answer.ok]).toEqual([true, true, false]);
  });

  test("limits the number of keys", async () => {
    const guest = new Guest(new NativeJobQueue(), 8);
    let made = 0;
    while (made < 1_000 && (await guest.key().catch(() => undefined)) !== undefined) made += 1;
    expect(made).toBeGreaterThan(500);
    guest.crypto.respond(JSON.stringify({ method: "forgetKeys", args: [[1, 2, "3", null, 10_000]] }), []);
    expect(guest.crypto.openCount).toBe(made - 2);
  });
});

describe("GuestCrypto.ask()", () => {
  test.for<[string, string, readonly unknown[]]>([
    ["text that is not JSON", "{", []],
    ["text that is too long", `"${"x".repeat(200_000)}"`, []],
    ["JSON that is not a request", "null", []],
    ["an unknown function", `{"method":"__proto__","args":[]}`, []],
    ["a function of Object", `{"method":"hasOwnProperty","args":[]}`, []],
    ["arguments of another kind", `{"method":"openHash","args":[{"length":1e9},-1]}`, []],
    ["an unknown state", `{"method":"digest","args":[7]}`, []],
    ["a piece that is too large", `{"method":"hash","args":["sha1",null]}`, [new ArrayBuffer(2 * 2 ** 20)]],
    ["an unknown cipher", `{"method":"openCipher","args":["rc4",false,null]}`, [new ArrayBuffer(16)]],
    ["an invalid list of handles", `{"method":"close","args":["all"]}`, []],
  ])("responds to %s with a failure without throwing", ([, text, buffers]) => {
    const answer = new Guest().crypto.respond(text, buffers);
    expect(JSON.parse(answer as string)).toMatchObject({ ok: false });
    expect(answer).not.toContain("/");
  });

  test("limits the number of hashes", () => {
    const { crypto } = new Guest();
    const open = (): { ok: boolean } =>
      JSON.parse(crypto.respond(`{"method":"openHash","args":["sha1",null]}`, []) as string) as { ok: boolean };
    for (let index = 0; index < 1_024; index += 1) expect(open().ok).toBe(true);
    expect(open().ok).toBe(false);
    crypto.dispose();
    expect(crypto.openCount).toBe(0);
  });
});

describe("GuestCrypto.dispose()", () => {
  test("releases all state, and stays busy until the threads have ended", async () => {
    const guest = new Guest(new NativeJobQueue({ running: 3, perOwner: 2 }));
    await guest.key();
    const args = ["sha256", 400_000, 32];
    for (let index = 0; index < 4; index += 1) {
      void guest.job("pbkdf2", args, new ArrayBuffer(1), new ArrayBuffer(1)).then(() => {
        throw new Error("Nothing is answered to who is gone");
      });
    }
    guest.crypto.dispose();
    expect(guest.crypto.openCount).toBe(0);
    expect(guest.crypto.isBusy).toBe(true);
    await expect.poll(() => guest.crypto.isBusy).toBe(false);
    expect(guest.idle).toBe(2);
  });
});

describe("NativeJobQueue", () => {
  test("lets no guest use all threads, and alternates between guests", async () => {
    const queue = new NativeJobQueue({ running: 3, perOwner: 2 });
    const order: string[] = [];
    const ends: (() => void)[] = [];
    const add = (owner: object, name: string): void => {
      queue.add(owner, () => {
        order.push(name);
        return new Promise((resolve) => ends.push(resolve));
      });
    };
    const [greedy, modest] = [{}, {}];
    for (let index = 0; index < 5; index += 1) add(greedy, `greedy ${index}`);
    add(modest, "modest 0");
    add(modest, "modest 1");
    expect(order).toEqual(["greedy 0", "greedy 1", "modest 0"]);
    for (let index = 0; index < 4; index += 1) {
      ends.shift()?.();
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(order).toEqual(["greedy 0", "greedy 1", "modest 0", "greedy 2", "modest 1", "greedy 3", "greedy 4"]);
    queue.removeWaiting(greedy);
    for (const end of ends) end();
  });
});

test("GuestCrypto counts the size of a key from a KeyObject, regardless of its stated algorithm", () => {
  const { crypto } = new Guest();
  const ask = (method: string, args: readonly unknown[], ...buffers: readonly ArrayBuffer[]): string =>
    String(crypto.respond(JSON.stringify({ method, args }), buffers));
  const answers = Array.from({ length: 40 }, () => {
    const { value } = JSON.parse(ask("secretKeyObject", [], new ArrayBuffer(2 ** 20))) as { readonly value: number };
    const made = ask("cryptoKeyOf", [value, "HKDF", false, ["deriveBits"]]);
    ask("forgetKeyObjects", [[value]]);
    return made;
  });
  expect(answers[0]).toContain('"ok":true');
  expect(answers.at(-1)).toContain("QuotaExceededError");
});
