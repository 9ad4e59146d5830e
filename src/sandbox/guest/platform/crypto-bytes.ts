// Bytes as they are handed to the platform: what is a BufferSource, and a copy of it.
const byteLengthOf = Object.getOwnPropertyDescriptor(ArrayBuffer.prototype, "byteLength")?.get as () => number;

function isArrayBuffer(value: unknown): value is ArrayBuffer {
  try {
    Reflect.apply(byteLengthOf, value, []);
    return true;
  } catch {
    return false;
  }
}

export function isBufferSource(value: unknown): value is ArrayBuffer | ArrayBufferView<ArrayBuffer> {
  return ArrayBuffer.isView(value) ? isArrayBuffer(value.buffer) : isArrayBuffer(value);
}

/** In a buffer of their own. What is detached has none. */
export function copyBytes(source: ArrayBuffer | ArrayBufferView<ArrayBuffer>): ArrayBuffer {
  if (source.byteLength === 0) return new ArrayBuffer(0);
  const view = ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
  const copy = new Uint8Array(view.length);
  copy.set(view);
  return copy.buffer;
}
