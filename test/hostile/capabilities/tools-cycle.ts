// Two tools call each other and themselves in a loop. Each attempt fails before it begins, and the number of attempts is limited.
import { testAttack } from "../support.ts";

const source = (other: string): string => `export default async (_, { tools }) => {
  for (;;) await Promise.allSettled(Array.from({ length: 50 }, (_, n) => (n % 2 ? tools.attack() : tools.${other}())));
};`;

testAttack("tools that call each other in a cycle", {
  source: source("second"),
  others: { second: source("attack") },
  features: ["tools"],
  codes: ["TOOL_TIMEOUT", "QUOTA_EXCEEDED", "CAPABILITY_DENIED"],
  timeoutMs: 2_000,
});
