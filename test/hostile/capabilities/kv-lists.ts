// Small requests with answers of megabytes, which arrive together.
import { testAttack } from "../support.ts";

testAttack("lists of large values at the same time", {
  source: `export default async (_, { kv }) => {
    const value = "\\u0001".repeat(150_000);
    for (let at = 0; at < 4; at += 1) await kv.set("key" + at, value);
    const lists = await Promise.all(Array.from({ length: 60 }, () => kv.list()));
    return lists.length;
  };`,
  features: ["kv"],
  codes: ["ok", "MEMORY_LIMIT", "SANDBOX_CRASHED"],
});
