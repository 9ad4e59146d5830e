// One replay of a recording: passes from the router to the executor as `context.replay`, and collects how the replay went.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { type Limits, lowestLimits } from "../../sandbox/contract/limits.ts";
import type { ToolMessage } from "../../sandbox/protocol/host-messages.ts";
import type { TurnDivergence } from "../../sandbox/protocol/turns.ts";
import type { Deterministic } from "../../sandbox/worker/random-bytes.ts";
import type { RecordOptions } from "./record-options.ts";
import { type RecordedAnswer, RecordedAnswers, type ReplayMatch, STOPPED } from "./recorded-answers.ts";
import type { CallRecording, RecordedChunks, RecordedOutcome } from "./recording.ts";

/** Settings of the calls of a tool, as a worker process receives them. */
type ToolProfile = Omit<ToolMessage, "type" | "toolId">;

/** Whether the caller of a recorded call is known to have read a stream. Of earlier versions, only recordings with credit say so. */
const wasStreamed = ({ chunks, turns }: CallRecording): boolean =>
  chunks === undefined ? turns.some(([kind]) => kind === "credit") : chunks !== null;

export interface PreparedReplayOptions {
  readonly redact: RecordOptions["redact"];
  /** Default: whether the recorded call was */
  readonly isStreamed?: boolean | undefined;
  /** Whether the arguments are the recorded ones. */
  readonly isSameInput: boolean;
}

/**
 * A replay that `Glovebox.replay` has prepared. One object serves one call.
 */
export class PreparedReplay {
  readonly recording: CallRecording;
  readonly match: ReplayMatch;
  readonly answers: RecordedAnswers;
  /** Replaces what the recording does not have, in the outcome. */
  readonly redact: RecordOptions["redact"];
  /** Whether the code that runs is the recorded code. Known when the executor has begun. */
  isSameBundle = false;
  /** Set when the executor has the outcome. */
  outcome: RecordedOutcome | undefined;
  /** Whether the tool sends its chunks. */
  readonly isStreamed: boolean;
  /** Set with `outcome`, if the tool sends its chunks. */
  chunks: RecordedChunks | undefined;
  /** Whether the chunks were the output, since the tool returned nothing. */
  isOutputStreamed = false;

  readonly #isSameInput: boolean;

  /** @throws {ToolError} PARAM_INVALID for an incomplete recording */
  constructor(
    recording: CallRecording,
    match: ReplayMatch,
    { redact, isStreamed = wasStreamed(recording), isSameInput }: PreparedReplayOptions,
  ) {
    if (recording.incomplete !== undefined) {
      const message = `The recording of call "${recording.callId}" is incomplete (${recording.incomplete}), so it cannot be replayed`;
      throw new ToolError("PARAM_INVALID", message, { details: { incomplete: recording.incomplete } });
    }
    this.recording = recording;
    this.match = match;
    this.redact = redact;
    this.answers = new RecordedAnswers(recording, match, redact);
    this.isStreamed = isStreamed;
    this.#isSameInput = isSameInput;
  }

  /**
   * Returns the recorded answer of a request. When a call was stopped, requests that were on their way were not recorded: if the same code with the
   * same input makes them, they stay open.
   * @throws {ToolError} REPLAY_DIVERGED for a request that was not recorded
   */
  answer(id: number, name: string, text: string): RecordedAnswer {
    return this.#isRepetition && this.answers.isAfterStop(id)
      ? { envelope: undefined, latencyMs: 0 }
      : this.answers.answer(id, name, text);
  }

  /** Whether the same code runs with the same input, so that it makes the same requests. */
  get #isRepetition(): boolean {
    return this.match === "position" && this.isSameBundle && this.#isSameInput;
  }

  /**
   * Recorded requests that the call has not made, at most 50. By position, the turns of the recording demand the requests whose answers came before
   * its end, but not those whose answers came later.
   */
  get missing(): readonly string[] {
    return this.#isRepetition ? [] : this.answers.missing;
  }

  /** Initial state of the call's isolate. */
  get start(): Deterministic {
    const { start, turns } = this.recording;
    if (this.match === "position") return { mode: "replay", ...start, turns };
    const began = turns.find(([kind]) => kind === "call");
    return { mode: "rehearse", seed: start.seed, now: began?.[1] ?? start.now };
  }

  /**
   * Returns the settings of the call's isolate: as recorded, within the limits that apply today.
   * @param current settings of the tool that runs
   */
  profileOf(current: ToolProfile, limits: Limits): ToolProfile {
    const { profile } = this.recording;
    this.isSameBundle = current.sha256 === this.recording.bundle;
    const isSame = this.match === "position";
    return {
      sha256: current.sha256,
      isolateLifetime: "call",
      prewarm: false,
      limits: lowestLimits(limits, profile.limits),
      features: isSame ? profile.features.filter((name) => current.features.includes(name)) : [...current.features],
      coarseTime: false,
      logSourceLocations: profile.logSourceLocations,
      granted: isSame ? [...profile.granted] : [...current.granted],
      denied: isSame ? [...profile.denied] : [...current.denied],
      ...(isSame ? toDescriptors(profile) : toDescriptors(current)),
    };
  }

  /**
   * Returns the error of a call that needs other turns than were recorded, or, by arguments, that waits only for answers that were not. A call
   * that the host stopped has no further turns: then the replay ends as the call did.
   */
  toError({ turn: index, expected, actual }: TurnDivergence): ToolError {
    const { outcome, turns } = this.recording;
    const turn = this.match === "arguments" ? turns.length : index;
    if ("error" in outcome && turn >= turns.length && STOPPED.has(outcome.error.code)) {
      return new ToolError(outcome.error.code as "TOOL_TIMEOUT", outcome.error.message);
    }
    const message = `The call differs from its recording at turn ${turn}: expected ${expected}, got ${actual}`;
    return new ToolError("REPLAY_DIVERGED", message, { details: { position: turn, expected, actual } });
  }
}

const toDescriptors = ({ descriptors }: Pick<ToolProfile, "descriptors">): Pick<ToolProfile, "descriptors"> =>
  descriptors === undefined ? {} : { descriptors };
