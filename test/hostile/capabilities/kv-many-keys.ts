// As many keys as the quota allows, then repeated lists of them all. Each page is bounded, regardless of the total number of keys.
import { testAttack } from "../support.ts";
import { newKvFile } from "./kv-file.ts";

testAttack("lists of many keys in kv", {
  source: `export default async (_, { kv }) => {
    for (let n = 0; n < 700; n += 70) await Promise.all(Array.from({ length: 70 }, (_, i) => kv.set("k".repeat(1000) + n + i, "v".repeat(10_000))));
    let entries = 0;
    for (let n = 0; n < 200; n += 1) entries += (await kv.list({ limit: 1000 })).entries.length;
    return entries;
  };`,
  features: ["kv"],
  kv: newKvFile(),
  codes: ["TOOL_TIMEOUT", "QUOTA_EXCEEDED", "MEMORY_LIMIT", "ok"],
  timeoutMs: 3_000,
});
