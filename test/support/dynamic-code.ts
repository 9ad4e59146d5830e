// The default for dynamic code in test guests: on, as in production, and off in a project of vitest.config.ts
// that runs the affected attacks a second time.
import type { EngineFeature } from "../../src/sandbox/contract/engine-features.ts";

/** False where the environment variable GLOVEBOX_TEST_DYNAMIC_CODE is `off`. */
export const DYNAMIC_CODE: boolean = process.env.GLOVEBOX_TEST_DYNAMIC_CODE !== "off";

/** Engine features that a JavaScript tool has without a grant. */
export const DEFAULT_FEATURES: readonly EngineFeature[] = DYNAMIC_CODE ? ["stringToCode"] : [];
