// One version of a sandboxed tool as worker processes know it: the profiles that its calls have had, and what is kept warm of it. An update
// makes the new version warm where the old one is, before the switch, and then releases the old one.
import type { ToolBundle } from "../../bundler/tool-bundle.ts";
import { type EngineFeature, unlimitedFeatures } from "../../sandbox/contract/engine-features.ts";
import type { LimitName, Limits } from "../../sandbox/contract/limits.ts";
import type { CapabilityShapes } from "../../sandbox/protocol/guest-messages.ts";
import type { Isolation } from "../../sandbox/protocol/messages.ts";
import type { WarmUse, WorkerPool } from "../workers/worker-pool.ts";
import type { SentBundle, WorkerToolProfile } from "../workers/worker-process.ts";

/** The parts of a tool that a profile depends on. */
interface ProfiledTool {
  readonly bundle: Pick<ToolBundle, "sha256">;
  readonly isolation: Isolation;
  readonly prewarm: boolean;
  readonly granted: ReadonlyMap<string, unknown>;
  readonly denied: readonly string[];
  readonly shapes?: CapabilityShapes | undefined;
  readonly features: readonly EngineFeature[];
  readonly python?: unknown;
}

/** Limits and clock of a tenant's calls. */
export type CallSettings = Pick<WorkerToolProfile, "limits" | "coarseTime">;

/** Kinds of calls of one tool that are remembered: tenants may have limits and a clock of their own. */
const MAX_PROFILES = 256;
/** Isolates that are made ahead for one tenant in one process: half of those that a process keeps idle. */
const MAX_AHEAD = 8;
/** An update waits this long for warm isolates: a busy machine makes calls wait, not updates. */
const WAIT_MS = 5_000;

export class WarmVersion {
  readonly #tool: ProfiledTool;
  readonly #sent: SentBundle;
  readonly #pool: WorkerPool;
  readonly #profiles: WorkerToolProfile[] = [];
  #running = 0;
  #isRetired = false;

  constructor(tool: ProfiledTool, sent: SentBundle, pool: WorkerPool) {
    this.#tool = tool;
    this.#sent = sent;
    this.#pool = pool;
  }

  /** Equal settings have the same object: a process knows a profile by its identity. */
  profileOf({ limits, coarseTime }: CallSettings, logPlaces: boolean): WorkerToolProfile {
    const known = this.#profiles.find(
      (profile) =>
        profile.coarseTime === coarseTime && profile.logPlaces === logPlaces && sameLimits(profile.limits, limits),
    );
    if (known !== undefined) return known;
    const profile = toProfile(this.#tool, limits, { coarseTime, logPlaces });
    if (this.#profiles.push(profile) > MAX_PROFILES) this.#profiles.shift();
    return profile;
  }

  /** A call of this version begins. */
  begin(): void {
    this.#running += 1;
  }

  /** A call of this version has ended: the last one of a retired version leaves nothing warm. */
  end(): void {
    this.#running -= 1;
    if (this.#isRetired && this.#running === 0) this.#release();
  }

  /**
   * Makes this version warm in each process in which the earlier one is in use, for the tenants that use it there. Resolves when the isolates
   * are ready, cannot be made, or have taken too long. Python has interpreters ready for every tool, so nothing is to be made.
   * @param settingsOf what a tenant's calls of this version are run with; it may reject, and then that tenant has no isolates made ahead
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
    const followAll = [...byWorker.values()].map(async (uses) => {
      // One at a time in each process: isolates that are made take room that its calls may need.
      for (const use of uses) {
        for (let made = 0; made < Math.min(use.isolates, MAX_AHEAD) && !isLate; made += 1) {
          await this.#makeOne(use, settingsOf);
        }
      }
    });
    await Promise.race([Promise.allSettled(followAll), late]);
    clearTimeout(timer);
  }

  async #makeOne(use: WarmUse, settingsOf: (tenantId: string) => Promise<CallSettings>): Promise<void> {
    const { tenantId } = use;
    const profile = this.profileOf(await settingsOf(tenantId), use.profile.logPlaces);
    if (profile.prewarm) await this.#pool.prewarm(use, profile, this.#sent);
  }

  /** Twice is a no-op. */
  retire(): void {
    if (this.#isRetired) return;
    this.#isRetired = true;
    this.#release();
  }

  #release(): void {
    // All tools in Python share one bundle.
    const bundle = this.#tool.python === undefined ? this.#sent : undefined;
    this.#pool.release(this.#profiles, bundle);
  }
}

function toProfile(
  tool: ProfiledTool,
  limits: Limits,
  { coarseTime, logPlaces }: Pick<WorkerToolProfile, "coarseTime" | "logPlaces">,
): WorkerToolProfile {
  const granted = [...tool.granted.keys()].filter((name) => name !== "log");
  return {
    sha256: tool.bundle.sha256,
    isolation: tool.isolation,
    // Where the operating system limits the memory, it has room for the calls' isolates only.
    prewarm: tool.prewarm && (tool.python !== undefined || unlimitedFeatures(tool.features).length === 0),
    limits,
    features: [...tool.features],
    coarseTime,
    logPlaces,
    granted,
    denied: [...tool.denied],
    ...(tool.shapes === undefined ? {} : { shapes: tool.shapes }),
  };
}

/** Wall time is the host's own to keep: a worker does not ask for it. */
function sameLimits(a: Limits, b: Limits): boolean {
  for (const name in a) {
    if (name !== "timeoutMs" && a[name as LimitName] !== b[name as LimitName]) return false;
  }
  return true;
}
