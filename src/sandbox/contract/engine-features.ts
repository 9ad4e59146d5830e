// Table of the V8 features that a guest has only if the host grants them, with what each provides and why it needs a grant.
import * as z from "zod";
import type { EngineFeature } from "../protocol/guest-messages.ts";

// The type is declared in the protocol because the names cross the isolate boundary, and the guest does not import this file.
export type { EngineFeature };

interface FeatureRow {
  /** Description of the feature. */
  readonly about: string;
  /** Why the feature needs a grant. */
  readonly reason: string;
  /** Its memory is outside V8's heap limit: a tool with this feature runs alone in a process that the operating system limits. */
  readonly passesMemoryLimit?: true;
}

/** Features are granted by name like capabilities, but they are globals or methods rather than members of `ctx`. Each is independent. */
export const ENGINE_FEATURES = {
  webAssembly: {
    about: "the WebAssembly global: runs compiled modules as machine code",
    reason:
      "its memory can exceed memoryMiB (4 GB measured), its compiler is much of V8's attack surface, and a module with shared memory can block its thread with memory.atomic.wait",
    passesMemoryLimit: true,
  },
  sharedArrayBuffer: {
    about: "the SharedArrayBuffer global; a guest has one thread, so nothing else sees the memory",
    reason: "few tools need it, and shared memory makes it possible to build a clock finer than the engine's",
    passesMemoryLimit: true,
  },
  atomics: {
    about: "the Atomics global, including Atomics.wait",
    reason: "Atomics.wait blocks its thread without using CPU time",
  },
  resizableBuffers: {
    about: "maxByteLength, resize() and grow() of array buffers",
    reason: "a resizable buffer reserves and commits memory past memoryMiB (2.2 GB measured)",
    passesMemoryLimit: true,
  },
  stringToCode: {
    about:
      "eval, Function and its three siblings; available without a grant unless the option engine.dynamicCode is false",
    reason:
      "text from an input or a response becomes code that the bundler has not checked; compiling a large text cannot be interrupted",
  },
} as const satisfies { readonly [Name in EngineFeature]: FeatureRow };

export const ENGINE_FEATURE_NAMES: readonly EngineFeature[] = Object.keys(ENGINE_FEATURES) as EngineFeature[];
export const EngineFeatureSchema: z.ZodType<EngineFeature> = z.enum(ENGINE_FEATURE_NAMES);
/** Returns those features whose memory V8 does not count. */
export const unlimitedFeatures = (features: readonly EngineFeature[]): readonly EngineFeature[] =>
  features.filter((name) => (ENGINE_FEATURES[name] as FeatureRow).passesMemoryLimit === true);
export const isEngineFeature = (name: string): name is EngineFeature => Object.hasOwn(ENGINE_FEATURES, name);
