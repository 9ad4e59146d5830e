// One version of a sandboxed tool in the worker processes: the profiles of its calls, and its warm isolates. An update
// warms the new version wherever the old one is in use before it switches, and then releases the old one.
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type EngineFeature, unlimitedFeatures } from "../../sandbox/contract/engine-features.ts";
import type { LimitName, Limits } from "../../sandbox/contract/limits.ts";
import type { CapabilityDescriptors } from "../../sandbox/protocol/guest-messages.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import type { IsolateLifetime } from "../../sandbox/protocol/message-fields.ts";
import type { CallPool } from "../workers/call-pool.ts";
import type { WarmUse } from "../workers/pool-job.ts";
import type { SentBundle } from "../workers/worker-job.ts";

/** Properties of a tool that a profile depends on. */
interface ProfiledTool {
  readonly bundle: Pick<ToolBundle, "sha256">;
  readonly isolateLifetime: IsolateLifetime;
  readonly prewarm: boolean;
  readonly granted: ReadonlyMap<string, unknown>;
  readonly denied: readonly string[];
  readonly descriptors?: CapabilityDescriptors | undefined;
  readonly features: readonly EngineFeature[];
  readonly python?: unknown;
}

/** Limits and clock resolution of a tenant's calls. */
export type CallSettings = Pick<WorkerToolProfile, "limits" | "coarseTime">;

/** Maximum number of profiles of one tool. Tenants may have different limits and clocks. */
const MAX_PROFILES = 256;
/** Maximum number of isolates made ahead for one tenant in one process: half of those that a process keeps idle. */
const MAX_AHEAD = 8;
/** Longest time in ms that an update waits for warm isolates, for example on a busy machine. */
const WAIT_MS = 5_000;

export class WarmVersion {
  readonly #tool: ProfiledTool;
  readonly #sent: SentBundle;
  readonly #pool: CallPool;
  readonly #profiles: WorkerToolProfile[] = [];
  #running = 0;
  #isRetired = false;

  constructor(tool: ProfiledTool, sent: SentBundle, pool: CallPool) {
    this.#tool = tool;
    this.#sent = sent;
    this.#pool = pool;
  }

  /** Returns the same object for equal settings, because a process identifies a profile by its identity. */
  profileOf(
    { limits, coarseTime }: CallSettings,
    logSourceLocations: boolean,
    isRecorded: boolean = false,
  ): WorkerToolProfile {
    const known = this.#profiles.find(
      (profile) =>
        profile.coarseTime === coarseTime &&
        profile.logSourceLocations === logSourceLocations &&
        (profile.isRecorded === true) === isRecorded &&
        sameLimits(profile.limits, limits),
    );
    if (known !== undefined) return known;
    const profile = {
      ...toProfile(this.#tool, limits, { coarseTime, logSourceLocations }),
      ...(isRecorded ? { isRecorded: true as const } : {}),
    };
    if (this.#profiles.push(profile) > MAX_PROFILES) this.#profiles.shift();
    return profile;
  }

  /** Records that a call of this version begins. */
  begin(): void {
    this.#running += 1;
  }

  /** Records that a call has ended. The last call of a retired version releases its warm isolates. */
  end(): void {
    this.#running -= 1;
    if (this.#isRetired && this.#running === 0) this.#release();
  }

  /**
   * Makes this version warm in each process that uses the earlier one, for the same tenants. Resolves when the isolates
   * are ready, could not be made, or took too long. Does nothing for Python, whose interpreters are ready for any tool.
   * @param settingsOf returns the settings of a tenant's calls; if it rejects, no isolates are made for that tenant
   */
  async follow(
    earlier: WarmVersion | undefined,
    settingsOf: (tenantId: string) => Promise<CallSettings>,
  ): Promise<void> {
    if (earlier === undefined || this.#tool.python !== undefined || !this.#tool.prewarm) return;
    const byWorker = Map.groupBy(this.#pool.usesOf(earlier.#profiles), ({ worker }) => worker);
    const { promise: late, resolve } = Promise.withResolvers<void>();
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      resolve();
    }, WAIT_MS);
    const warming = [...byWorker.values()].map(async (uses) => {
      // One at a time in each process, because new isolates take room that its calls may need.
      for (const use of uses) {
        for (let made = 0; made < Math.min(use.isolates, MAX_AHEAD) && !isLate; made += 1) {
          await this.#makeIsolate(use, settingsOf);
        }
      }
    });
    await Promise.race([Promise.allSettled(warming), late]);
    clearTimeout(timer);
  }

  async #makeIsolate(use: WarmUse, settingsOf: (tenantId: string) => Promise<CallSettings>): Promise<void> {
    const { tenantId } = use;
    const profile = this.profileOf(await settingsOf(tenantId), use.profile.logSourceLocations, use.profile.isRecorded);
    if (profile.prewarm) await this.#pool.prewarm(use, profile, this.#sent);
  }

  /** Releases the version's warm isolates. Calling it twice is a no-op. */
  retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#release();
  }

  #release(): void {
    // All Python tools share one bundle.
    const bundle = this.#tool.python === undefined ? this.#sent : undefined;
    this.#pool.release(this.#profiles, bundle);
  }
}

function toProfile(
  tool: ProfiledTool,
  limits: Limits,
  { coarseTime, logSourceLocations }: Pick<WorkerToolProfile, "coarseTime" | "logSourceLocations">,
): WorkerToolProfile {
  const granted = [...tool.granted.keys()].filter((name) => name !== "log");
  return {
    sha256: tool.bundle.sha256,
    isolateLifetime: tool.isolateLifetime,
    // With a memory limit of the operating system, there is room only for isolates of running calls.
    prewarm: tool.prewarm && (tool.python !== undefined || unlimitedFeatures(tool.features).length === 0),
    limits,
    features: [...tool.features],
    coarseTime,
    logSourceLocations,
    granted,
    denied: [...tool.denied],
    ...(tool.descriptors === undefined ? {} : { descriptors: tool.descriptors }),
  };
}

/** Compares all limits except wall time, which the host enforces without the worker. */
function sameLimits(a: Limits, b: Limits): boolean {
  if (a === b) return true;
  for (const name in a) {
    if (name !== "timeoutMs" && a[name as LimitName] !== b[name as LimitName]) return false;
  }
  return true;
}
