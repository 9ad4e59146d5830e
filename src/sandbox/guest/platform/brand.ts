// What an object really is: by V8's internal slots, not by `instanceof` or a tag, which a guest can set.
import {
  ArrayBufferPrototypeGetByteLength,
  BigIntPrototypeValueOf,
  BooleanPrototypeValueOf,
  DatePrototypeGetTime,
  ErrorIsError,
  MapPrototypeGetSize,
  NumberPrototypeValueOf,
  ObjectPrototypeToString,
  RegExpPrototypeGetSource,
  SetPrototypeGetSize,
  StringPrototypeSlice,
  StringPrototypeValueOf,
  SymbolPrototypeValueOf,
  SymbolToStringTag,
} from "../primordials.ts";

type Reader = (value: never) => unknown;
interface Readers {
  readonly [brand: string]: Reader;
}

/** Each throws for a value without the slot, but for the first, which answers. */
const makeReaders = (): Readers =>
  ({
    __proto__: null,
    Map: MapPrototypeGetSize,
    Set: SetPrototypeGetSize,
    Date: DatePrototypeGetTime,
    RegExp: RegExpPrototypeGetSource,
    ArrayBuffer: ArrayBufferPrototypeGetByteLength,
    Boolean: BooleanPrototypeValueOf,
    Number: NumberPrototypeValueOf,
    String: StringPrototypeValueOf,
    BigInt: BigIntPrototypeValueOf,
    Symbol: SymbolPrototypeValueOf,
  }) as unknown as Readers;

let readers: Readers | undefined;

function has(read: Reader | undefined, value: object): boolean {
  try {
    if (read === undefined) return false;
    read(value as never);
    return true;
  } catch {
    return false;
  }
}

/** `Map`, `Set`, `Date`, `RegExp`, `ArrayBuffer`, `Error`, or a boxed primitive's type; undefined for the rest. */
export function brandOf(value: object): string | undefined {
  const tag = StringPrototypeSlice(ObjectPrototypeToString(value), 8, -1);
  if (tag === "Object" && !(SymbolToStringTag in value)) return undefined;
  if (ErrorIsError(value)) return "Error";
  readers ??= makeReaders();
  if (has(readers[tag], value)) return tag;
  // No tag of its own, or one that lies.
  for (const brand in readers) if (has(readers[brand], value)) return brand;
  return undefined;
}
