// Thousands of key pairs and derivations at once. Only the end of the process stops the threads that they run on.
import { testAttack } from "../support.ts";

testAttack("a storm of long cryptography", {
  source: `export default async () => { const { subtle } = crypto; const key = await subtle.importKey("raw", new Uint8Array(8), "PBKDF2", false, ["deriveBits"]); const jobs = []; for (let i = 0; i < 2000; i += 1) { jobs.push(subtle.generateKey({ name: "RSA-PSS", modulusLength: 4096, publicExponent: new Uint8Array([1, 0, 1]), hash: "SHA-1" }, true, ["sign"]), subtle.deriveBits({ name: "PBKDF2", hash: "SHA-512", salt: new Uint8Array(8), iterations: 3999999 }, key, 512)); } await Promise.allSettled(jobs); };`,
  codes: ["TOOL_TIMEOUT"],
});
