// Options of a call that is recorded, and their validation.
import type { JsonValue } from "../../sandbox/contract/errors.ts";
import { isPlainObject } from "../../sandbox/contract/plain-object.ts";
import { checkKeys, describe, invalid } from "../pipeline/read-fields.ts";
import { type CallRecording, RECORDING_BYTES } from "./recording.ts";

/** How a call is recorded. */
export interface RecordOptions {
  /** Receives the recording when the tool has ended, before the call's result. What it throws is ignored. */
  readonly onRecording: (recording: CallRecording) => void;
  /**
   * Maximum size of the recording in bytes, 1 KiB to 64 MiB. A larger one is marked as incomplete, and cannot be replayed.
   * @default 1048576
   */
  readonly maxBytes?: number | undefined;
  /**
   * Replaces what must not be recorded, as `createRedactor()` does: in the arguments, in the inputs and answers of
   * capabilities, in the output, and in each chunk of a stream. It receives values parsed from JSON. A tool that
   * computes with a replaced value has another output when it is replayed.
   */
  readonly redact?: ((value: JsonValue) => unknown) | undefined;
}

const FIELDS: readonly string[] = ["onRecording", "maxBytes", "redact"];

/** Reads each field once. @throws {ToolError} PARAM_INVALID for an unknown key or a wrong value */
export function copyRecordOptions(options: unknown): RecordOptions | undefined {
  if (options === undefined) return undefined;
  const where = "context.record";
  if (!isPlainObject(options)) throw invalid(where, "an object { onRecording, maxBytes }", describe(options));
  checkKeys(options, where, FIELDS);
  const { onRecording, maxBytes, redact } = options as unknown as RecordOptions;
  const { min, max } = RECORDING_BYTES;
  if (maxBytes !== undefined && !(Number.isInteger(maxBytes) && maxBytes >= min && maxBytes <= max)) {
    throw invalid(`${where}.maxBytes`, `a whole number of bytes from ${min} to ${max}`, describe(maxBytes));
  }
  if (redact !== undefined && typeof redact !== "function")
    throw invalid(`${where}.redact`, "a function", describe(redact));
  if (typeof onRecording !== "function") throw invalid(`${where}.onRecording`, "a function", describe(onRecording));
  return { onRecording, maxBytes, redact };
}
