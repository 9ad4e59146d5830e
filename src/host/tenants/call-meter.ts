// Counts the bytes of one call: its input and output, and the network traffic of its requests.

import type { ToolUsage } from "../contract/tool-call.ts";
import { type BinaryAttachments, sizeOfBytes } from "../contract/tool-value.ts";
import type { Execution } from "../executors/execution.ts";

/** The byte counters of a socket. They stay readable after it is closed. */
export interface CountedSocket {
  readonly bytesRead: number;
  readonly bytesWritten: number;
  once(event: "close", listener: () => void): unknown;
}

/** Bytes of a call's requests, by direction. */
export interface EgressBytes {
  readonly egressBytesOut: number;
  readonly egressBytesIn: number;
}

/**
 * The network traffic of one call. Counted at its sockets, above TLS: request lines, status lines, headers and bodies as they are
 * transferred, also those of redirects and of requests that fail.
 */
export class CallMeter {
  readonly #open = new Set<CountedSocket>();
  #out = 0;
  #in = 0;

  /** Counts the bytes of a socket from now on. */
  count(socket: CountedSocket): void {
    if (this.#open.has(socket)) return;
    this.#open.add(socket);
    socket.once("close", () => this.#close(socket));
  }

  #close(socket: CountedSocket): void {
    if (!this.#open.delete(socket)) return;
    this.#out += socket.bytesWritten;
    this.#in += socket.bytesRead;
  }

  /** Returns the traffic so far, including sockets that are still open. */
  get egress(): EgressBytes {
    let [out, received] = [this.#out, this.#in];
    for (const { bytesWritten, bytesRead } of this.#open) {
      out += bytesWritten;
      received += bytesRead;
    }
    return { egressBytesOut: out, egressBytesIn: received };
  }
}

const lengthOf = (text: string | Buffer): number => (typeof text === "string" ? Buffer.byteLength(text) : text.length);

function outputBytesOf(execution: Execution, streamedBytes: number): number {
  // The output of a stream is its chunks.
  if ("error" in execution || (execution.isStreamed === true && streamedBytes > 0)) return streamedBytes;
  const { outputText, content, attachmentBytes = 0 } = execution;
  return lengthOf(outputText) + lengthOf(content?.text ?? "") + attachmentBytes + streamedBytes;
}

/** The input size of a call and the counter of its traffic. */
interface MeteredCall {
  readonly inputText: string | Buffer;
  readonly inputBytes?: BinaryAttachments | undefined;
  readonly meter?: CallMeter | undefined;
}

/**
 * Returns an execution whose usage has the bytes of its call.
 * @param streamedBytes size of the chunks that were passed to the caller
 */
export function withBytes(
  execution: Execution,
  { inputText, inputBytes, meter }: MeteredCall,
  streamedBytes: number,
): Execution {
  const usage: ToolUsage = {
    ...execution.usage,
    inputBytes: lengthOf(inputText) + sizeOfBytes(inputBytes),
    outputBytes: outputBytesOf(execution, streamedBytes),
    ...(meter === undefined ? undefined : meter.egress),
  };
  return { ...execution, usage };
}
