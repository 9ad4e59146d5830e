// The table of what the engine can give: what of it is a name, and that each row says why it is not given to everybody.
import { describe, expect, test } from "vitest";
import {
  ENGINE_FEATURE_NAMES,
  ENGINE_FEATURES,
  EngineFeatureSchema,
  isEngineFeature,
} from "../../src/sandbox/contract/engine-features.ts";

describe("ENGINE_FEATURES", () => {
  test.for(ENGINE_FEATURE_NAMES)("%s says what it gives, and why only when granted", (name) => {
    const { about, reason } = ENGINE_FEATURES[name];
    for (const text of [about, reason]) expect(text).toMatch(/^[A-Za-z].{20,}[^.]$/);
  });

  test.for(ENGINE_FEATURE_NAMES)("%s is a name for the schema and for the guard", (name) => {
    expect([EngineFeatureSchema.safeParse(name).success, isEngineFeature(name)]).toEqual([true, true]);
  });

  test.for(["", "WebAssembly", "constructor", "__proto__", "toString", "log", "stringtocode"])("%j is none", (name) => {
    expect([EngineFeatureSchema.safeParse(name).success, isEngineFeature(name)]).toEqual([false, false]);
  });
});
