// A list whose items come and go all the time. In a Set, each addition and removal soon allocates a new table, and the old
// tables refer to the new ones: V8's scavenger then keeps every item that was ever in it until the next full collection.

/** Position of an item in a list. */
export interface ListSlot<Item> {
  readonly item: Item;
  before: ListSlot<Item> | undefined;
  after: ListSlot<Item> | undefined;
  isListed: boolean;
}

export class LinkedList<Item> {
  #first: ListSlot<Item> | undefined;
  #last: ListSlot<Item> | undefined;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Adds an item at the end. Returns its slot, for `delete`. */
  add(item: Item): ListSlot<Item> {
    const slot: ListSlot<Item> = { item, before: this.#last, after: undefined, isListed: true };
    if (this.#last === undefined) this.#first = slot;
    else this.#last.after = slot;
    this.#last = slot;
    this.#size += 1;
    return slot;
  }

  /** Removes an item. Removing it twice is a no-op. */
  delete(slot: ListSlot<Item>): void {
    if (!slot.isListed) return;
    const { before, after } = slot;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    slot.isListed = false;
    slot.before = undefined;
    slot.after = undefined;
    this.#size -= 1;
  }

  /** Returns the items, oldest first. A copy, so that the caller may add and delete meanwhile. */
  toArray(): Item[] {
    const items: Item[] = [];
    for (let slot = this.#first; slot !== undefined; slot = slot.after) items.push(slot.item);
    return items;
  }
}
