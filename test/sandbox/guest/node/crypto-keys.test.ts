// Tests node:crypto's asymmetric keys in a guest: deterministic output is compared with Node's, random output is verified by Node.
import * as crypto from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { expectLikeNode, inGuest } from "../../../support/guest.ts";

const RSA = crypto.generateKeyPairSync("rsa", { modulusLength: 2048 });
const EC = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" });
const ED = crypto.generateKeyPairSync("ed25519");
const pem = (key: crypto.KeyObject): string =>
  key.export({ format: "pem", type: key.type === "private" ? "pkcs8" : "spki" }) as string;
const PEMS = {
  rsa: pem(RSA.privateKey),
  rsaPublic: pem(RSA.publicKey),
  ec: pem(EC.privateKey),
  ecPublic: pem(EC.publicKey),
  ed: pem(ED.privateKey),
  edPublic: pem(ED.publicKey),
  sealed: RSA.privateKey.export({ format: "pem", type: "pkcs8", cipher: "aes-256-cbc", passphrase: "open" }) as string,
  legacy: RSA.privateKey.export({ format: "pem", type: "pkcs1", cipher: "aes-128-cbc", passphrase: "open" }) as string,
  certificate: readFileSync(new URL("../../../fixtures/tls/cert.pem", import.meta.url), "utf8"),
  certificateKey: readFileSync(new URL("../../../fixtures/tls/key.pem", import.meta.url), "utf8"),
};
type Pems = typeof PEMS;
type Typed = { readonly type?: string };

describe("keys of node:crypto in a guest and in Node", () => {
  test.for<readonly [string, (pems: Pems) => unknown]>([
    [
      "have the class name that packages check",
      ({ rsa }) => {
        const { createPrivateKey, KeyObject } = process.getBuiltinModule("node:crypto");
        return [KeyObject.name, createPrivateKey(rsa) instanceof KeyObject];
      },
    ],
    [
      "are read from PEM, DER and JWK, and written",
      (pems) => {
        const { createPrivateKey, createPublicKey } = process.getBuiltinModule("node:crypto");
        return [pems.rsa, pems.ec, pems.ed].flatMap((text) => {
          const key = createPrivateKey(text);
          const open = createPublicKey(key);
          const der = key.export({ format: "der", type: "pkcs8" });
          const jwk = key.export({ format: "jwk" });
          const again = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
          return [
            [
              key.type,
              open.type,
              key.asymmetricKeyType,
              JSON.stringify(key.asymmetricKeyDetails, (_, value: unknown) => String(value)),
            ],
            [Object.prototype.toString.call(key), String(key.asymmetricKeyDetails?.publicExponent)],
            [key.export({ format: "pem", type: "pkcs8" }), open.export({ format: "pem", type: "spki" })],
            [der.toString("hex"), jwk, open.export({ format: "jwk" })],
            [again.equals(key), open.equals(createPublicKey(createPrivateKey({ key: jwk, format: "jwk" })))],
            [createPublicKey({ key: open.export({ format: "jwk" }), format: "jwk" }).equals(open), key.equals(open)],
          ];
        });
      },
    ],
    [
      "are read from other forms",
      (pems) => {
        const { createPrivateKey, createPublicKey } = process.getBuiltinModule("node:crypto");
        const key = createPrivateKey(Buffer.from(pems.rsa));
        const parts = [
          key.export({ format: "pem", type: "pkcs1" }),
          createPrivateKey(pems.ec).export({ format: "pem", type: "sec1" }),
        ] as string[];
        return [
          ...parts,
          parts.map((text) => createPrivateKey(`comment\n${text}trailing`).asymmetricKeyType),
          createPrivateKey(`-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n${parts[1]}`)
            .type,
          createPublicKey(pems.certificate).asymmetricKeyType,
          createPublicKey({ key: key.export({ format: "der", type: "pkcs1" }), format: "der", type: "pkcs1" }).type,
          createPrivateKey({ key: pems.sealed, passphrase: "open" }).equals(key),
          createPrivateKey({ key: pems.legacy, passphrase: Buffer.from("open") }).equals(key),
        ];
      },
    ],
    [
      "create deterministic signatures, and verify them",
      (pems) => {
        const { createPrivateKey, createSign, createVerify, sign, verify } = process.getBuiltinModule("node:crypto");
        const data = Buffer.from("what is signed");
        const signature = createSign("RSA-SHA256").update("what is ").update(data.subarray(8)).sign(pems.rsa, "base64");
        const edwards = sign(null, data, pems.ed);
        return [
          signature,
          createSign("sha512")
            .update(data)
            .sign({ key: createPrivateKey(pems.rsa), padding: 1 }, "hex"),
          createSign("sha1").update(Buffer.alloc(3_000_000, 7)).sign(pems.rsa, "hex"),
          edwards.toString("hex"),
          sign("sha256", data, pems.rsa).toString("base64"),
          createVerify("sha256").update(data).verify(pems.rsaPublic, signature, "base64"),
          createVerify("sha256").update("other").verify(pems.rsaPublic, signature, "base64"),
          createVerify("sha256").update(data).verify(pems.rsa, signature, "base64"),
          createVerify("sha256").update(data).verify(pems.rsaPublic, Buffer.alloc(256)),
          verify(null, data, pems.edPublic, edwards),
          verify(undefined, data, pems.edPublic, edwards.reverse()),
        ];
      },
    ],
    [
      "create randomized signatures, and verify them",
      (pems) => {
        const { constants, createSign, createVerify, sign, verify } = process.getBuiltinModule("node:crypto");
        const data = Buffer.from("what is signed");
        const pss = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 };
        const flat = { dsaEncoding: "ieee-p1363" as const };
        const long = Buffer.alloc(2_500_000, 1);
        const made = createSign("sha384")
          .update(long)
          .sign({ key: pems.rsa, ...pss });
        return [
          verify("sha256", data, { key: pems.rsaPublic, ...pss }, sign("sha256", data, { key: pems.rsa, ...pss })),
          verify("sha256", data, pems.rsaPublic, sign("sha256", data, { key: pems.rsa, ...pss })),
          createVerify("sha384")
            .update(long)
            .verify({ key: pems.rsaPublic, ...pss }, made),
          sign("sha256", data, { key: pems.ec, ...flat }).length,
          verify("sha256", data, { key: pems.ecPublic, ...flat }, sign("sha256", data, { key: pems.ec, ...flat })),
          verify("sha256", data, pems.ecPublic, sign("sha256", data, { key: pems.ec, ...flat })),
        ];
      },
    ],
    [
      "encrypt and decrypt with RSA",
      (pems) => {
        const { constants, createPublicKey, privateDecrypt, privateEncrypt, publicDecrypt, publicEncrypt } =
          process.getBuiltinModule("node:crypto");
        const data = Buffer.from("secret");
        const labelled = { oaepHash: "sha256", oaepLabel: Buffer.from("label") };
        const old = { padding: constants.RSA_PKCS1_PADDING };
        const text = (bytes: Buffer) => bytes.toString();
        return [
          text(privateDecrypt(pems.rsa, publicEncrypt(pems.rsaPublic, data))),
          text(
            privateDecrypt({ key: pems.rsa, ...labelled }, publicEncrypt({ key: pems.rsaPublic, ...labelled }, data)),
          ),
          text(
            privateDecrypt({ key: pems.rsa, ...old }, publicEncrypt({ key: createPublicKey(pems.rsa), ...old }, data)),
          ),
          text(publicDecrypt(pems.rsaPublic, privateEncrypt(pems.rsa, data))),
          privateEncrypt(pems.rsa, data).toString("hex"),
        ];
      },
    ],
    [
      "derive shared secrets",
      (pems) => {
        const crypto = process.getBuiltinModule("node:crypto");
        const ecdh = crypto.createECDH("secp256k1");
        ecdh.setPrivateKey("11".repeat(32), "hex");
        const other = crypto.createECDH("secp256k1");
        other.generateKeys();
        const [ours, theirs] = [crypto.generateKeyPairSync("x25519"), crypto.generateKeyPairSync("x25519")];
        const [group, peer] = [crypto.getDiffieHellman("modp14"), crypto.createDiffieHellmanGroup("modp14")];
        group.generateKeys();
        peer.generateKeys();
        const key = crypto.createPrivateKey(pems.ec);
        return [
          ecdh.getPublicKey("hex"),
          ecdh.getPublicKey("base64", "compressed"),
          crypto.ECDH.convertKey(ecdh.getPublicKey(), "secp256k1", undefined, "hex", "hybrid"),
          ecdh.computeSecret(other.getPublicKey(), undefined, "hex") ===
            other.computeSecret(ecdh.getPublicKey("hex"), "hex", "hex"),
          crypto
            .diffieHellman({ privateKey: ours.privateKey, publicKey: theirs.publicKey })
            .equals(crypto.diffieHellman({ privateKey: theirs.privateKey, publicKey: ours.publicKey })),
          crypto.diffieHellman({ privateKey: key, publicKey: crypto.createPublicKey(key) }).toString("hex"),
          group.computeSecret(peer.getPublicKey()).equals(peer.computeSecret(group.getPublicKey())),
          [group.getPrime("hex"), group.getGenerator("hex"), group.verifyError],
          crypto.getCurves().includes("prime256v1"),
        ];
      },
    ],
    [
      "are generated with options",
      async () => {
        const crypto = process.getBuiltinModule("node:crypto");
        const { promisify } = process.getBuiltinModule("node:util");
        const encoded = crypto.generateKeyPairSync("ec", {
          namedCurve: "secp384r1",
          publicKeyEncoding: { type: "spki", format: "pem" },
          privateKeyEncoding: { type: "pkcs8", format: "pem", cipher: "aes-256-cbc", passphrase: "p" },
        });
        const later = await promisify(crypto.generateKeyPair)("rsa", { modulusLength: 2048, publicExponent: 3 });
        const called = await new Promise((resolve) => {
          crypto.generateKeyPair("ed25519", undefined, (error, open, secret) =>
            resolve([error, (open as Typed).type, (secret as Typed).type]),
          );
        });
        const options = { modulusLength: 1024, hashAlgorithm: "sha256", mgf1HashAlgorithm: "sha256", saltLength: 20 };
        const pss = crypto.generateKeyPairSync("rsa-pss" as "rsa", options);
        return [
          encoded.publicKey.slice(0, 26),
          encoded.privateKey.slice(0, 37),
          crypto.createPrivateKey({ key: encoded.privateKey, passphrase: "p" }).asymmetricKeyDetails,
          [
            later.privateKey.asymmetricKeyDetails?.modulusLength,
            String(later.publicKey.asymmetricKeyDetails?.publicExponent),
          ],
          called,
          [pss.publicKey.asymmetricKeyType, pss.publicKey.asymmetricKeyDetails?.saltLength],
          crypto.generateKeySync("aes", { length: 256 }).symmetricKeySize,
          await new Promise((resolve) =>
            crypto.generateKey("hmac", { length: 65 }, (_, key) => resolve(key.symmetricKeySize)),
          ),
        ];
      },
    ],
    [
      "convert to and from CryptoKey",
      async (pems) => {
        const crypto = process.getBuiltinModule("node:crypto");
        const data = Buffer.from("data");
        const key = crypto
          .createPrivateKey(pems.ec)
          .toCryptoKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign"]);
        const secret = crypto
          .createSecretKey(Buffer.alloc(32, 1))
          .toCryptoKey({ name: "HMAC", hash: "SHA-256" }, true, ["sign"]);
        const made = Buffer.from(await crypto.subtle.sign({ name: "ECDSA", hash: "SHA-256" }, key, data));
        return [
          crypto.verify("sha256", data, { key: pems.ecPublic, dsaEncoding: "ieee-p1363" }, made),
          Buffer.from(await crypto.subtle.sign("HMAC", secret, data)).toString("hex"),
          crypto.KeyObject.from(key).equals(crypto.createPrivateKey(pems.ec)),
          crypto.KeyObject.from(secret).export().toString("hex"),
          crypto.createHmac("sha256", crypto.KeyObject.from(secret)).update("data").digest("hex"),
        ];
      },
    ],
    [
      "are read from certificates",
      (pems) => {
        const { createPrivateKey, X509Certificate } = process.getBuiltinModule("node:crypto");
        const certificate = new X509Certificate(pems.certificate);
        const { subject, issuer, subjectAltName, validFrom, validTo, serialNumber, fingerprint256, ca, publicKey } =
          certificate;
        return [
          { subject, issuer, subjectAltName, validFrom, validTo, serialNumber, fingerprint256, ca },
          [certificate.checkHost("localhost"), certificate.checkHost("other.test"), certificate.checkIP("127.0.0.1")],
          [certificate.verify(publicKey), certificate.checkIssued(certificate), certificate.validToDate],
          certificate.checkPrivateKey(createPrivateKey(pems.certificateKey)),
          [certificate.toString(), new X509Certificate(certificate.raw).toJSON()],
        ];
      },
    ],
    [
      "are rejected as in Node",
      (pems) => {
        const crypto = process.getBuiltinModule("node:crypto");
        const secret = crypto.createSecretKey(Buffer.from("k"));
        return [
          () => crypto.createPrivateKey("nothing"),
          () => crypto.createPrivateKey(pems.rsaPublic),
          () => crypto.createPrivateKey({ key: pems.sealed, passphrase: "wrong" }),
          () => crypto.createPrivateKey(1 as never),
          () => crypto.createPublicKey(secret),
          () => crypto.createSign("nope"),
          () => crypto.sign("sha256", Buffer.from(""), secret as never),
          () => crypto.sign("sha256", Buffer.from(""), pems.rsaPublic),
          () => crypto.createSign("sha256").sign(undefined as never),
          () => crypto.privateDecrypt(pems.rsa, Buffer.alloc(3)),
          () => crypto.createECDH("nope"),
          () => crypto.createECDH("secp256k1").computeSecret(Buffer.alloc(3)),
          () => crypto.generateKeyPairSync("nope" as never),
          () => crypto.generateKeyPairSync("ec", { namedCurve: "nope" }),
          () => crypto.createPublicKey(pems.ec).export({ format: "jwk", type: "nope" as never }) && "exported",
          () => crypto.createPublicKey(pems.ec).export({ format: "nope" as never }),
          () => new crypto.X509Certificate("nothing"),
          () => Reflect.construct(crypto.KeyObject, []) as unknown,
        ].map((run) => {
          try {
            return String(run());
          } catch (error) {
            return error instanceof Error;
          }
        });
      },
    ],
    [
      "ciphers with an authentication tag",
      () => {
        const { createCipheriv, createDecipheriv } = process.getBuiltinModule("node:crypto");
        const [key, nonce] = [Buffer.alloc(16, 1), Buffer.alloc(12, 2)];
        return (["aes-128-ccm", "aes-128-ocb"] as const).map((name) => {
          const options = { authTagLength: 12 };
          const cipher = createCipheriv(name as "aes-128-ccm", key, nonce, options);
          cipher.setAAD(Buffer.from("aad"), { plaintextLength: 6 });
          const sealed = Buffer.concat([cipher.update("secret"), cipher.final()]);
          const tag = cipher.getAuthTag();
          const open = createDecipheriv(name as "aes-128-ccm", key, nonce, options);
          open.setAuthTag(tag);
          open.setAAD(Buffer.from("aad"), { plaintextLength: 6 });
          return [
            sealed.toString("hex"),
            tag.toString("hex"),
            open.update(sealed, undefined, "utf8") + open.final("utf8"),
          ];
        });
      },
    ],
  ])("%s", async ([, run]) => {
    await expectLikeNode(run as (pems: Pems) => unknown, PEMS);
  });

  test("Node accepts signatures and keys of a guest", async () => {
    const [signature, pair] = await inGuest((pems: Pems) => {
      const { createSign, generateKeyPairSync } = process.getBuiltinModule("node:crypto");
      const encodings = {
        publicKeyEncoding: { type: "spki", format: "pem" },
        privateKeyEncoding: { type: "pkcs8", format: "pem" },
      } as const;
      return [
        createSign("sha256").update("from a guest").sign(pems.ec, "hex"),
        generateKeyPairSync("rsa", { modulusLength: 2048, ...encodings }),
      ] as const;
    }, PEMS);
    expect(crypto.verify("sha256", Buffer.from("from a guest"), EC.publicKey, Buffer.from(signature, "hex"))).toBe(
      true,
    );
    expect(crypto.createPublicKey(pair.privateKey).equals(crypto.createPublicKey(pair.publicKey))).toBe(true);
  });
});

describe("an operation that would block a thread for too long is rejected before it starts", () => {
  test.for<readonly [string, string, RegExp]>([
    [
      "a long RSA key while the guest waits",
      `crypto.generateKeyPairSync("rsa", { modulusLength: 4096 })`,
      /at most 2048 bits/,
    ],
    [
      "a longer key asynchronously",
      `require("util").promisify(crypto.generateKeyPair)("rsa", { modulusLength: 8192 })`,
      /at most 4096 bits/,
    ],
    [
      "an exponent that few primes match",
      `crypto.generateKeyPairSync("rsa", { modulusLength: 1024, publicExponent: 3 * 5 * 7 * 11 * 13 * 17 * 19 * 23 * 29 })`,
      /public exponent of 3, 5/,
    ],
    ["DSA's prime", `crypto.generateKeyPairSync("dsa", { modulusLength: 1024 })`, /callback/],
    ["a prime for Diffie-Hellman", `crypto.generateKeyPairSync("dh", { primeLength: 1024 })`, /group/],
    ["a prime of the guest", `crypto.createDiffieHellman(Buffer.alloc(256, 255))`, /getDiffieHellman/],
  ])("%s", async ([, expression, message]) => {
    const said = await inGuest(`async () => {
      const crypto = process.getBuiltinModule("crypto");
      const require = (name) => process.getBuiltinModule(name);
      try { await ${expression}; return "done"; } catch (error) { return error.message; }
    }`);
    expect(said).toMatch(message);
  });

  test("rejects a passphrase of millions of rounds, in PEM and in DER", async () => {
    const rounds = (key: Buffer): Buffer => {
      // PBKDF2's rounds, 2048 as OpenSSL writes them, become 0x7fffff.
      const at = key.indexOf(Buffer.from([0x02, 0x02, 0x08, 0x00]));
      const patched = Buffer.concat([
        key.subarray(0, at),
        Buffer.from([0x02, 0x03, 0x7f, 0xff, 0xff]),
        key.subarray(at + 4),
      ]);
      // Each sequence around it is one byte longer.
      for (const start of [0, 4, 17, 19 + 11 - 0]) {
        if (patched[start] !== 0x30) continue;
        if (patched[start + 1] === 0x82) patched.writeUInt16BE(patched.readUInt16BE(start + 2) + 1, start + 2);
        else patched[start + 1] = (patched[start + 1] as number) + 1;
      }
      return patched;
    };
    const der = rounds(
      RSA.privateKey.export({ format: "der", type: "pkcs8", cipher: "aes-256-cbc", passphrase: "open" }) as Buffer,
    );
    const said = await inGuest((hex: string) => {
      const { createPrivateKey } = process.getBuiltinModule("node:crypto");
      const key = Buffer.from(hex, "hex");
      const text = `-----BEGIN ENCRYPTED PRIVATE KEY-----\n${key.toString("base64")}\n-----END ENCRYPTED PRIVATE KEY-----\n`;
      return [
        { key, format: "der", type: "pkcs8", passphrase: "open" },
        { key: text, passphrase: "open" },
      ].map((given) => {
        try {
          return createPrivateKey(given as never).type;
        } catch (error) {
          return (error as Error).message;
        }
      });
    }, der.toString("hex"));
    expect(said).toEqual(Array(2).fill(expect.stringMatching(/600000 rounds/)));
  });

  test("a CryptoKey that is not extractable becomes no KeyObject", async () => {
    const said = await inGuest(async () => {
      const { KeyObject, subtle } = process.getBuiltinModule("node:crypto");
      const pair = await subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, false, ["sign", "verify"]);
      const secret = await subtle.generateKey({ name: "AES-GCM", length: 128 }, false, ["encrypt"]);
      return [pair.privateKey, secret].map((key) => {
        try {
          return KeyObject.from(key).type;
        } catch (error) {
          return (error as Error).message;
        }
      });
    });
    expect(said).toEqual(Array(2).fill(expect.stringMatching(/not extractable/)));
  });

  test("rejects more keys than there is room for", async () => {
    const said = await inGuest((pems: Pems) => {
      const { createPublicKey } = process.getBuiltinModule("node:crypto");
      const kept: unknown[] = [];
      try {
        for (let count = 0; count < 5_000; count += 1) kept.push(createPublicKey(pems.edPublic));
      } catch (error) {
        return [kept.length, (error as Error).message];
      }
      return [kept.length];
    }, PEMS);
    expect(said).toEqual([1_024, expect.stringMatching(/open already/)]);
  });
});
