// Records one call of a sandboxed tool: the turns that its worker process reports, and each capability call with its answer.
import { createHash } from "node:crypto";
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import type { WorkerToolProfile } from "../../sandbox/protocol/host-messages.ts";
import { TurnsSchema } from "../../sandbox/protocol/turn-schemas.ts";
import { MAX_TURNS, type Turn } from "../../sandbox/protocol/turns.ts";
import { packageVersion } from "../config/package-version.ts";
import { NO_USAGE, type ToolUsage } from "../contract/tool-call.ts";
import type { RawChunk } from "../contract/tool-stream.ts";
import type { Execution } from "../executors/execution.ts";
import type { Redactor } from "../observability/redaction/call-redactor.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import { ChunkLog, trimChunks } from "./chunk-log.ts";
import { exchangeHashOf, exchangeOf, inputHashOf } from "./input-hash.ts";
import {
  type CallRecording,
  RECORDING_FORMAT,
  RECORDING_VERSION,
  type RecordedChunks,
  type RecordedOutcome,
  SHOWN_INPUT_LENGTH,
} from "./recording.ts";
import { redactJson } from "./redact-recording.ts";

/** Bytes that a request adds to a recording, without its texts. */
const REQUEST_BYTES = 200;

interface OpenRequest {
  readonly id: number;
  readonly name: string;
  readonly text: string;
  readonly at: number;
  answer: string | undefined;
}

type TurnsMessage = {
  readonly start?: { readonly seed: string; readonly now: number } | undefined;
  readonly isTruncated?: true | undefined;
};

export interface RecorderOptions {
  readonly call: PreparedCall;
  readonly profile: WorkerToolProfile;
  readonly maxBytes: number;
  /** Replaces what the caller does not want to be recorded. */
  readonly redact: ((value: JsonValue) => unknown) | undefined;
  /** The redactor of the call, once it has one. */
  readonly redactor: () => Redactor | undefined;
}

export class CallRecorder {
  readonly #options: RecorderOptions;
  #start: CallRecording["start"] | undefined;
  #turns: Turn[] = [];
  #requests = new Map<number, OpenRequest>();
  #chunks: ChunkLog | undefined;
  #bytes = 0;
  #incomplete: CallRecording["incomplete"];

  constructor(options: RecorderOptions) {
    this.#options = options;
    this.#chunks = this.#openChunkLog();
  }

  /** A log is not part of the recording until the call has ended: only as much of it is kept as fits then. */
  #openChunkLog(): ChunkLog | undefined {
    const { call, maxBytes, redact, redactor } = this.#options;
    return call.chunks === undefined ? undefined : new ChunkLog({ redactor, redact, maxLength: maxBytes });
  }

  /** A process has taken the call. It begins again if an earlier process was lost before the tool ran. */
  begin(): void {
    this.#start = undefined;
    this.#turns = [];
    this.#requests.clear();
    this.#chunks = this.#openChunkLog();
    this.#bytes = 0;
    this.#incomplete = undefined;
  }

  /**
   * Adds turns. The worker's text is untrusted.
   * @throws {Error} for turns that a correct worker never sends
   */
  addTurns(text: string, { start, isTruncated }: TurnsMessage): void {
    this.#start ??= start;
    if (isTruncated === true) this.#incomplete ??= "too_many_turns";
    if (!this.#count(text.length)) return;
    const turns = TurnsSchema.parse(JSON.parse(`[${text}]`));
    for (const turn of turns) this.#turns.push(turn);
    if (this.#turns.length > MAX_TURNS) throw new Error("The worker sent too many turns");
  }

  addRequest(id: number, name: string, text: string): void {
    // Log lines have an answer without content, which a replay gives by itself.
    if (name === "log" || !this.#count(REQUEST_BYTES + Math.min(text.length, SHOWN_INPUT_LENGTH))) return;
    this.#requests.set(id, { id, name, text, at: this.#turns.at(-1)?.[1] ?? 0, answer: undefined });
  }

  addAnswer(id: number, answer: string): void {
    const request = this.#requests.get(id);
    if (request !== undefined && this.#count(answer.length)) request.answer = answer;
  }

  addChunks(chunks: readonly RawChunk[]): void {
    this.#chunks?.add(chunks);
  }

  /** Counts what is added to the recording. Returns false if it would become too large. */
  #count(bytes: number): boolean {
    if (this.#incomplete !== undefined) return false;
    this.#bytes += bytes;
    if (this.#bytes <= this.#options.maxBytes) return true;
    this.#incomplete = "too_large";
    this.#requests.clear();
    this.#turns = [];
    return false;
  }

  /** Returns the recording of the call that has ended. */
  async end(execution: Execution, redactor: Redactor | undefined): Promise<CallRecording> {
    const { call, profile, maxBytes } = this.#options;
    const { limits, features, granted, denied, descriptors, logSourceLocations } = profile;
    const input = await this.#redacted([call.inputText.toString()], redactor);
    const chunks = (await this.#chunks?.end()) ?? null;
    const outcome = await this.#toOutcome(execution, chunks);
    if (!this.#count((input[0]?.length ?? 0) + ("output" in outcome ? outcome.output.length : 0))) this.#turns = [];
    const { inputBytes } = call;
    const isKept = this.#incomplete !== "too_large";
    return {
      format: RECORDING_FORMAT,
      version: RECORDING_VERSION,
      engine: { glovebox: packageVersion(), v8: process.versions.v8 },
      recordedAt: Date.now(),
      toolName: call.definition.name,
      ...(call.context.toolVersion === undefined ? {} : { toolVersion: call.context.toolVersion }),
      bundle: profile.sha256,
      callId: call.callId,
      tenantId: call.tenantId,
      input: {
        text: isKept ? (input[0] ?? "null") : "null",
        ...(inputBytes === undefined || !isKept
          ? {}
          : {
              bytes: {
                mark: inputBytes.mark,
                parts: inputBytes.parts.map((part) => Buffer.from(part).toString("base64")),
              },
            }),
      },
      profile: {
        limits,
        features,
        granted,
        denied,
        logSourceLocations,
        ...(descriptors === undefined ? {} : { descriptors }),
      },
      start: this.#start ?? { seed: "none", now: 0 },
      turns: this.#turns,
      requests: await this.#toRequests(redactor),
      outcome: isKept || !("output" in outcome) ? outcome : { ...outcome, output: "null" },
      chunks: chunks && trimChunks(chunks, isKept && !isStreamed(execution) ? maxBytes - this.#bytes : 0),
      usage: toRecordedUsage(execution.usage),
      ...(this.#options.redact === undefined ? {} : { redacted: true as const }),
      ...this.#toIncomplete(),
    };
  }

  #toIncomplete(): Pick<CallRecording, "incomplete"> {
    const incomplete = this.#incomplete ?? (this.#start === undefined ? "interrupted" : undefined);
    return incomplete === undefined ? {} : { incomplete };
  }

  /** Returns JSON texts without the secrets of the call, and without what the caller's function replaces. */
  async #redacted(texts: readonly string[], redactor: Redactor | undefined): Promise<readonly string[]> {
    const shown = redactor === undefined || redactor.isEmpty ? texts : await redactor.texts(texts);
    const { redact } = this.#options;
    return redact === undefined ? shown : shown.map((text) => (text === "" ? "" : redactJson(text, redact)));
  }

  async #toRequests(redactor: Redactor | undefined): Promise<CallRecording["requests"]> {
    const requests = [...this.#requests.values()];
    const answers = await this.#redacted(
      requests.map(({ answer }) => answer ?? ""),
      redactor,
    );
    const inputs = await this.#redacted(
      requests.map(({ text }) => text),
      redactor,
    );
    return requests.map(({ id, name, at, answer }, index) => ({
      id,
      name,
      at,
      inputHash: inputHashOf(inputs[index] ?? ""),
      ...toExchange(name, inputs[index] ?? ""),
      input: (inputs[index] ?? "").slice(0, SHOWN_INPUT_LENGTH),
      ...(answer === undefined ? {} : { answer: answers[index] ?? "" }),
    }));
  }

  async #toOutcome(execution: Execution, chunks: RecordedChunks | null): Promise<RecordedOutcome> {
    if (!isStreamed(execution) || chunks === null) return await outcomeOf(execution, this.#options.redact);
    // Chunks that are the output must all fit.
    if (chunks.texts.length < chunks.count) this.#count(Number.POSITIVE_INFINITY);
    return await streamedOutcomeOf(chunks);
  }
}

/** Returns what of a long request of `fetch` cannot be read in the start of its input. */
function toExchange(name: string, input: string): Pick<CallRecording["requests"][number], "exchange"> {
  const exchange = name === "fetch" && input.length > SHOWN_INPUT_LENGTH ? exchangeOf(input) : undefined;
  return exchange?.isRequest === true ? { exchange: { id: exchange.id, hash: exchangeHashOf(input, 0) } } : {};
}

/** Whether the output of an execution is the list of its chunks. */
export const isStreamed = (execution: Execution): boolean => !("error" in execution) && execution.isStreamed === true;

/** Returns the outcome of an execution whose chunks were the output. They are redacted already. */
export const streamedOutcomeOf = ({ texts }: RecordedChunks): Promise<RecordedOutcome> =>
  outcomeOf({ usage: NO_USAGE, outputText: `[${texts.join(",")}]` });

export const toRecordedUsage = ({ executeMs, cpuMs, peakBytes, heapBytes }: ToolUsage): CallRecording["usage"] => ({
  executeMs,
  cpuMs,
  peakBytes,
  heapBytes,
});

/** Returns the outcome of an execution in the form that recordings compare. */
export async function outcomeOf(
  execution: Execution,
  redact?: (value: JsonValue) => unknown,
): Promise<RecordedOutcome> {
  if ("error" in execution) {
    const { code, message, details } = execution.error;
    const clean = (text: string): string => (redact === undefined ? text : String(redact(text)));
    const { errorName, errorCode } = details ?? {};
    const named = typeof errorName === "string" ? { errorName: clean(errorName).slice(0, 1_024) } : undefined;
    const coded = typeof errorCode === "string" ? { errorCode: clean(errorCode).slice(0, 128) } : {};
    return {
      error: {
        code,
        message: clean(message.slice(0, 1_000_000)),
        ...(named === undefined ? {} : { details: { ...named, ...coded } }),
      },
    };
  }
  const { outputText, outputBytes, content } = execution;
  const hash = createHash("sha256");
  const add = (part: string | Uint8Array): void => {
    hash.update(`${part.length}\0`).update(part);
  };
  const output = redact === undefined ? outputText.toString() : redactJson(outputText.toString(), redact);
  add(output);
  for (const part of (await outputBytes?.())?.parts ?? []) add(part);
  if (content !== undefined) {
    add(content.text.toString());
    for (const part of (await content.bytes?.())?.parts ?? []) add(part);
  }
  return { output, digest: hash.digest("hex") };
}
