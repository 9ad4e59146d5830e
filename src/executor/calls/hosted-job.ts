// Converts the message of a control plane to a job of the worker pool.

import type { RunMessage } from "../../host/fleet/protocol/control-messages.ts";
import type { Job } from "../../host/workers/pool-job.ts";
import type { CallListener } from "../../host/workers/process/call-events.ts";
import { WorkerToolProfileSchema } from "../../sandbox/protocol/host-message-schemas.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import { TurnsSchema } from "../../sandbox/protocol/turn-schemas.ts";
import type { Turn } from "../../sandbox/protocol/turns.ts";
import type { CallCode } from "../code/call-code.ts";
import type { HostedSession } from "./hosted-sessions.ts";

/** The parts of a `run` message. */
export interface JobParts {
  readonly profile: WorkerToolProfile;
  readonly input: Buffer;
  readonly inputBytes: readonly [header: string, data: Uint8Array] | undefined;
  readonly turns: readonly Turn[];
}

/** Maximum number of settings of tools that are kept. The processes identify them by the object. */
const MAX_PROFILES = 2_048;
/** The control plane has applied the limits of tenants and tools. */
const NO_LIMITS = { maxConcurrentCalls: 1_000_000, maxQueuedCalls: 1_000_000 } as const;

const parseProfile = (text: string): WorkerToolProfile => WorkerToolProfileSchema.parse(JSON.parse(text));

export class ToolProfiles {
  /** By their JSON text. The one used last is the last one. */
  readonly #known = new Map<string, WorkerToolProfile>();
  readonly #onEvict: (profile: WorkerToolProfile) => void;

  constructor(onEvict: (profile: WorkerToolProfile) => void) {
    this.#onEvict = onEvict;
  }

  /**
   * @param isOnce whether the settings are used for this call only
   * @throws {Error} for invalid parts
   */
  readParts(parts: readonly Buffer[], isOnce: boolean): JobParts {
    const [profile, input, header, data, turns] = parts;
    if (
      profile === undefined ||
      input === undefined ||
      header === undefined ||
      data === undefined ||
      turns === undefined
    )
      throw new Error("A part of a call is missing");
    return {
      profile: isOnce ? parseProfile(profile.toString()) : this.#profileOf(profile.toString()),
      input,
      inputBytes: header.length === 0 ? undefined : [header.toString(), data],
      turns: turns.length === 0 ? [] : TurnsSchema.parse(JSON.parse(turns.toString())),
    };
  }

  #profileOf(text: string): WorkerToolProfile {
    const known = this.#known.get(text);
    const profile = known ?? parseProfile(text);
    this.#known.delete(text);
    this.#known.set(text, profile);
    const [oldest] = this.#known;
    if (this.#known.size > MAX_PROFILES && oldest !== undefined) {
      this.#known.delete(oldest[0]);
      this.#onEvict(oldest[1]);
    }
    return profile;
  }
}

export function toJob(
  message: RunMessage,
  parts: JobParts,
  { bundle, source, python }: CallCode,
  listener: CallListener & { readonly session: HostedSession | undefined },
): Job {
  const { callId, tenantId, toolKey, weight, memoryMiB, isNested, leftMs, deterministic } = message;
  const receivedAt = performance.now();
  const { session } = listener;
  const placement = session?.placement;
  // A Python process keeps the interpreter of one session. Control planes number their sessions alike.
  const keeper = placement === undefined ? "" : ` session ${placement.id}`;
  const owner = python === undefined ? message.owner : `${message.owner} ${python.packages}${keeper}`;
  const input = source === undefined ? parts.input : Buffer.concat([source, parts.input]);
  return {
    owner,
    listener,
    memoryMiB,
    bundle,
    input,
    inputBytes: parts.inputBytes,
    ...(python === undefined ? {} : { kind: "python", interpreter: python.interpreter }),
    claim: {
      account: tenantId,
      weight,
      toolKey,
      accountLimits: NO_LIMITS,
      toolLimits: NO_LIMITS,
      ...(isNested ? { parentSlot: { isTaken: false } } : {}),
    },
    order: {
      type: "call",
      tool: parts.profile,
      callId,
      tenantId,
      stream: message.stream,
      deterministic: deterministic && { ...deterministic, turns: parts.turns },
      ...(placement === undefined || message.session === undefined
        ? {}
        : { session: { ...message.session, id: placement.id } }),
    },
    session: placement,
    leftMs: leftMs === undefined ? undefined : () => Math.max(0, leftMs - (performance.now() - receivedAt)),
    // The control plane runs a call again that had begun: it knows which messages the first run has sent.
    idempotent: false,
    exclusive: message.exclusive === true,
    ...(message.dataBytes === undefined ? {} : { dataBytes: message.dataBytes }),
  };
}
