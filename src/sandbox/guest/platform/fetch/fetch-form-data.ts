// FormData (XMLHttpRequest standard, "Interface FormData").

import { defineInterface, requireArguments } from "../shared/webidl.ts";
import { showAs } from "./fetch-inspect.ts";
import { type Blob, blobs, type File } from "./fetch-platform.ts";
import { forEachPair, makePairIterators, type Pair, tagOf, toUsvString } from "./fetch-webidl.ts";

export type FormDataEntry = Pair<string | File>;

/** Tells whether a value is a Blob or a File. The tag is checked first, because the check itself loads a platform module. */
export function isBlob(value: unknown): value is Blob {
  if (typeof value !== "object" || value === null) return false;
  const tag = tagOf(value);
  return (tag === "Blob" || tag === "File") && blobs().isBlob(value);
}

/** Implements "create an entry". */
function toEntryValue(value: unknown, filename: string | undefined): string | File {
  if (!isBlob(value)) return toUsvString(value);
  const { File, isFile } = blobs();
  if (filename === undefined && isFile(value)) return value;
  const lastModified = isFile(value) ? { lastModified: value.lastModified } : {};
  return new File([value], filename ?? "blob", { type: value.type, ...lastModified });
}

type EntryArguments = readonly [name: unknown, value: unknown, filename?: unknown];

function toEntry(what: string, args: EntryArguments): FormDataEntry {
  requireArguments(what, 2, args.length);
  const [name, value, filename] = args;
  if (args.length > 2 && filename !== undefined && !isBlob(value)) {
    throw new TypeError(`${what}: expected a Blob with a file name, got ${typeof value}`);
  }
  return [toUsvString(name), toEntryValue(value, filename === undefined ? undefined : toUsvString(filename))];
}

/** Returns the entries in order, or undefined if the value is not a FormData object. */
export let formDataEntries: (value: object) => FormDataEntry[] | undefined;

export class FormData {
  #entries: FormDataEntry[] = [];

  static {
    formDataEntries = (value) => (#entries in value ? value.#entries : undefined);
  }

  constructor(form: unknown = undefined) {
    if (form !== undefined)
      throw new TypeError("FormData: expected no argument, because the sandbox has no HTML forms");
  }

  append(...args: EntryArguments): void {
    const entries = this.#entries;
    entries.push(toEntry("FormData.append", args));
  }

  delete(...args: readonly [name: unknown]): void {
    requireArguments("FormData.delete", 1, args.length);
    const name = toUsvString(args[0]);
    this.#entries = this.#entries.filter((entry) => entry[0] !== name);
  }

  get(...args: readonly [name: unknown]): string | File | null {
    requireArguments("FormData.get", 1, args.length);
    const name = toUsvString(args[0]);
    return this.#entries.find((entry) => entry[0] === name)?.[1] ?? null;
  }

  getAll(...args: readonly [name: unknown]): (string | File)[] {
    requireArguments("FormData.getAll", 1, args.length);
    const name = toUsvString(args[0]);
    return this.#entries.filter((entry) => entry[0] === name).map((entry) => entry[1]);
  }

  has(...args: readonly [name: unknown]): boolean {
    requireArguments("FormData.has", 1, args.length);
    const name = toUsvString(args[0]);
    return this.#entries.some((entry) => entry[0] === name);
  }

  set(...args: EntryArguments): void {
    const entries = this.#entries;
    const made = toEntry("FormData.set", args);
    const first = entries.findIndex((entry) => entry[0] === made[0]);
    if (first < 0) {
      entries.push(made);
      return;
    }
    this.#entries = entries.filter((entry, index) => index <= first || entry[0] !== made[0]);
    this.#entries[first] = made;
  }

  entries(): IterableIterator<unknown> {
    return iterate(this, "entries");
  }

  keys(): IterableIterator<unknown> {
    return iterate(this, "keys");
  }

  values(): IterableIterator<unknown> {
    return iterate(this, "values");
  }

  forEach(...args: readonly unknown[]): void {
    forEachPair("FormData.forEach", () => entriesOf(this), this, args);
  }

  declare [Symbol.iterator]: () => IterableIterator<unknown>;
}

function entriesOf(owner: FormData): readonly FormDataEntry[] {
  const entries = formDataEntries(owner);
  if (entries === undefined) throw new TypeError("Expected a FormData object");
  return entries;
}
const iterate = makePairIterators<FormData, string | File>("FormData", entriesOf);
defineInterface("FormData", FormData);
showAs("FormData", FormData, (form) => {
  const names = [...new Set(entriesOf(form).map(([name]) => name))];
  const values = (name: string): unknown => (form.getAll(name).length === 1 ? form.get(name) : form.getAll(name));
  return Object.fromEntries(names.map((name) => [name, values(name)]));
});
Object.defineProperty(FormData.prototype, Symbol.iterator, {
  value: FormData.prototype.entries,
  writable: true,
  configurable: true,
});
