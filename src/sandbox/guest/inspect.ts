// Values as console text: short, readable, bounded in depth, width and length; hostile values cost at most their own line.
import { describeValue } from "./error-text.ts";
import {
  ArrayIsArray,
  ArrayPrototypeJoin,
  append,
  DatePrototypeToISOString,
  ErrorConstructor,
  JSONStringify,
  MapPrototypeForEach,
  MapPrototypeGetSize,
  MathTrunc,
  NumberConstructor,
  NumberIsNaN,
  ObjectKeys,
  ObjectPrototypeToString,
  ReflectGetOwnPropertyDescriptor,
  ReflectGetPrototypeOf,
  RegExpPrototypeToString,
  SetConstructor,
  SetPrototypeAdd,
  SetPrototypeDelete,
  SetPrototypeForEach,
  SetPrototypeGetSize,
  SetPrototypeHas,
  StringConstructor,
  StringPrototypeIndexOf,
  StringPrototypeSlice,
  SymbolPrototypeToString,
  TypedArrayPrototypeGetLength,
  TypedArrayPrototypeGetTag,
} from "./primordials.ts";

const MAX_DEPTH = 3;
const MAX_ITEMS = 100;
const MAX_STRING = 10_000;
const IDENTIFIER_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";

function isIdentifier(name: string): boolean {
  for (let index = 0; index < name.length; index += 1) {
    if (StringPrototypeIndexOf(IDENTIFIER_CHARACTERS, name[index] as string) < 0) return false;
  }
  return name.length > 0;
}

interface Inspection {
  readonly seen: Set<object>;
  /** What is left of the text budget, in UTF-16 units. */
  budget: number;
}

function quote(text: string): string {
  const shown = text.length > MAX_STRING ? `${StringPrototypeSlice(text, 0, MAX_STRING)}…` : text;
  return `'${shown}'`;
}

function constructorName(value: object): string {
  const prototype = ReflectGetPrototypeOf(value);
  if (prototype === null) return "[Object: null prototype]";
  const constructor = ReflectGetOwnPropertyDescriptor(prototype, "constructor")?.value as
    | { name?: unknown }
    | undefined;
  const name =
    typeof constructor === "function" ? ReflectGetOwnPropertyDescriptor(constructor, "name")?.value : undefined;
  return typeof name === "string" ? StringPrototypeSlice(name, 0, 100) : "Object";
}

function inspectMembers(value: object, depth: number, inspection: Inspection): string[] {
  const members: string[] = [];
  const keys = ObjectKeys(value);
  for (let index = 0; index < keys.length && index < MAX_ITEMS && inspection.budget > 0; index += 1) {
    const key = keys[index] as string;
    const descriptor = ReflectGetOwnPropertyDescriptor(value, key);
    const text = descriptor?.get === undefined ? inspectAt(descriptor?.value, depth + 1, inspection) : "[Getter]";
    append(members, `${isIdentifier(key) ? key : quote(key)}: ${text}`);
  }
  if (keys.length > members.length) append(members, `… ${keys.length - members.length} more`);
  return members;
}

function inspectList(list: ArrayLike<unknown>, length: number, depth: number, inspection: Inspection): string[] {
  const items: string[] = [];
  for (let index = 0; index < length && index < MAX_ITEMS && inspection.budget > 0; index += 1) {
    append(items, inspectAt(list[index], depth + 1, inspection));
  }
  if (length > items.length) append(items, `… ${length - items.length} more`);
  return items;
}

const braces = (open: string, items: string[], close: string): string =>
  items.length === 0 ? `${open}${close}` : `${open} ${ArrayPrototypeJoin(items, ", ")} ${close}`;

function inspectTagged(value: object, tag: string, depth: number, inspection: Inspection): string | undefined {
  switch (tag) {
    case "[object Date]":
      return DatePrototypeToISOString(value as Date);
    case "[object RegExp]":
      return RegExpPrototypeToString(value as RegExp);
    case "[object Map]": {
      const items: string[] = [];
      MapPrototypeForEach(value as Map<unknown, unknown>, (item, key) => {
        if (items.length >= MAX_ITEMS || inspection.budget <= 0) return;
        append(items, `${inspectAt(key, depth + 1, inspection)} => ${inspectAt(item, depth + 1, inspection)}`);
      });
      return braces(`Map(${MapPrototypeGetSize(value)}) {`, items, "}");
    }
    case "[object Set]": {
      const items: string[] = [];
      SetPrototypeForEach(value as Set<unknown>, (item) => {
        if (items.length < MAX_ITEMS && inspection.budget > 0) append(items, inspectAt(item, depth + 1, inspection));
      });
      return braces(`Set(${SetPrototypeGetSize(value)}) {`, items, "}");
    }
    case "[object Promise]":
      return "Promise {}";
    default:
      return undefined;
  }
}

function inspectObject(value: object, depth: number, inspection: Inspection): string {
  if (value instanceof ErrorConstructor) {
    const { stack, message } = value as { readonly stack?: unknown; readonly message?: unknown };
    return typeof stack === "string" && stack !== "" ? stack : `[Error: ${describeValue(message)}]`;
  }
  if (depth > MAX_DEPTH) return ArrayIsArray(value) ? "[Array]" : "[Object]";
  const typedTag = TypedArrayPrototypeGetTag(value);
  if (typedTag !== undefined) {
    const length = TypedArrayPrototypeGetLength(value);
    return braces(`${typedTag}(${length}) [`, inspectList(value as ArrayLike<unknown>, length, depth, inspection), "]");
  }
  if (ArrayIsArray(value)) return braces("[", inspectList(value, value.length, depth, inspection), "]");
  const tagged = inspectTagged(value, ObjectPrototypeToString(value), depth, inspection);
  if (tagged !== undefined) return tagged;
  const name = constructorName(value);
  return braces(name === "Object" ? "{" : `${name} {`, inspectMembers(value, depth, inspection), "}");
}

function inspectAt(value: unknown, depth: number, inspection: Inspection): string {
  const text = inspectUnbounded(value, depth, inspection);
  inspection.budget -= text.length;
  return text;
}

function inspectUnbounded(value: unknown, depth: number, inspection: Inspection): string {
  switch (typeof value) {
    case "string":
      return depth === 0 ? value : quote(value);
    case "bigint":
      return `${StringConstructor(value)}n`;
    case "symbol":
      return SymbolPrototypeToString(value);
    case "function": {
      const name = ReflectGetOwnPropertyDescriptor(value, "name")?.value;
      return typeof name === "string" && name !== "" ? `[Function: ${name}]` : "[Function (anonymous)]";
    }
    case "object": {
      if (value === null) return "null";
      if (SetPrototypeHas(inspection.seen, value)) return "[Circular]";
      SetPrototypeAdd(inspection.seen, value);
      const text = inspectObject(value, depth, inspection);
      SetPrototypeDelete(inspection.seen, value);
      return text;
    }
    default:
      return value === 0 && 1 / (value as number) < 0 ? "-0" : StringConstructor(value);
  }
}

/** One value as console text of at most about `budget` UTF-16 units. Never throws. */
export function inspect(value: unknown, budget: number): string {
  try {
    return inspectAt(value, 0, { seen: new SetConstructor(), budget });
  } catch {
    return "[a value that cannot be shown]";
  }
}

function formatSpecifier(specifier: string, value: unknown, budget: number): string | undefined {
  switch (specifier) {
    case "s":
      return typeof value === "object" && value !== null ? inspect(value, budget) : describeValue(value);
    case "d":
    case "i":
    case "f": {
      const number = typeof value === "object" || typeof value === "symbol" ? NaN : NumberConstructor(value);
      return StringConstructor(specifier === "i" && !NumberIsNaN(number) ? MathTrunc(number) : number);
    }
    case "j":
      try {
        return JSONStringify(value) ?? "undefined";
      } catch {
        return "[Circular]";
      }
    case "o":
    case "O":
      return inspect(value, budget);
    case "c":
      return "";
    default:
      return undefined;
  }
}

/** Console's arguments as one line of text, printf-style placeholders filled (console spec, "Formatter"). */
export function formatLog(args: readonly unknown[], budget: number): string {
  let next = 0;
  let text = "";
  if (typeof args[0] === "string") {
    const template = args[0];
    next = 1;
    let index = 0;
    for (;;) {
      const percent = StringPrototypeIndexOf(template, "%", index);
      if (percent < 0 || percent === template.length - 1) break;
      const specifier = template[percent + 1] as string;
      text += StringPrototypeSlice(template, index, percent);
      index = percent + 2;
      const filled =
        specifier === "%" ? "%" : next < args.length ? formatSpecifier(specifier, args[next], budget) : undefined;
      if (filled === undefined) text += `%${specifier}`;
      else {
        text += filled;
        if (specifier !== "%") next += 1;
      }
      if (text.length > budget) break;
    }
    text += StringPrototypeSlice(template, index);
  }
  for (; next < args.length && text.length <= budget; next += 1) {
    const shown = inspect(args[next], budget);
    text = next === 0 ? shown : `${text} ${shown}`;
  }
  return text;
}
