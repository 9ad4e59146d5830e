// Answers the capability calls of a replay from its recording. No handler of the host is called.
import { ToolError } from "../../sandbox/contract/errors.ts";
import { NO_ANSWER } from "../../sandbox/protocol/host-messages.ts";
import { exchangeHashOf, exchangeOf, inputHashOf } from "./input-hash.ts";
import type { RecordOptions } from "./record-options.ts";
import type { CallRecording, RecordedRequest } from "./recording.ts";
import { redactJson } from "./redact-recording.ts";

/** Errors with which the host or the worker stops a call. Its recording ends at that moment. */
export const STOPPED: ReadonlySet<string> = new Set([
  "TOOL_TIMEOUT",
  "CANCELLED",
  "CPU_LIMIT",
  "MEMORY_LIMIT",
  "SANDBOX_CRASHED",
]);

/**
 * How a replay finds the answer of a capability call: at its position, for the same code and input; or by its name and arguments, for
 * another version or an edited input.
 */
export type ReplayMatch = "position" | "arguments";

/** Answer to a request. Without an envelope the call ended before the answer arrived, so the request stays open. */
export interface RecordedAnswer {
  readonly envelope: string | undefined;
  /** How long the answer took in the recording, in ms by the call's clock. */
  readonly latencyMs: number;
}

/** Creates the error of a replay that left its recording. */
export function diverged(position: number, expected: string, actual: string): ToolError {
  const message = `The call differs from its recording at request ${position}: expected ${expected}, got ${actual}`;
  return new ToolError("REPLAY_DIVERGED", message, { details: { position, expected, actual } });
}

const MAX_MISSING = 50;

const shown = (name: string, input: string): string => `${name}(${input.slice(0, 200)})`;

const failureOf = (envelope: string): { readonly code: string; readonly message: string } | undefined => {
  if (!envelope.startsWith('{"ok":false')) return undefined;
  try {
    const { code, message } = JSON.parse(envelope) as { readonly code?: unknown; readonly message?: unknown };
    return typeof code === "string" && typeof message === "string" ? { code, message } : undefined;
  } catch {
    return undefined;
  }
};

export class RecordedAnswers {
  readonly #requests: ReadonlyMap<number, RecordedRequest>;
  /** Requests that the call has not made yet. */
  readonly #unmade: Set<RecordedRequest>;
  /** The same by name and hash, if requests are found by arguments. */
  readonly #unused = new Map<string, RecordedRequest[]>();
  readonly #settledAt = new Map<number, number>();
  /** Time after the last recorded turn. An answer that no turn has would have come then, or later. */
  readonly #endedAt: number;
  readonly #lastId: number;
  /** Whether the recorded call was stopped. Then the answers that no turn has say only that. */
  readonly #isStopped: boolean;
  readonly #match: ReplayMatch;
  readonly #redact: RecordOptions["redact"];
  /** Number of each exchange of `fetch` in the recording, by its number in this call. */
  readonly #exchanges = new Map<number, number>();
  readonly #failures = new Set<string>();
  #used = 0;

  /** @param redact replaces what the recorded inputs do not have */
  constructor(recording: CallRecording, match: ReplayMatch, redact?: RecordOptions["redact"]) {
    this.#match = match;
    this.#redact = redact;
    this.#requests = new Map(recording.requests.map((request) => [request.id, request]));
    this.#unmade = new Set(recording.requests);
    this.#lastId = recording.requests.reduce((last, { id }) => Math.max(last, id), 0);
    this.#isStopped = "error" in recording.outcome && STOPPED.has(recording.outcome.error.code);
    this.#endedAt = (recording.turns.at(-1)?.[1] ?? recording.start.now) + 1;
    for (const [kind, at, ...ids] of recording.turns) {
      if (kind === "answer") for (const id of ids) this.#settledAt.set(id, at);
    }
    if (match === "position") return;
    for (const request of recording.requests) {
      const key = keyOf(request.name, this.#hashToFind(request));
      const list = this.#unused.get(key);
      if (list === undefined) this.#unused.set(key, [request]);
      else list.push(request);
    }
  }

  /** Whether a request comes after all recorded ones of a call that was stopped. */
  isAfterStop(position: number): boolean {
    return this.#isStopped && position > this.#lastId;
  }

  /** Number of recorded requests that were answered. */
  get used(): number {
    return this.#used;
  }

  /**
   * Returns recorded requests that the call has not made, at most 50. Parts of an exchange of `fetch` belong to its request. None for a recorded
   * call that was stopped, because a replay ends elsewhere.
   */
  get missing(): readonly string[] {
    if (this.#isStopped) return [];
    const isPart = ({ name, input, exchange }: RecordedRequest): boolean =>
      name === "fetch" && exchange === undefined && exchangeOf(input)?.isRequest === false;
    return [...this.#unmade]
      .filter((request) => !isPart(request))
      .sort((a, b) => a.id - b.id)
      .slice(0, MAX_MISSING)
      .map(({ name, input }) => shown(name, input));
  }

  /** As of a CapabilityBroker: whether a request of this call has failed with the code. */
  wasDeniedWith(code: string): boolean {
    return this.#failures.has(code);
  }

  /** As of a CapabilityBroker. A recording does not contain the traces of nested calls. */
  traceOf(): undefined {
    return undefined;
  }

  /** A new exchange has another number in each version, so it is found without it. */
  #hashToFind(request: RecordedRequest): string {
    const exchange = recordedExchangeOf(request);
    return exchange === undefined ? request.inputHash : exchange.hash;
  }

  /** @throws {ToolError} REPLAY_DIVERGED for a request that was not recorded */
  answer(position: number, name: string, input: string): RecordedAnswer {
    const text = this.#redact === undefined ? input : redactJson(input, this.#redact);
    const request =
      this.#match === "position" ? this.#atPosition(position, name, text) : this.#byArguments(position, name, text);
    this.#used += 1;
    this.#unmade.delete(request);
    const { at, answer } = request;
    const failure = answer === undefined ? undefined : failureOf(answer);
    if (failure !== undefined) this.#failures.add(failure.code);
    if (request === NOTICE) return { envelope: answer, latencyMs: 0 };
    const settledAt = this.#settledAt.get(request.id);
    const isOpen = answer === undefined || (settledAt === undefined && (this.#isStopped || failure !== undefined));
    const envelope = isOpen && this.#match === "arguments" ? NO_ANSWER : answer;
    return { envelope, latencyMs: Math.max(0, (settledAt ?? this.#endedAt) - at) };
  }

  #atPosition(position: number, name: string, text: string): RecordedRequest {
    const request = this.#requests.get(position);
    if (request === undefined) throw diverged(position, "no request", shown(name, text));
    if (request.name !== name || request.inputHash !== inputHashOf(text)) {
      throw diverged(position, shown(request.name, request.input), shown(name, text));
    }
    return request;
  }

  #byArguments(position: number, name: string, text: string): RecordedRequest {
    const exchange = name === "fetch" ? exchangeOf(text) : undefined;
    const known = exchange === undefined || exchange.isRequest ? undefined : this.#exchanges.get(exchange.id);
    const hash =
      exchange?.isRequest === true
        ? exchangeHashOf(text, 0)
        : known === undefined
          ? inputHashOf(text)
          : exchangeHashOf(text, known);
    // Recordings of earlier versions have long requests under their full hash only.
    const request =
      this.#unused.get(keyOf(name, hash))?.shift() ?? this.#unused.get(keyOf(name, inputHashOf(text)))?.shift();
    if (request === undefined && exchange?.isNotice === true) return NOTICE;
    if (request === undefined) {
      const recorded = [...this.#requests.values()].filter((one) => one.name === name).length;
      throw diverged(position, `one of the ${recorded} recorded requests to ${name}`, shown(name, text));
    }
    if (exchange?.isRequest === true) {
      const recorded = recordedExchangeOf(request);
      if (recorded !== undefined) this.#exchanges.set(exchange.id, recorded.id);
    }
    return request;
  }
}

/** Stands for a notice that the recorded call has not sent. No recorded request has the id. */
const NOTICE: RecordedRequest = {
  ...{ id: 0, name: "fetch", inputHash: "", input: "", at: 0 },
  answer: JSON.stringify({ ok: true, value: null }),
};

/** Returns the HTTP exchange that a recorded request begins, and its hash without the exchange's number; undefined for other requests. */
function recordedExchangeOf({ name, input, exchange }: RecordedRequest): RecordedRequest["exchange"] {
  if (exchange !== undefined || name !== "fetch") return exchange;
  const shown = exchangeOf(input);
  return shown?.isRequest === true ? { id: shown.id, hash: exchangeHashOf(input, 0) } : undefined;
}

const keyOf = (name: string, hash: string): string => `${name} ${hash}`;
