// Guest source for `reach(roots)`: everything that a guest can reach from the roots by prototypes, properties and getters.
export const REACH = `const reach = (roots) => {
  const seen = new Set();
  const queue = [...roots];
  while (queue.length > 0) {
    const item = queue.pop();
    if ((typeof item !== "object" && typeof item !== "function") || item === null || seen.has(item)) continue;
    seen.add(item);
    queue.push(Object.getPrototypeOf(item));
    for (const key of Reflect.ownKeys(item)) {
      const { value, get, set } = Object.getOwnPropertyDescriptor(item, key) ?? {};
      queue.push(value, get, set);
      if (get !== undefined) try { queue.push(item[key]); } catch {}
    }
  }
  return [...seen];
};`;

/** Roots of a walk: what syntax gives, and no global leads to. */
export const ROOTS = `[globalThis, async () => {}, function* () {}, async function* () {}, (function* () {})(), [][Symbol.iterator](), new Map().keys(), /x/[Symbol.matchAll]("x"), new Error("x"), Promise.resolve(), new Intl.DateTimeFormat(), new Uint8Array(1).buffer]`;
