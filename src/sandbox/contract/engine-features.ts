// What V8 has and a guest has only if its host allows it: one row each, with what it gives and why a host decides.
import * as z from "zod";
import type { EngineFeature } from "../protocol/guest-messages.ts";

// The names are words that cross the isolate wall, so they are written there; the guest imports no other file of this folder.
export type { EngineFeature };

interface FeatureRow {
  /** What a tool gets. */
  readonly about: string;
  /** Why its host decides. */
  readonly reason: string;
  /** V8 does not count its memory: a tool that has it runs alone in a process that the operating system limits. */
  readonly passesMemoryLimit?: true;
}

/** Granted by name, as capabilities are, but parts of the engine and not members of `ctx`. Each works without the others. */
export const ENGINE_FEATURES = {
  webAssembly: {
    about: "the WebAssembly global: compiled modules at the speed of machine code",
    reason:
      "its memory passes memoryMiB (4 GB measured), its compiler is much of V8's attack surface, and a module with shared memory can block its thread with memory.atomic.wait",
    passesMemoryLimit: true,
  },
  sharedArrayBuffer: {
    about: "the SharedArrayBuffer global; a guest has one thread, so nothing else sees the memory",
    reason: "few tools need it, and shared memory is what clocks finer than the engine's are made of",
    passesMemoryLimit: true,
  },
  atomics: {
    about: "the Atomics global, Atomics.wait included",
    reason: "Atomics.wait holds its thread while nothing runs",
  },
  resizableBuffers: {
    about: "maxByteLength, resize() and grow() of the buffers that a tool has",
    reason: "a resizable buffer reserves and commits memory past memoryMiB (2.2 GB measured)",
    passesMemoryLimit: true,
  },
  stringToCode: {
    about: "eval, Function and its three siblings; tools have it without a grant unless engine.dynamicCode is false",
    reason:
      "text from an input or an answer becomes code that no bundler has seen; compiling a large text cannot be stopped",
  },
} as const satisfies { readonly [Name in EngineFeature]: FeatureRow };

export const ENGINE_FEATURE_NAMES: readonly EngineFeature[] = Object.keys(ENGINE_FEATURES) as EngineFeature[];
export const EngineFeatureSchema: z.ZodType<EngineFeature> = z.enum(ENGINE_FEATURE_NAMES);
/** Those of them whose memory V8 does not count. */
export const unlimitedFeatures = (features: readonly EngineFeature[]): readonly EngineFeature[] =>
  features.filter((name) => (ENGINE_FEATURES[name] as FeatureRow).passesMemoryLimit === true);
export const isEngineFeature = (name: string): name is EngineFeature => Object.hasOwn(ENGINE_FEATURES, name);
