// TextEncoderStream and TextDecoderStream (Encoding standard): a TransformStream around the encoder or decoder of the prelude.

import { defineInterface, toDictionary } from "../shared/webidl.ts";
import { type ReadableStream, TransformStream, type WritableStream } from "../streams/streams.ts";
import { TextDecoder, TextEncoder } from "./encoding.ts";

const HIGH_SURROGATE = /[\ud800-\udbff]$/;

export class TextEncoderStream {
  readonly #encoder = new TextEncoder();
  readonly #transform: TransformStream<unknown, Uint8Array>;
  /** A high surrogate at the end of the last chunk. The next chunk may start with its other half. */
  #lead = "";

  constructor() {
    this.#transform = new TransformStream({
      transform: (chunk, controller) => {
        let text = this.#lead + String(chunk);
        this.#lead = HIGH_SURROGATE.test(text) ? text.slice(-1) : "";
        if (this.#lead !== "") text = text.slice(0, -1);
        if (text !== "") controller.enqueue(this.#encoder.encode(text));
      },
      flush: (controller) => {
        // A lone surrogate is encoded as the replacement character.
        if (this.#lead !== "") controller.enqueue(this.#encoder.encode(this.#lead));
      },
    });
  }

  get encoding(): string {
    return this.#encoder.encoding;
  }
  get readable(): ReadableStream<Uint8Array> {
    return this.#transform.readable;
  }
  get writable(): WritableStream<unknown> {
    return this.#transform.writable;
  }
}

export class TextDecoderStream {
  readonly #decoder: InstanceType<typeof TextDecoder>;
  readonly #transform: TransformStream<unknown, string>;

  constructor(label: unknown = "utf-8", options: unknown = undefined) {
    const decoder = new TextDecoder(label, toDictionary(options, "TextDecoderStream"));
    this.#decoder = decoder;
    this.#transform = new TransformStream({
      transform: (chunk, controller) => {
        // Undefined would be decoded as an empty input.
        const text = decoder.decode(chunk === undefined ? null : chunk, { stream: true });
        if (text !== "") controller.enqueue(text);
      },
      flush: (controller) => {
        const text = decoder.decode();
        if (text !== "") controller.enqueue(text);
      },
    });
  }

  get encoding(): string {
    return this.#decoder.encoding;
  }
  get fatal(): boolean {
    return this.#decoder.fatal;
  }
  get ignoreBOM(): boolean {
    return this.#decoder.ignoreBOM;
  }
  get readable(): ReadableStream<string> {
    return this.#transform.readable;
  }
  get writable(): WritableStream<unknown> {
    return this.#transform.writable;
  }
}

defineInterface("TextEncoderStream", TextEncoderStream);
defineInterface("TextDecoderStream", TextDecoderStream);
