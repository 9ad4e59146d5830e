// Reads pages of lists whose rows can be long. A page ends early when its rows have many bytes, so that no response, and no read, needs much more.

/** Maximum size of a page in bytes. Its first row is part of it in any case. */
export const PAGE_BYTES: number = 4 * 1024 * 1024;
/** Rows of the first read. The next ones are chosen by the size of those before. */
const FIRST_ROWS = 16;

export interface BoundedPage<Row> {
  readonly rows: readonly Row[];
  /** Whether other rows follow. */
  readonly hasMore: boolean;
}

/**
 * Reads a page of at most `limit` rows and {@link PAGE_BYTES} bytes.
 * @param read returns up to `limit` rows after a row; after none for the first ones
 * @param bytesOf returns the size of a row
 */
export async function readBoundedPage<Row>(
  limit: number,
  read: (after: Row | undefined, limit: number) => Promise<readonly Row[]>,
  bytesOf: (row: Row) => number,
): Promise<BoundedPage<Row>> {
  const rows: Row[] = [];
  let bytes = 0;
  for (let size = FIRST_ROWS; ; ) {
    const wanted = Math.min(size, limit + 1 - rows.length);
    const found = await read(rows.at(-1), wanted);
    for (const row of found) {
      const added = bytesOf(row);
      if (rows.length === limit || (rows.length > 0 && bytes + added > PAGE_BYTES)) return { rows, hasMore: true };
      rows.push(row);
      bytes += added;
    }
    if (found.length < wanted) return { rows, hasMore: false };
    size = Math.max(1, Math.floor((PAGE_BYTES - bytes) / Math.max(1, bytes / rows.length)));
  }
}

/** Returns the bytes of columns. */
export const bytesOfTexts = (...texts: readonly (string | null)[]): number =>
  texts.reduce((sum, text) => sum + (text === null ? 0 : Buffer.byteLength(text)), 0);
