// Values of megabytes, as many as may be pending: the largest that kv accepts, and larger ones, which it rejects.
import { testAttack } from "../support.ts";
import { newKvFile } from "./kv-file.ts";

testAttack("values of megabytes for kv", {
  source: `export default async (_, { kv }) => {
    const text = "x".repeat(1_000_000), bytes = new Uint8Array(3_000_000);
    for (;;) await Promise.allSettled(Array.from({ length: 20 }, (_, n) => kv.set("k" + n, n % 2 ? text : bytes)));
  };`,
  features: ["kv"],
  kv: newKvFile(),
  limits: { kvBytes: 5_000_000 },
  codes: ["MEMORY_LIMIT", "SANDBOX_CRASHED", "TOOL_TIMEOUT", "QUOTA_EXCEEDED"],
  timeoutMs: 2_000,
});
