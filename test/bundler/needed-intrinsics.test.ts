// What the chunk of util.inspect lets its package see of the language's objects: all that its text names, and little else.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { neededIntrinsics } from "../../src/bundler/artifacts/needed-intrinsics.ts";

test("a name is found however it is written, and what nobody names is not", () => {
  const needed = neededIntrinsics(
    "const { ArrayPrototypePushApply, MapPrototypeGetSize: size, JSONStringify } = r; x.includes(y); MathMax",
  );
  for (const name of ["push", "size", "stringify", "includes", "max"]) expect(needed).toContain(name);
  for (const name of ["copyWithin", "toSpliced", "parse", "min"]) expect(needed).not.toContain(name);
});

test("the package itself asks for a small part", () => {
  const text = readFileSync(createRequire(import.meta.url).resolve("node-inspect-extracted"), "utf8");
  const needed = neededIntrinsics(text);
  for (const name of ["has", "get", "set", "forEach", "exec", "valueOf", "next", "getOwnPropertyDescriptor"])
    expect(needed).toContain(name);
  expect(needed.length).toBeLessThan(300);
});
