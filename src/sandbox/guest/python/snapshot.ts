// Snapshots of the interpreter without the zeros: nearly half of its memory is an unused stack and heap. They are copied several times on their
// way into an isolate, and memory is zero at the start.

/** The unit in which zeros are left out: a page of the operating system. */
const PAGE_BYTES = 4096;
const WORD_BYTES = 4;
/** Size of Pyodide's header, size of the memory, number of runs. */
const FIXED_WORDS = 3;
/** Offset and size of each run. */
const RUN_WORDS = 2;

/** Bytes of the memory that are not all zero. */
interface Run {
  readonly offset: number;
  readonly size: number;
}

/** Returns the parts of a memory that are not zero. */
function findRuns(memory: Uint8Array): Run[] {
  const words = new Uint32Array(memory.buffer, memory.byteOffset, memory.byteLength / WORD_BYTES);
  const pageWords = PAGE_BYTES / WORD_BYTES;
  const runs: Run[] = [];
  let begin: number | undefined;
  for (let page = 0; page * pageWords < words.length; page += 1) {
    const isZero = words.subarray(page * pageWords, (page + 1) * pageWords).every((word) => word === 0);
    if (!isZero) begin ??= page * PAGE_BYTES;
    else if (begin !== undefined) {
      runs.push({ offset: begin, size: page * PAGE_BYTES - begin });
      begin = undefined;
    }
  }
  if (begin !== undefined) runs.push({ offset: begin, size: memory.byteLength - begin });
  return runs;
}

/** @param snapshot Pyodide's snapshot: a header, whose second word is its own size, and the memory */
export function packSnapshot(snapshot: Uint8Array): Uint8Array {
  const [, headerBytes = 0] = new Uint32Array(snapshot.buffer, snapshot.byteOffset, FIXED_WORDS);
  const memory = snapshot.subarray(headerBytes);
  const runs = findRuns(memory);
  const words = [headerBytes, memory.byteLength, runs.length, ...runs.flatMap(({ offset, size }) => [offset, size])];
  const tableBytes = words.length * WORD_BYTES;
  const packed = new Uint8Array(runs.reduce((sum, { size }) => sum + size, tableBytes + headerBytes));
  new Uint32Array(packed.buffer, 0, words.length).set(words);
  packed.set(snapshot.subarray(0, headerBytes), tableBytes);
  let at = tableBytes + headerBytes;
  for (const { offset, size } of runs) {
    packed.set(memory.subarray(offset, offset + size), at);
    at += size;
  }
  return packed;
}

export interface PackedSnapshot {
  /** Pyodide's header, which is a snapshot with an empty memory. */
  readonly header: Uint8Array;
  readonly memoryBytes: number;
  /** Writes the memory. `memory` has the right size, and its bytes from `zeroFrom` on are zero. */
  writeTo(memory: Uint8Array, zeroFrom: number): void;
}

/** @param packed the result of `packSnapshot` */
export function openSnapshot(packed: ArrayBuffer): PackedSnapshot {
  const [headerBytes = 0, memoryBytes = 0, count = 0] = new Uint32Array(packed, 0, FIXED_WORDS);
  const table = new Uint32Array(packed, FIXED_WORDS * WORD_BYTES, count * RUN_WORDS);
  const tableBytes = (FIXED_WORDS + count * RUN_WORDS) * WORD_BYTES;
  return {
    // A copy, because it is kept: the memory of the rest is free after the load.
    header: new Uint8Array(packed, tableBytes, headerBytes).slice(),
    memoryBytes,
    writeTo(memory, zeroFrom) {
      let at = tableBytes + headerBytes;
      let end = 0;
      for (let index = 0; index < count; index += 1) {
        const [offset = 0, size = 0] = table.subarray(index * RUN_WORDS, (index + 1) * RUN_WORDS);
        memory.fill(0, end, Math.min(offset, Math.max(end, zeroFrom)));
        memory.set(new Uint8Array(packed, at, size), offset);
        at += size;
        end = offset + size;
      }
      memory.fill(0, end, Math.max(end, zeroFrom));
    },
  };
}
