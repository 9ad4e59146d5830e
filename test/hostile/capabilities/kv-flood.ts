// Endless writes to a file: at most a hundred are pending, a thousand are done, and no other tenant waits for the disk.
import { testAttack } from "../support.ts";
import { newKvFile } from "./kv-file.ts";

testAttack("a flood of writes to kv", {
  source: `export default async (_, { kv }) => {
    const value = "x".repeat(20_000);
    for (let n = 0; ; n += 1) await Promise.all(Array.from({ length: 90 }, (_, i) => kv.set(n + " " + i, value)));
  };`,
  features: ["kv"],
  kv: newKvFile(),
  codes: ["QUOTA_EXCEEDED", "TOOL_TIMEOUT"],
  timeoutMs: 2_000,
});
