// Builds an uncompressed Python wheel from texts.
import { crc32 } from "node:zlib";

function headerOf(signature: number, name: Buffer, data: Buffer): Buffer {
  const isLocal = signature === 0x04034b50;
  const header = Buffer.alloc(isLocal ? 30 : 46);
  const common = isLocal ? 4 : 6;
  header.writeUInt32LE(signature);
  if (!isLocal) header.writeUInt16LE(20, 4);
  header.writeUInt16LE(20, common);
  header.writeUInt32LE(crc32(data), common + 10);
  header.writeUInt32LE(data.length, common + 14);
  header.writeUInt32LE(data.length, common + 18);
  header.writeUInt16LE(name.length, common + 22);
  return header;
}

/** A ZIP archive (PKWARE's APPNOTE, 4.3) whose entries are stored as they are. */
export function makeWheel(files: { readonly [path: string]: string }): Buffer {
  const local: Buffer[] = [];
  const central: Buffer[] = [];
  let offset = 0;
  for (const [path, text] of Object.entries(files)) {
    const [name, data] = [Buffer.from(path), Buffer.from(text)];
    const entry = headerOf(0x02014b50, name, data);
    entry.writeUInt32LE(offset, 42);
    central.push(entry, name);
    const parts = [headerOf(0x04034b50, name, data), name, data];
    local.push(...parts);
    offset += parts.reduce((sum, part) => sum + part.length, 0);
  }
  const end = Buffer.alloc(22);
  end.writeUInt32LE(0x06054b50);
  const count = Object.keys(files).length;
  end.writeUInt16LE(count, 8);
  end.writeUInt16LE(count, 10);
  end.writeUInt32LE(Buffer.concat(central).length, 12);
  end.writeUInt32LE(offset, 16);
  return Buffer.concat([...local, ...central, end]);
}
