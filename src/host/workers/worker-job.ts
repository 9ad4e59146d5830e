// What the pool hands to a worker process: the parts it is started from, the settings of a tool, and the calls of it.
import type { ExtractionProfile, WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import type { PlatformModuleName } from "../../sandbox/protocol/platform-modules.ts";
import type { Deterministic } from "../../sandbox/worker/random-bytes.ts";
import type { Launcher, StartOptions } from "./hardening/launcher.ts";
import type { Inspector } from "./process/inspected-isolate.ts";
import type { EngineCache } from "./spawn/engine-cache.ts";
import type { PythonSources } from "./spawn/python-setup.ts";
import type { WorkerKind } from "./worker-kind.ts";

/**
 * `once`: tool and bundle belong to this call only, and the worker drops them when the call has begun. `resumes`: an
 * earlier call of the session has left its isolate.
 */
export interface SessionOrder {
  readonly id: number;
  readonly once: boolean;
  readonly resumes?: true | undefined;
}

/** Instruction from the pool to a worker. */
export type CallOrder =
  | {
      readonly type: "call";
      readonly tool: WorkerToolProfile;
      readonly callId: string;
      readonly tenantId: string;
      /** The caller reads chunks as the tool yields them. */
      readonly stream?: true | undefined;
      readonly deterministic?: Deterministic | undefined;
      /** The session whose isolate the call runs in. The isolate outlives the call. */
      readonly session?: SessionOrder | undefined;
      /** Only loads the tool, for a later call. `like` is the id of the tool whose call rate predicts this one's. */
      readonly prewarm?: { readonly like: number | undefined } | undefined;
    }
  | ({ readonly type: "extract" } & ExtractionProfile);

/** A bundle. It is sent once to each worker that runs it. */
export interface SentBundle {
  readonly sha256: string;
  readonly code: string;
  readonly codeCache: Uint8Array;
  /** Platform modules that its isolates use, as far as known when a worker receives the bundle. */
  readonly modules: { readonly names: readonly PlatformModuleName[] };
}

/** A call together with everything that a worker needs to run it. */
export interface WorkerJob {
  readonly order: CallOrder;
  readonly bundle: SentBundle;
  /** JSON text, or its bytes where it is large. */
  readonly input: string | Uint8Array;
  /** Binary attachments of the input: a BytesHeader as JSON text, and the bytes. */
  readonly inputBytes?: readonly [header: string, data: Uint8Array] | undefined;
  /** Returns the remaining time of the call in ms. */
  readonly leftMs?: (() => number) | undefined;
}

export interface WorkerSources {
  /** Disposed together with the worker manager. */
  readonly launcher: Launcher;
  readonly preludeSource: string;
  readonly preludeCache: EngineCache;
  readonly moduleCache: EngineCache;
  /** For warm Python processes, and for others by default; undefined until a Python tool is registered. */
  readonly python?: PythonSources | undefined;
  /** Set only if an operator at the host's terminal enabled inspection. */
  readonly inspector?: Inspector | undefined;
}

/** How a process is started, and of which kind. */
export interface WorkerStart extends Omit<StartOptions, "dataBytes"> {
  /** @default "plain" */
  readonly kind?: WorkerKind | undefined;
  readonly dataBytes?: number | undefined;
  /** What a Python process is started from. Default: the newest of the pool. */
  readonly interpreter?: PythonSources | undefined;
}
