// Tests of the table of engine features: its names, and that each row has a description and a reason.
import { describe, expect, test } from "vitest";
import {
  ENGINE_FEATURE_NAMES,
  ENGINE_FEATURES,
  EngineFeatureSchema,
  isEngineFeature,
} from "../../src/sandbox/contract/engine-features.ts";

describe("ENGINE_FEATURES", () => {
  test.for(ENGINE_FEATURE_NAMES)("%s has a description and a reason", (name) => {
    const { about, reason } = ENGINE_FEATURES[name];
    for (const text of [about, reason]) expect(text).toMatch(/^[A-Za-z].{20,}[^.]$/);
  });

  test.for(ENGINE_FEATURE_NAMES)("%s is accepted by the schema and the type guard", (name) => {
    expect([EngineFeatureSchema.safeParse(name).success, isEngineFeature(name)]).toEqual([true, true]);
  });

  test.for(["", "WebAssembly", "constructor", "__proto__", "toString", "log", "stringtocode"])(
    "%j is not a feature",
    (name) => {
      expect([EngineFeatureSchema.safeParse(name).success, isEngineFeature(name)]).toEqual([false, false]);
    },
  );
});
