// A generator whose reader can leave at any time: leaving aborts the producer, and resolves when the producer has ended.

/** @param read produces the items, and ends soon after `stop` aborts */
export function createStoppableGenerator<Item>(
  read: (stop: AbortController) => AsyncGenerator<Item, void, undefined>,
): AsyncGenerator<Item, void, undefined> {
  const stop = new AbortController();
  const items = read(stop);
  const leave = (): Promise<IteratorResult<Item, void>> => {
    // Aborting also covers a pending `next`: a generator handles `return` only while it is suspended at a `yield`.
    stop.abort();
    return items.return();
  };
  const generator: AsyncGenerator<Item, void, undefined> = {
    next: () => items.next(),
    return: leave,
    throw: leave,
    [Symbol.asyncIterator]: () => generator,
    [Symbol.asyncDispose]: async () => {
      await leave();
    },
  };
  return generator;
}
