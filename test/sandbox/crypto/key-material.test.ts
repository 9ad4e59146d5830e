import { createCipheriv, createHash, createPrivateKey, generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import { CryptoError } from "../../../src/sandbox/worker/crypto/errors.ts";
import { checkKey, readPem } from "../../../src/sandbox/worker/crypto/key-material.ts";
import { expectLinearTime } from "../../support/processes.ts";

const hex = (text: string): Buffer => Buffer.from(text, "hex");
function tlv(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}
const PBES2 = hex("06092a864886f70d01050d");
const AES = tlv(0x30, hex("060960864801650304012a"), tlv(4, Buffer.alloc(16, 2)));
const SECRET = tlv(4, Buffer.alloc(144, 3));
const SALT = tlv(4, Buffer.alloc(16, 1));
const withKdf = (...kdf: readonly Buffer[]): Buffer => tlv(0x30, PBES2, tlv(0x30, tlv(0x30, ...kdf), AES));
/** 5,000,000 rounds. */
const ALGORITHM = withKdf(hex("06092a864886f70d01050c"), tlv(0x30, SALT, tlv(2, hex("4c4b40"))));
const SLOW = tlv(0x30, ALGORITHM, SECRET);
const pem = (label: string, der: Buffer, head = ""): string =>
  `-----BEGIN ${label}-----\n${head}${der.toString("base64").replace(/.{64}/g, "$&\n")}\n-----END ${label}-----\n`;

function sealed(): [head: string, Buffer] {
  const iv = Buffer.alloc(16, 7);
  const key = createHash("md5").update("x").update(iv.subarray(0, 8)).digest();
  const cipher = createCipheriv("aes-128-cbc", key, iv);
  const head = `Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,${iv.toString("hex").toUpperCase()}\n\n`;
  return [head, Buffer.concat([cipher.update(SLOW), cipher.final()])];
}

/** Creates a private DSA key whose numbers have this many bytes. */
function dsaKey(bytes: number): Buffer {
  const large = tlv(2, Buffer.from([0x7f, ...new Array<number>(bytes - 1).fill(0xff)]));
  const algorithm = tlv(0x30, hex("06072a8648ce380401"), tlv(0x30, large, large, tlv(2, hex("02"))));
  return tlv(0x30, tlv(2, hex("00")), algorithm, tlv(4, large));
}

const asPem = (text: string) => () => readPem(Buffer.from(text), "private", true);
const [HEAD, SEALED] = sealed();
const INSIDE = Buffer.concat([ALGORITHM, SECRET]);
const LONG = Buffer.concat([hex("30840000"), Buffer.from([INSIDE.length >> 8, INSIDE.length & 255]), INSIDE]);

describe("rejects keys with too many derivation rounds in every encoding", () => {
  test.for<[what: string, () => unknown]>([
    ["DER", () => checkKey(SLOW, true)],
    ["a length with leading zero bytes", () => checkKey(LONG, true)],
    [
      "an indefinite length",
      asPem(pem("ENCRYPTED PRIVATE KEY", Buffer.concat([hex("3080"), ALGORITHM, SECRET, hex("0000")]))),
    ],
    ["PEM", asPem(pem("ENCRYPTED PRIVATE KEY", SLOW))],
    ["under the label of an unencrypted key", asPem(pem("PRIVATE KEY", SLOW))],
    [
      "inside another block",
      asPem(`-----BEGIN PRIVATE KEY----- x\n${pem("ENCRYPTED PRIVATE KEY", SLOW)}-----END PRIVATE KEY-----\n`),
    ],
    ["encrypted a second time at the PEM level", asPem(pem("ENCRYPTED PRIVATE KEY", SEALED, HEAD))],
    [
      "scrypt by a longer length",
      () => checkKey(tlv(0x30, withKdf(hex("0681092b06010401da47040b"), tlv(0x30, SALT)), SECRET), true),
    ],
    ["a possible DSA key inside", () => checkKey(tlv(0x30, withKdf(PBES2), tlv(4, Buffer.alloc(5_400))), true)],
  ])("%s", ([, check]) => expect(check).toThrow(CryptoError));
});

test("checks a PEM body of white space in linear time", () => {
  expectLinearTime((size) => {
    expect(asPem(`-----BEGIN PRIVATE KEY-----\n${" ".repeat(size)}!\n-----END PRIVATE KEY-----\n`)).toThrow(
      CryptoError,
    );
  }, 2_000);
});

test("rejects a DSA key whose public half would take long to compute", () => {
  expect(() => checkKey(dsaKey(5_000), false)).toThrow("A DSA key must have at most 2560 bytes");
  for (const [label, head] of [
    ["PRIVATE KEY", ""],
    ["RSA PRIVATE KEY", ""],
    ["RSA PRIVATE KEY", HEAD],
  ] as const) {
    expect(() => readPem(Buffer.from(pem(label, dsaKey(2_500), head)), "private", false)).toThrow(CryptoError);
  }
});

test("accepts common keys, encrypted or not", () => {
  const pairs = [
    generateKeyPairSync("ec", { namedCurve: "P-256" }),
    generateKeyPairSync("rsa", { modulusLength: 2_048 }),
    generateKeyPairSync("ml-dsa-87"),
    generateKeyPairSync("dsa", { modulusLength: 1_024, divisorLength: 160 }),
  ];
  for (const { privateKey } of pairs) {
    for (const secret of [{}, { cipher: "aes-256-cbc", passphrase: "x" }]) {
      const hasPassphrase = "cipher" in secret;
      const der = privateKey.export({ format: "der", type: "pkcs8", ...secret });
      expect(() => checkKey(der, hasPassphrase)).not.toThrow();
      const text = String(privateKey.export({ format: "pem", type: "pkcs8", ...secret }));
      const read = readPem(Buffer.from(text), "private", hasPassphrase);
      expect(createPrivateKey({ key: read, ...(hasPassphrase ? { passphrase: "x" } : {}) }).equals(privateKey)).toBe(
        true,
      );
    }
  }
});
