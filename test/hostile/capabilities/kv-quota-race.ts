// Concurrent writes from many calls and to one key. No more than the quota is accepted.
import { expect } from "vitest";
import { outputOf } from "../../support/host-zone.ts";
import { testAttack } from "../support.ts";
import { newKvFile } from "./kv-file.ts";

testAttack("a race for the last places in kv", {
  source: `export default async (_, { kv, tools }) => {
    const race = () => Promise.allSettled(Array.from({ length: 40 }, (_, n) => kv.set("k" + n, 1)));
    await Promise.all([race(), race()]);
    for (let n = 0; n < 40; n += 3) await kv.delete("k" + n);
    await race();
    return (await kv.list({ limit: 1000 })).entries.length;
  };`,
  features: ["kv"],
  kv: newKvFile(),
  limits: { kvKeys: 10 },
  codes: ["ok", "TOOL_TIMEOUT"],
  timeoutMs: 5_000,
  check: (result) => {
    if (result.success) expect(outputOf(result)).toBe(10);
  },
});
