// The clock by which a store goes. Processes that share a store go by one clock, whatever their machines' clocks show.

/** Returns the clock of a store: its own, or that of this machine if it has none, or if its own fails. @param store with a method `now` or without */
export function clockOf(store: { readonly now?: (() => number) | undefined }): () => number {
  return () => {
    try {
      const time = store.now?.();
      return Number.isSafeInteger(time) ? (time as number) : Date.now();
    } catch {
      return Date.now();
    }
  };
}
