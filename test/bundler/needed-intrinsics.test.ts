// Tests which intrinsics the package behind util.inspect can see: those that its text names.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { neededIntrinsics } from "../../src/bundler/artifacts/needed-intrinsics.ts";

test("finds a name in any spelling, and no unused names", () => {
  const needed = neededIntrinsics(
    "const { ArrayPrototypePushApply, MapPrototypeGetSize: size, JSONStringify } = r; x.includes(y); MathMax",
  );
  for (const name of ["push", "size", "stringify", "includes", "max"]) expect(needed).toContain(name);
  for (const name of ["copyWithin", "toSpliced", "parse", "min"]) expect(needed).not.toContain(name);
});

test("the package needs a small part of the intrinsics", () => {
  const text = readFileSync(createRequire(import.meta.url).resolve("node-inspect-extracted"), "utf8");
  const needed = neededIntrinsics(text);
  for (const name of ["has", "get", "set", "forEach", "exec", "valueOf", "next", "getOwnPropertyDescriptor"])
    expect(needed).toContain(name);
  expect(needed.length).toBeLessThan(300);
});
