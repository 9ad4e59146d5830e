// Two tools that call each other, and themselves, in a loop: each try is refused before it begins, and there are only so many tries.
import { testAttack } from "../support.ts";

const source = (other: string): string => `export default async (_, { tools }) => {
  for (;;) await Promise.allSettled(Array.from({ length: 50 }, (_, n) => (n % 2 ? tools.attack() : tools.${other}())));
};`;

testAttack("tools that call each other in a circle", {
  source: source("second"),
  others: { second: source("attack") },
  features: ["tools"],
  codes: ["TOOL_TIMEOUT", "QUOTA_EXCEEDED", "CAPABILITY_DENIED"],
  timeoutMs: 2_000,
});
