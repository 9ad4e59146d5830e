// A tool named after an inherited property. A registry that is a plain object would find that property, or be modified.
import { expect } from "vitest";
import { testAttack } from "../support.ts";

testAttack("a tool named __proto__", {
  source: `export default { name: '__proto__', description: 'x', execute: () => 1 };`,
  codes: ["TOOL_UNAVAILABLE", "BUNDLE_FAILED", "PARAM_INVALID"],
  check: () => expect(({} as { readonly execute?: unknown }).execute).toBeUndefined(),
});
