// Turns: the entries into the guest of a repeatable call. Each turn delivers what the guest waits for, at a fixed time of the guest's clock.
// The order of the turns decides the order in which promises settle, so a call with the same turns has the same output.

/**
 * What a turn does: runs the tool's top level, starts the call, delivers answers of the host, results of jobs (cryptography,
 * compression), runs a timer, grants credit to a stream, or rolls a durable run back.
 */
export const TURN_KINDS = ["load", "call", "answer", "job", "timer", "credit", "rollback"] as const;
export type TurnKind = (typeof TURN_KINDS)[number];

/**
 * One turn: its kind, the time of the guest's clock (ms since 1970), and the ids of the requests, jobs or timers that it settles, in order.
 * For `credit`, the id is the number of chunks.
 */
export type Turn = readonly [kind: TurnKind, at: number, ...ids: number[]];

/** Maximum number of answers in one turn. */
export const MAX_TURN_IDS = 10_000;

/** Maximum size of the turns of one call in UTF-16 code units of JSON: about 150,000 turns. */
export const MAX_TURNS_LENGTH: number = 4 * 1024 * 1024;
/** Maximum number of turns that fit into this size. */
export const MAX_TURNS: number = Math.floor(MAX_TURNS_LENGTH / 16);

/**
 * How the turns of a repeatable call are chosen.
 *
 * - `virtual`: by a virtual clock that stands still while the guest waits for the host or for a job. Timers take real time.
 * - `rehearse`: the same, without waiting for timers. Each answer states how long it took in the recording.
 * - `record`: in the order of events. The turns are reported.
 * - `replay`: as recorded. The call ends when it needs a turn that was not recorded.
 * - `resume`: as recorded, then as with `record`.
 */
export const TURN_MODES = ["virtual", "rehearse", "record", "replay", "resume"] as const;
export type TurnMode = (typeof TURN_MODES)[number];

/** Where a call differs from its recording: the index of the turn, and what the recording and the call have there. */
export interface TurnDivergence {
  readonly turn: number;
  readonly expected: string;
  readonly actual: string;
}
