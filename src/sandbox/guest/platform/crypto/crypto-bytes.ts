// Recognizes and copies the bytes that a guest passes to the platform (BufferSource).
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

/** Copies bytes into a new buffer. A detached buffer has no bytes. */
export function copyBytes(source: ArrayBuffer | ArrayBufferView<ArrayBuffer>): ArrayBuffer {
  if (source.byteLength === 0) return new ArrayBuffer(0);
  const view = ArrayBuffer.isView(source)
    ? new Uint8Array(source.buffer, source.byteOffset, source.byteLength)
    : new Uint8Array(source);
  const copy = new Uint8Array(view.length);
  copy.set(view);
  return copy.buffer;
}
