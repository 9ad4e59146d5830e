// A key of 60,000 bits leaves an error in a queue of OpenSSL's, and the next AES operation takes it for its own and aborts the process.
import { testAttack } from "../support.ts";

testAttack("a key that makes the next operation abort", {
  source: `export default async () => { const { subtle } = crypto; const aes = await subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["encrypt", "unwrapKey"]); const der = (tag, body) => [tag, 0x83, body.length >> 16, (body.length >> 8) & 255, body.length & 255, ...body]; for (const bytes of [1000, 2100, 7500]) { const modulus = Array.from({ length: bytes }, () => 0x77); const text = btoa(String.fromCharCode(...modulus)).replace(/\\+/g, "-").replace(/\\//g, "_").replace(/=/g, ""); const spki = Uint8Array.from(der(0x30, [0x30, 13, 6, 9, 42, 134, 72, 134, 247, 13, 1, 1, 1, 5, 0, ...der(3, [0, ...der(0x30, [...der(2, modulus), 2, 3, 1, 0, 1])])])); for (const [format, data] of [["jwk", { kty: "RSA", n: text, e: "AQAB" }], ["spki", spki]]) { await subtle.importKey(format, data, { name: "RSA-PSS", hash: "SHA-256" }, true, ["verify"]).catch(() => {}); const sealed = await subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, aes, spki); await subtle.unwrapKey("spki", sealed, aes, { name: "AES-GCM", iv: new Uint8Array(12) }, { name: "RSA-PSS", hash: "SHA-256" }, true, ["verify"]).catch(() => {}); await subtle.encrypt({ name: "AES-GCM", iv: new Uint8Array(12) }, aes, spki); } } return "alive"; };`,
  codes: ["ok"],
  timeoutMs: 3_000,
});
