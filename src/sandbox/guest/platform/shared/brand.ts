// Determines the real type of an object by V8's internal slots, not by `instanceof` or a tag, which a guest can set.
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
} from "../../primordials.ts";

type Reader = (value: never) => unknown;
interface Readers {
  readonly [brand: string]: Reader;
}

/** Each reader throws for a value without the slot. The first one returns a value instead. */
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

/** Returns `Map`, `Set`, `Date`, `RegExp`, `ArrayBuffer`, `Error`, or the type of a boxed primitive, and undefined for other objects. */
export function brandOf(value: object): string | undefined {
  const tag = StringPrototypeSlice(ObjectPrototypeToString(value), 8, -1);
  if (tag === "Object" && !(SymbolToStringTag in value)) return undefined;
  if (ErrorIsError(value)) return "Error";
  readers ??= makeReaders();
  if (has(readers[tag], value)) return tag;
  // The object has no tag, or a false one.
  for (const brand in readers) if (has(readers[brand], value)) return brand;
  return undefined;
}
