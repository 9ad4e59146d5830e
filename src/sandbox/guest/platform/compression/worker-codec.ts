// Brotli and Zstandard in the worker: opens a codec there, and reads its output piece by piece.
import { type Failure, MAX_PIECE_BYTES } from "../../../protocol/crypto-messages.ts";
import { requestFromWorker } from "../../host.ts";
import type { runJob, toError } from "../crypto/crypto.ts";
import { Handles } from "../crypto/crypto-handles.ts";

// The cryptography module implements worker jobs. It is loaded only when a codec is used.
declare function require(name: "../crypto/crypto.ts"): {
  readonly runJob: typeof runJob;
  readonly toError: typeof toError;
};

export type CodecKind = "brotliCompress" | "brotliDecompress" | "zstdCompress" | "zstdDecompress";

export interface CodecSettings {
  readonly params: { readonly [key: string]: number };
  /** Total input size if known, which improves the compression of short input. */
  readonly size: number | null;
  readonly rejectsTrailing: boolean;
  readonly maxOutputLength: number | null;
}

const handles = new Handles("closeCodecs");
const NOTHING = new Uint8Array(0);

function request(method: string, args: readonly unknown[], bytes?: ArrayBuffer): unknown {
  const response = requestFromWorker("crypto", JSON.stringify({ method, args }), bytes);
  if (response instanceof ArrayBuffer) return response;
  const reply = JSON.parse(typeof response === "string" ? response : "{}") as Failure | { ok: true; value: unknown };
  if (reply.ok) return reply.value;
  throw require("../crypto/crypto.ts").toError(reply);
}

export const codecAtOnce = (kind: CodecKind, settings: CodecSettings, bytes: Uint8Array): Uint8Array<ArrayBuffer> =>
  new Uint8Array(request("codecAtOnce", [kind, settings], bytes.slice().buffer as ArrayBuffer) as ArrayBuffer);

type Emit = (bytes: Uint8Array<ArrayBuffer>) => void | Promise<void>;

/** A codec that runs one operation at a time. Its owner closes it, or drops it for garbage collection. */
export class WorkerCodec {
  readonly #handle: number;

  constructor(kind: CodecKind, settings: CodecSettings) {
    // The number of codecs is limited, so unreferenced ones are closed first.
    handles.sweep();
    this.#handle = request("openCodec", [kind, settings]) as number;
    handles.add(this.#handle, this);
  }

  async #step(step: "write" | "flush" | "end", bytes: Uint8Array, emit: Emit): Promise<void> {
    try {
      await this.#take(step, bytes, emit);
    } catch (error) {
      this.close();
      throw error;
    }
  }

  async #take(step: string, bytes: Uint8Array, emit: Emit): Promise<void> {
    const { runJob } = require("../crypto/crypto.ts");
    for (let next = step, input = bytes; ; next = "more", input = NOTHING) {
      const text = JSON.stringify({ method: "codecStep", args: [this.#handle, next] });
      const { response, buffers } = await runJob({ text, buffers: [new Uint8Array(input).buffer] });
      const [made] = buffers;
      if (made !== undefined && made.byteLength > 0) await emit(new Uint8Array(made));
      if ((response as unknown as { readonly value: unknown }).value !== true) return;
    }
  }

  async write(bytes: Uint8Array, emit: Emit): Promise<void> {
    for (let start = 0; start < bytes.length; start += MAX_PIECE_BYTES) {
      await this.#step("write", bytes.subarray(start, start + MAX_PIECE_BYTES), emit);
    }
  }

  flush(emit: Emit): Promise<void> {
    return this.#step("flush", NOTHING, emit);
  }

  async end(emit: Emit): Promise<void> {
    await this.#step("end", NOTHING, emit);
    this.close();
  }

  close(): void {
    handles.delete(this.#handle);
    request("closeCodecs", [[this.#handle]]);
  }
}
