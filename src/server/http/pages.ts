// Pages of lists. A route reads one row more than a page has, so that it knows whether another page follows.
import type { BoundedPage } from "../records/bounded-page.ts";

/** Returns the first rows as a page. @param limit maximum number of rows of a page, one less than were read */
export const toPage = <Row>(rows: readonly Row[], limit: number): BoundedPage<Row> => ({
  rows: rows.slice(0, limit),
  hasMore: rows.length > limit,
});

/** Returns the cursor of the next page, which is that of the last row; null on the last page. */
export function nextCursor<Row>({ rows, hasMore }: BoundedPage<Row>, cursorOf: (row: Row) => string): string | null {
  const last = rows.at(-1);
  return hasMore && last !== undefined ? cursorOf(last) : null;
}
