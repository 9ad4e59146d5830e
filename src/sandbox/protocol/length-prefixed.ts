// Joins several byte strings into one, each after its length, and splits them again. Used for code caches, which the host stores and
// forwards without reading them.
const LENGTH_BYTES = 4;

/** Joins the parts. */
export function pack(parts: readonly Uint8Array[]): Uint8Array {
  const packed = Buffer.alloc(parts.reduce((sum, { byteLength }) => sum + LENGTH_BYTES + byteLength, 0));
  let offset = 0;
  for (const part of parts) {
    offset = packed.writeUInt32LE(part.byteLength, offset);
    packed.set(part, offset);
    offset += part.byteLength;
  }
  return packed;
}

/** Returns the parts as views into `packed`. Ignores a truncated last part. */
export function unpack(packed: Uint8Array): readonly Uint8Array[] {
  const view = Buffer.from(packed.buffer, packed.byteOffset, packed.byteLength);
  const parts: Uint8Array[] = [];
  for (let offset = 0; offset + LENGTH_BYTES <= view.length; ) {
    const begin = offset + LENGTH_BYTES;
    offset = begin + view.readUInt32LE(offset);
    if (offset > view.length) break;
    parts.push(view.subarray(begin, offset));
  }
  return parts;
}
