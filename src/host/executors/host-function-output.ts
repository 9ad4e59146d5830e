// Converts the returned value of a host function to JSON text with attachments, and reads the streams that host functions return.
import { CONTENT_KEY } from "../../sandbox/contract/content.ts";
import { type JsonValue, ToolError } from "../../sandbox/contract/errors.ts";
import type { Limits } from "../../sandbox/contract/limits.ts";
import {
  type BinaryAttachments,
  sizeOfBytes,
  type ToolValue,
  toTextWithBytes,
  withBytes,
} from "../contract/tool-value.ts";
import { isValueTooLarge } from "../contract/value-size.ts";
import { storedJsonText } from "../json/json-text-of.ts";
import type { PreparedCall } from "../pipeline/prepared-call.ts";
import type { Execution } from "./execution.ts";

/** Key set by `content()` of glovebox/tool. */
export const CONTENT: unique symbol = Symbol.for(CONTENT_KEY) as never;

/** A value as JSON text with its attachments. */
interface SerializedValue {
  readonly text: string;
  readonly bytes: (() => BinaryAttachments) | undefined;
  /** Size of text and attachments, in bytes. */
  readonly size: number;
}

/** @throws {ToolError} OUTPUT_INVALID if the value is not JSON, OUTPUT_TOO_LARGE if it exceeds a limit */
function toText(output: unknown, toolName: string, { outputBytes, jsonValues }: Limits): SerializedValue {
  if (output === undefined) return { text: "null", bytes: undefined, size: 4 };
  const stored = storedJsonText(output);
  if (stored !== undefined) return { text: stored, bytes: undefined, size: Buffer.byteLength(stored) };
  try {
    const { text, bytes } = toTextWithBytes(output, { bytes: outputBytes, values: jsonValues });
    if (text !== undefined) {
      const size = Buffer.byteLength(text) + sizeOfBytes(bytes);
      return { text, bytes: bytes === undefined ? undefined : () => bytes, size };
    }
  } catch (cause) {
    // A value that nests too deeply may contain itself, which is not JSON.
    if (isValueTooLarge(cause) && !cause.isDeep) throw tooLarge(toolName, outputBytes, cause.limit);
    throw new ToolError(
      "OUTPUT_INVALID",
      `${toolName}: expected a JSON value, got a value that JSON cannot represent`,
      { cause },
    );
  }
  throw new ToolError("OUTPUT_INVALID", `${toolName}: expected a JSON value, got ${typeof output}`);
}

/** Returns whether a returned value is a stream of chunks. */
export const isStream = (value: unknown): value is AsyncIterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.asyncIterator in value;

/**
 * End of a stream. `output` is its return value if it has one. Otherwise it is the list of yielded values, or undefined
 * if the caller read them as chunks.
 */
interface StreamEnd {
  readonly output: unknown;
  readonly isStreamed: boolean;
}

/** Reads a stream at the pace of its reader, and stops it when the call ends. */
export async function readStream(stream: AsyncIterable<unknown>, call: PreparedCall): Promise<StreamEnd> {
  const { chunks, signal, limits, definition } = call;
  const iterator = stream[Symbol.asyncIterator]();
  const stop = (): void => {
    // The iterator may still be running. Its result no longer matters.
    Promise.resolve()
      .then(() => iterator.return?.())
      .catch(() => {});
  };
  signal.addEventListener("abort", stop, { once: true });
  const values: unknown[] = [];
  let remainingBytes = limits.outputBytes;
  try {
    for (;;) {
      const step = (await iterator.next()) as Partial<IteratorResult<unknown>> | null | undefined;
      if (signal.aborted) throw signal.reason;
      // `for await` makes the same check. Without it, any other value would count as an empty chunk, forever.
      if (typeof step !== "object" || step === null) throw new TypeError("The stream's next() returned no object");
      if (step.done === true) {
        const isBare = step.value === undefined;
        return {
          output: isBare && chunks === undefined ? values : step.value,
          isStreamed: isBare && chunks !== undefined,
        };
      }
      const chunk = toText(step.value, definition.name, limits);
      remainingBytes -= chunk.size;
      if (remainingBytes < 0) throw tooLarge(definition.name, limits.outputBytes);
      if (chunks === undefined) values.push(await copyOf(chunk, definition.name, signal));
      else chunks.push([chunk]);
      await chunks?.room();
    }
  } catch (thrown) {
    stop();
    throw thrown;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

/** Copies a chunk, because a generator may yield the same object repeatedly. */
function copyOf({ text, bytes }: SerializedValue, what: string, signal: AbortSignal): ToolValue | Promise<ToolValue> {
  const value = JSON.parse(text) as JsonValue;
  return bytes === undefined
    ? value
    : withBytes({ value, textLength: text.length, attachments: bytes(), what }, signal);
}

function tooLarge(name: string, outputBytes: number, limit: "bytes" | "values" = "bytes"): ToolError {
  const expected = limit === "bytes" ? `at most ${outputBytes} bytes of JSON` : "fewer JSON values (limits.jsonValues)";
  return new ToolError("OUTPUT_TOO_LARGE", `The output of ${name}: expected ${expected}`, {
    details: limit === "bytes" ? { limitBytes: outputBytes } : {},
  });
}

/** Returns whether a returned value was created by `content()`. */
export const hasContent = (returned: unknown): returned is { readonly [CONTENT]: unknown; readonly output?: unknown } =>
  typeof returned === "object" && returned !== null && CONTENT in returned;

const attachmentBytesOf = (bytes: SerializedValue["bytes"]): number => sizeOfBytes(bytes?.());

/**
 * Converts a returned value to output text and, if present, content.
 * @throws {ToolError} OUTPUT_INVALID or OUTPUT_TOO_LARGE
 */
export function toOutput(
  returned: unknown,
  name: string,
  limits: Limits,
): Omit<Extract<Execution, { outputText: unknown }>, "usage"> {
  const output = hasContent(returned) ? returned.output : returned;
  const { text, bytes } = toText(output, name, limits);
  const content = hasContent(returned) ? toText(returned[CONTENT], `The content of ${name}`, limits) : undefined;
  return {
    outputText: text,
    outputBytes: bytes,
    content,
    attachmentBytes: attachmentBytesOf(bytes) + attachmentBytesOf(content?.bytes),
  };
}
