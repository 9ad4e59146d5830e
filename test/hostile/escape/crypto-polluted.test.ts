// The crypto module runs in the guest's realm: polluted prototypes harm only the guest, and reveal no key that it was not given.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("polluted prototypes under crypto", {
  source: `export default async () => { const { subtle } = crypto; const secret = await subtle.generateKey({ name: "AES-GCM", length: 128 }, false, ["encrypt"]); const seen = []; Array.prototype[Symbol.iterator] = function* () { seen.push(typeof this); for (let i = 0; i < this.length; i += 1) yield this[i]; }; Map.prototype.get = () => ({ resolve(value) { seen.push(value?.buffers?.[0] instanceof ArrayBuffer ? "leaked" : "kept"); }, reject(error) { seen.push(error.name); }, bytes: 0 }); JSON.stringify = () => '{"method":"exportKey","args":["raw",1]}'; Object.defineProperty(Object.prototype, "then", { configurable: true, get() { return undefined; } }); Object.defineProperty(Object.prototype, "extractable", { get: () => true, configurable: true }); Uint8Array.prototype.set = () => ({ length: 1e9 }); for (const attempt of [() => subtle.exportKey("raw", secret), () => subtle.digest("SHA-1", { __proto__: Uint8Array.prototype, byteLength: 1e12, buffer: {} }), () => crypto.getRandomValues(new Uint8Array(8)), () => structuredClone(secret)]) try { void attempt()?.catch?.(() => {}); } catch {} await new Promise((done) => setTimeout(done, 50)); return seen.includes("leaked") ? "leaked" : "kept"; };`,
  codes: ["ok", "TOOL_FAILED", "OUTPUT_INVALID", "TOOL_TIMEOUT"],
  check: (result) => expect(JSON.stringify(result)).not.toContain("leaked"),
});
