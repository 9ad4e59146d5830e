// Writes zip files for tests, also such as no zip program would write.
import { crc32, deflateRawSync } from "node:zlib";

export interface ZipItem {
  readonly name: string;
  readonly body?: string;
  readonly isDeflated?: boolean;
  /** Mode on Unix, with the type of the file. */
  readonly mode?: number;
  readonly flags?: number;
  /** The size that the headers claim. */
  readonly claimedSize?: number;
}

const UTF8_FLAG = 0x800;

function fieldsOf({ name, body = "text", isDeflated = false, flags = 0, claimedSize }: ZipItem) {
  const bytes = Buffer.from(body);
  const data = isDeflated ? deflateRawSync(bytes) : bytes;
  const fields = Buffer.alloc(26);
  fields.writeUInt16LE(20, 0);
  fields.writeUInt16LE(flags | UTF8_FLAG, 2);
  fields.writeUInt16LE(isDeflated ? 8 : 0, 4);
  fields.writeUInt32LE(crc32(bytes), 10);
  fields.writeUInt32LE(data.length, 14);
  fields.writeUInt32LE(claimedSize ?? bytes.length, 18);
  fields.writeUInt16LE(Buffer.byteLength(name), 22);
  return { fields, data, name: Buffer.from(name) };
}

export function makeZip(items: readonly ZipItem[]): Buffer {
  const parts: Buffer[] = [];
  const directory: Buffer[] = [];
  let offset = 0;
  for (const item of items) {
    const { fields, data, name } = fieldsOf(item);
    const local = Buffer.concat([Buffer.from("PK\u0003\u0004", "latin1"), fields, name, data]);
    const rest = Buffer.alloc(14);
    // Made on Unix; then comment length, disk, internal and external attributes, and the place of the local header.
    rest.writeUInt32LE(((item.mode ?? 0o100_644) << 16) >>> 0, 6);
    rest.writeUInt32LE(offset, 10);
    const madeBy = Buffer.from([20, 3]);
    directory.push(Buffer.concat([Buffer.from("PK\u0001\u0002", "latin1"), madeBy, fields, rest, name]));
    parts.push(local);
    offset += local.length;
  }
  const central = Buffer.concat(directory);
  const end = Buffer.alloc(22);
  end.write("PK\u0005\u0006", 0, "latin1");
  end.writeUInt16LE(items.length, 8);
  end.writeUInt16LE(items.length, 10);
  end.writeUInt32LE(central.length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...parts, central, end]);
}
