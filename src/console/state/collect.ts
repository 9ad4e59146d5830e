// Lists of the API as arrays.

/** Items of a list that a page shows if it names no other number. */
export const MAX_ITEMS = 200;

/** Returns the first items of a list. */
export async function collect<Item>(items: AsyncIterable<Item>, most = MAX_ITEMS): Promise<readonly Item[]> {
  const found: Item[] = [];
  for await (const item of items) {
    found.push(item);
    if (found.length >= most) break;
  }
  return found;
}
