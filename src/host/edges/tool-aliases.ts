// Names as providers take them: ours may have dots and twice the length.
import { createHash } from "node:crypto";

const PROVIDER_NAME = /^[A-Za-z0-9_-]{1,64}$/;

/** For each name another one that providers take, its own where they take that; no two alike, and always the same for the same names. */
export function toAliases(names: readonly string[]): ReadonlyMap<string, string> {
  const taken = new Set(names.filter((name) => PROVIDER_NAME.test(name)));
  return new Map(
    names.map((name) => {
      if (PROVIDER_NAME.test(name)) return [name, name];
      const hash = createHash("sha256").update(name).digest("hex");
      let alias: string;
      let digits = 6;
      do {
        digits += 2;
        alias = `${name.replaceAll(/[^A-Za-z0-9_-]/g, "_").slice(0, 63 - digits)}_${hash.slice(0, digits)}`;
      } while (taken.has(alias));
      taken.add(alias);
      return [name, alias];
    }),
  );
}
