// Tests base64 in the guest's platform, with V8's own codec and without it, as in the V8 of Node 24.
import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeBase64, encodeBase64, fromBase64, toBase64 } from "../../../src/sandbox/guest/platform/buffer/base64.ts";
import { FetchHost } from "../../support/fetch-host.ts";
import { runGuest } from "../../support/guest.ts";

const bytesOf = (buffer: Buffer): Uint8Array => new Uint8Array(buffer);

test("encodes and decodes what Buffer encodes and decodes", () => {
  fc.assert(
    fc.property(fc.uint8Array({ size: "large" }), (bytes) => {
      const text = Buffer.from(bytes).toString("base64");
      expect(encodeBase64(bytes)).toBe(text);
      expect(toBase64(bytes)).toBe(text);
      for (const decode of [decodeBase64, fromBase64]) {
        expect(decode(text)).toEqual(bytes);
        expect(decode(text.replace(/=+$/, ""))).toEqual(bytes);
      }
    }),
  );
});

test("encodes more than one call of String.fromCharCode takes", () => {
  const bytes = Uint8Array.from({ length: 100_001 }, (_, index) => index % 251);
  expect(encodeBase64(bytes)).toBe(Buffer.from(bytes).toString("base64"));
});

test("ignores white space", () => {
  expect(decodeBase64(" aGVs\r\n\tbG8\f= ")).toEqual(bytesOf(Buffer.from("hello")));
});

test.for(["a", "aaaaa", "a=b=", "aGVsbG8==", "aGVs=bG8=", "a-b_", "aé==", "=", "====", "aGV\u0100"])(
  "rejects %j",
  (text) => {
    expect(() => decodeBase64(text)).toThrow(SyntaxError);
    expect(() => fromBase64(text)).toThrow(SyntaxError);
  },
);

test("fetch, Buffer and data: URLs work without the codec that the V8 of Node 24 lacks", async () => {
  const host = new FetchHost(() => ({ body: ["hello ", "world"] }));
  const { value } = await runGuest(
    async () => {
      const lacking: readonly (readonly [object, readonly string[]])[] = [
        [Uint8Array, ["fromBase64", "fromHex"]],
        [Uint8Array.prototype, ["toBase64", "toHex", "setFromBase64", "setFromHex"]],
        [Map.prototype, ["getOrInsert", "getOrInsertComputed"]],
        [WeakMap.prototype, ["getOrInsert", "getOrInsertComputed"]],
        [Reflect.get(globalThis, "Iterator"), ["concat"]],
        [globalThis, ["Temporal"]],
      ];
      for (const [owner, names] of lacking) for (const name of names) Reflect.deleteProperty(owner, name);
      const response = await fetch("https://example.com/", { method: "POST", body: "ping" });
      const data = await fetch("data:;base64,aGVsbG8");
      const encodings = ["hex", "base64", "base64url"] as const;
      return [
        await response.text(),
        await data.text(),
        encodings.map((encoding) => Buffer.from(Buffer.from([250, 251, 252, 253]).toString(encoding), encoding)[3]),
      ];
    },
    { header: { granted: ["fetch"] }, capabilities: { fetch: host.answer } },
  );
  expect(value).toEqual(["hello world", "hello", [253, 253, 253]]);
  expect(host.messages[0]).toMatchObject({ body: { base64: "cGluZw==" } });
});
