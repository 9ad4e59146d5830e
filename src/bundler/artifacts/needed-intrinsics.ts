// node-inspect-extracted copies all functions of all of the language's objects while it loads, some 1,500, and uses few: most of what a
// tool's first logged object costs. Its chunk lets it see those only whose names stand in its text.

/** `ArrayPrototypePushApply` asks for `push`; a name is cut before each capital, since nobody says where the object's own name ends. */
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
  // Of iterators and generators, whose prototypes have no names of their own.
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

/** A script's first line: `Reflect`, for this script, whose `ownKeys` leaves out what is not needed. */
export const intrinsicsBanner = (text: string): string =>
  `const Reflect={__proto__:globalThis.Reflect,ownKeys:(needed=>target=>globalThis.Reflect.ownKeys(target).filter(key=>typeof key==="symbol"||needed.has(key)))(new Set(${JSON.stringify(neededIntrinsics(text).join(" "))}.split(" ")))};`;
