// Lists of the API as arrays.

/** Returns the first items of a list. */
export async function collect<Item>(items: AsyncIterable<Item>, most = 200): Promise<readonly Item[]> {
  const found: Item[] = [];
  for await (const item of items) {
    found.push(item);
    if (found.length >= most) break;
  }
  return found;
}
