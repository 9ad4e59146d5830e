// A guest can send any key number to the crypto module. Numbers of keys of other isolates must not resolve.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("handles of keys of other isolates", {
  source: `const made = []; const stringify = JSON.stringify; let forged; JSON.stringify = (value, ...rest) => forged ?? stringify(value, ...rest); export default async () => { const { subtle } = crypto; for (let handle = -1; handle < 300; handle += 1) { forged = '{"method":"exportKey","args":["raw",' + handle + ']}'; const bytes = await subtle.exportKey("raw", {}).catch((error) => error); const answer = await subtle.digest("SHA-1", new Uint8Array(1)).catch((error) => error.name); made.push(bytes instanceof ArrayBuffer || answer instanceof ArrayBuffer); } forged = undefined; return made.some(Boolean) ? "leaked" : "nothing"; };`,
  codes: ["ok"],
  check: (result) => expect(result.success && result.output).toBe("nothing"),
});
