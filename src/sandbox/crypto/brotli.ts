// Brotli for a guest's CompressionStream, by Node's own zlib on the process's threads: an encoder of its own would take a guest 600 KB.
import { promisify } from "node:util";
import { brotliCompress, brotliDecompress, constants } from "node:zlib";
import { CryptoRefusal } from "./refusal.ts";

const compress = promisify(brotliCompress);
/** What Brotli's 11 takes a MiB 2 s for, 5 does in 30 ms, and 3 % larger. */
const QUALITY = 5;
/** A stream that decompresses to more is refused: it is copied in the worker's main thread, and has to fit into the guest. */
const MAX_OUTPUT_BYTES: number = 32 * 1024 * 1024;

interface Decompressed {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

const decompress = (bytes: Uint8Array): Promise<Decompressed> =>
  new Promise((resolve, reject) => {
    // The types do not know what `info` makes of the result.
    const options = { maxOutputLength: MAX_OUTPUT_BYTES, info: true };
    brotliDecompress(bytes, options, (error, result) => {
      if (error === null) resolve(result as unknown as Decompressed);
      else reject(error);
    });
  });

async function decompressWhole(bytes: Uint8Array): Promise<Uint8Array> {
  const { buffer, engine } = await decompress(bytes).catch((error: NodeJS.ErrnoException) => {
    const isTooLarge = error.code === "ERR_BUFFER_TOO_LARGE";
    const message = isTooLarge
      ? `Decompressed data may have ${MAX_OUTPUT_BYTES} bytes at most here`
      : "The compressed data is not valid, or ends too early";
    throw new CryptoRefusal("TypeError", message);
  });
  if (engine.bytesWritten < bytes.byteLength) {
    throw new CryptoRefusal("TypeError", "There is data after the end of the compressed data");
  }
  return buffer;
}

/** The job of that name over one buffer; undefined where it is none of these. */
export function prepareBrotli(name: string, buffers: readonly ArrayBuffer[]): (() => Promise<Uint8Array>) | undefined {
  const bytes = new Uint8Array(buffers[0] ?? new ArrayBuffer(0));
  if (name === "brotliDecompress") return () => decompressWhole(bytes);
  if (name !== "brotliCompress") return undefined;
  const { BROTLI_PARAM_QUALITY, BROTLI_PARAM_SIZE_HINT } = constants;
  const params = { [BROTLI_PARAM_QUALITY]: QUALITY, [BROTLI_PARAM_SIZE_HINT]: bytes.byteLength };
  return () => compress(bytes, { params });
}
