// Computes which intrinsics node-inspect-extracted needs. While it loads, the package copies about 1,500 functions of all built-in objects
// and uses few of them, which is most of the cost of a tool's first logged object. A banner limits `Reflect.ownKeys` in its platform module
// to the names that occur in its source text.

/**
 * Returns the property names that a text may use. `ArrayPrototypePushApply` uses `push`: each word is cut before each capital letter,
 * because nothing marks where the name of the object ends.
 */
function namesIn(text: string): ReadonlySet<string> {
  const names = new Set<string>();
  for (const [word] of text.matchAll(/[A-Za-z]{2,}/g)) {
    names.add(word);
    for (const whole of [word, word.replace(/Apply$/, "")]) {
      for (const { index } of whole.matchAll(/[A-Z]/g)) {
        const tail = whole.slice(index);
        names.add(tail.slice(0, 1).toLowerCase() + tail.slice(1));
      }
    }
  }
  return names;
}

function addNames(owner: object, names: Set<string>): void {
  for (const name of Object.getOwnPropertyNames(owner)) names.add(name);
}

/** Names of all properties of the language's objects and their prototypes. */
function intrinsicNames(): ReadonlySet<string> {
  // Names of iterator and generator methods: their prototypes are not reachable by name.
  const names = new Set(["next", "return", "throw"]);
  for (const { value } of Object.values(Object.getOwnPropertyDescriptors(globalThis)) as PropertyDescriptor[]) {
    if ((typeof value !== "object" && typeof value !== "function") || value === null) continue;
    for (let owner = value; owner !== null; owner = Object.getPrototypeOf(owner)) addNames(owner, names);
    for (let owner = value.prototype ?? null; owner !== null; owner = Object.getPrototypeOf(owner))
      addNames(owner, names);
  }
  return names;
}

export function neededIntrinsics(text: string): readonly string[] {
  const used = namesIn(text);
  return [...intrinsicNames()].filter((name) => used.has(name)).sort();
}

/** Returns the first line of the script: a local `Reflect` whose `ownKeys` omits the names that the script does not need. */
export const intrinsicsBanner = (text: string): string =>
  `const Reflect={__proto__:globalThis.Reflect,ownKeys:(needed=>target=>globalThis.Reflect.ownKeys(target).filter(key=>typeof key==="symbol"||needed.has(key)))(new Set(${JSON.stringify(neededIntrinsics(text).join(" "))}.split(" ")))};`;
