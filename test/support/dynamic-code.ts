// Whether guests of the tests have dynamic code unless a test says otherwise: on as by default, and off in a project of vitest.config.ts
// that runs the attacks to which it matters a second time.
import type { EngineFeature } from "../../src/sandbox/contract/engine-features.ts";

/** False where the environment variable GLOVEBOX_TEST_DYNAMIC_CODE is `off`. */
export const DYNAMIC_CODE: boolean = process.env.GLOVEBOX_TEST_DYNAMIC_CODE !== "off";

/** What a tool in JavaScript has of the engine without a grant. */
export const DEFAULT_FEATURES: readonly EngineFeature[] = DYNAMIC_CODE ? ["stringToCode"] : [];
