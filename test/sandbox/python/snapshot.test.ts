// Packed snapshots of the interpreter: the memory that they restore is the one that they were made from.
import fc from "fast-check";
import { expect, test } from "vitest";
import { openSnapshot, packSnapshot } from "../../../src/sandbox/guest/python/snapshot.ts";

const PAGE_BYTES = 4096;
const HEADER_BYTES = 48;
/** The first word of Pyodide's header is a constant, the second one its size. */
const HEADER = Uint8Array.from({ length: HEADER_BYTES }, (_, index) => (index === 4 ? HEADER_BYTES : index % 4));
new Uint32Array(HEADER.buffer)[1] = HEADER_BYTES;

/** A memory by the values of its pages' last bytes: 0 is a page of zeros. */
const pages = fc.array(fc.constantFrom(0, 0, 1, 255), { minLength: 1, maxLength: 24 });

function makeMemory(values: readonly number[]): Uint8Array {
  const memory = new Uint8Array(values.length * PAGE_BYTES);
  for (const [page, value] of values.entries()) memory[(page + 1) * PAGE_BYTES - 1] = value;
  return memory;
}

const makeSnapshot = (memory: Uint8Array): Uint8Array => {
  const snapshot = new Uint8Array(HEADER_BYTES + memory.byteLength);
  snapshot.set(HEADER);
  snapshot.set(memory, HEADER_BYTES);
  return snapshot;
};

test("restores the memory, also where other bytes were before", () => {
  fc.assert(
    fc.property(pages, fc.nat(), (values, cut) => {
      const memory = makeMemory(values);
      const { header, memoryBytes, writeTo } = openSnapshot(packSnapshot(makeSnapshot(memory)).buffer as ArrayBuffer);
      // The module's own memory, which its start has written to, and the rest, which is zero.
      const zeroFrom = (cut % (values.length + 1)) * PAGE_BYTES;
      const restored = new Uint8Array(memoryBytes).fill(7, 0, zeroFrom);
      writeTo(restored, zeroFrom);
      expect(restored).toEqual(memory);
      expect(header).toEqual(HEADER);
    }),
  );
});

test("leaves out the pages that are zero", () => {
  const packed = packSnapshot(makeSnapshot(makeMemory([0, 1, 0, 0, 0, 0, 0, 0, 0, 1])));
  expect(packed.byteLength).toBeLessThan(2 * PAGE_BYTES + 2 * HEADER_BYTES);
});
