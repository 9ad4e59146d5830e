// Schemas of what a control plane sends to an executor as text and the executor passes to its workers: the settings of a tool, and the start of
// a repeatable call.
import * as z from "zod";
import { ENGINE_FEATURE_NAMES, EngineFeatureSchema } from "../contract/engine-features.ts";
import { LimitsSchema } from "../contract/limits.ts";
import { CapabilityNameSchema, CountSchema } from "./field-schemas.ts";
import type { DeterministicStart, WorkerToolProfile } from "./host-messages.ts";
import { ISOLATE_LIFETIMES, MAX_MEMBER_LENGTH, MAX_MEMBERS, MAX_SEED_LENGTH } from "./message-fields.ts";
import { MEMBER_MODULES } from "./platform-modules.ts";
import { TURN_MODES } from "./turns.ts";

const memberNames = z.array(z.string().max(MAX_MEMBER_LENGTH)).max(MAX_MEMBERS).readonly().optional();

export const WorkerToolProfileSchema: z.ZodType<WorkerToolProfile> = z.strictObject({
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
  isolateLifetime: z.enum(ISOLATE_LIFETIMES),
  prewarm: z.boolean(),
  logSourceLocations: z.boolean(),
  isRecorded: z.literal(true).optional(),
  limits: LimitsSchema,
  features: z.array(EngineFeatureSchema).max(ENGINE_FEATURE_NAMES.length),
  coarseTime: z.boolean(),
  granted: z.array(CapabilityNameSchema).max(256),
  denied: z.array(CapabilityNameSchema).max(256),
  descriptors: z
    .record(
      CapabilityNameSchema,
      z.strictObject({
        platformModule: z.enum(MEMBER_MODULES).optional(),
        members: memberNames,
        uncounted: memberNames,
      }),
    )
    .optional(),
});

export const DeterministicStartSchema: z.ZodType<DeterministicStart> = z.strictObject({
  seed: z.string().max(MAX_SEED_LENGTH),
  now: CountSchema,
  mode: z.enum(TURN_MODES).optional(),
  rollbackMs: z.int().min(1).max(3_600_000).optional(),
});
