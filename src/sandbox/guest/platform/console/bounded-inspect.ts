// Formats values as console text with limits on depth, width and length. A hostile value can spoil at most its own line.
import { PRELUDE_SCRIPT_NAME } from "../../../protocol/guest-messages.ts";
import { describeValue } from "../../error-text.ts";
import {
  ArrayIsArray,
  ArrayPrototypeJoin,
  append,
  DatePrototypeGetTime,
  DatePrototypeToISOString,
  JSONStringify,
  MapPrototypeForEach,
  MapPrototypeGetSize,
  MathTrunc,
  NumberConstructor,
  NumberIsNaN,
  ObjectHasOwn,
  ObjectKeys,
  ownValue,
  ReflectGetOwnPropertyDescriptor,
  ReflectGetPrototypeOf,
  RegExpPrototypeGetFlags,
  RegExpPrototypeGetSource,
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
} from "../../primordials.ts";
import { brandOf } from "../shared/brand.ts";

const MAX_DEPTH = 3;
const MAX_ITEMS = 100;
const MAX_STRING = 10_000;
const MAX_STACK = 16_384;
const IDENTIFIER_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$";

function isIdentifier(name: string): boolean {
  for (let index = 0; index < name.length; index += 1) {
    if (StringPrototypeIndexOf(IDENTIFIER_CHARACTERS, name[index] as string) < 0) return false;
  }
  return name.length > 0;
}

interface Inspection {
  readonly seen: Set<object>;
  /** Remaining text budget in UTF-16 code units. */
  budget: number;
}

function quote(text: string): string {
  const shown = text.length > MAX_STRING ? `${StringPrototypeSlice(text, 0, MAX_STRING)}…` : text;
  return `'${shown}'`;
}

function constructorName(value: object): string {
  const prototype = ReflectGetPrototypeOf(value);
  if (prototype === null) return "[Object: null prototype]";
  const maker = ownValue(prototype, "constructor");
  const name = typeof maker === "function" ? ownValue(maker, "name") : undefined;
  return typeof name === "string" ? StringPrototypeSlice(name, 0, 100) : "Object";
}

/** Formats the value of one own property. An accessor is named, not called. */
function inspectProperty(value: object, key: string | number, depth: number, inspection: Inspection): string {
  const descriptor = ReflectGetOwnPropertyDescriptor(value, key);
  if (descriptor === undefined) return "<empty>";
  if (ObjectHasOwn(descriptor, "value")) return inspectAt(descriptor.value, depth, inspection);
  return descriptor.get === undefined ? "[Setter]" : "[Getter]";
}

function inspectMembers(value: object, depth: number, inspection: Inspection): string[] {
  const members: string[] = [];
  const keys = ObjectKeys(value);
  for (let index = 0; index < keys.length && index < MAX_ITEMS && inspection.budget > 0; index += 1) {
    const key = keys[index] as string;
    append(members, `${isIdentifier(key) ? key : quote(key)}: ${inspectProperty(value, key, depth + 1, inspection)}`);
  }
  if (keys.length > members.length) append(members, `… ${keys.length - members.length} more`);
  return members;
}

function inspectList(list: object, length: number, depth: number, inspection: Inspection): string[] {
  const items: string[] = [];
  for (let index = 0; index < length && index < MAX_ITEMS && inspection.budget > 0; index += 1) {
    append(items, inspectProperty(list, index, depth + 1, inspection));
  }
  if (length > items.length) append(items, `… ${length - items.length} more`);
  return items;
}

const braces = (open: string, items: string[], close: string): string =>
  items.length === 0 ? `${open}${close}` : `${open} ${ArrayPrototypeJoin(items, ", ")} ${close}`;

/** Removes the frames of the prelude from a stack, because they do not belong to the tool. */
export function dropPreludeFrames(stack: string): string {
  let kept = "";
  for (let start = 0; start < stack.length; ) {
    const newline = StringPrototypeIndexOf(stack, "\n", start);
    const end = newline < 0 ? stack.length : newline;
    const line = StringPrototypeSlice(stack, start, end);
    if (StringPrototypeIndexOf(line, PRELUDE_SCRIPT_NAME) < 0) kept += start === 0 ? line : `\n${line}`;
    start = end + 1;
  }
  return kept;
}

/** Formats V8's own stack, which starts with the name and message that the error had when it was created, and then its cause. */
function inspectError(error: object, depth: number, inspection: Inspection): string {
  const { stack } = error as { readonly stack?: unknown };
  const shown =
    typeof stack === "string" && stack !== ""
      ? dropPreludeFrames(StringPrototypeSlice(stack, 0, MAX_STACK))
      : `[Error: ${describeValue(ownValue(error, "message"))}]`;
  const cause = ownValue(error, "cause");
  if (cause === undefined) return shown;
  return `${shown} { [cause]: ${depth > MAX_DEPTH ? "…" : inspectAt(cause, depth + 1, inspection)} }`;
}

function inspectBranded(value: object, depth: number, inspection: Inspection): string | undefined {
  switch (brandOf(value)) {
    case "Error":
      return inspectError(value, depth, inspection);
    case "Date":
      return NumberIsNaN(DatePrototypeGetTime(value as Date))
        ? "Invalid Date"
        : DatePrototypeToISOString(value as Date);
    case "RegExp":
      return `/${RegExpPrototypeGetSource(value)}/${RegExpPrototypeGetFlags(value)}`;
    case "Map": {
      if (depth > MAX_DEPTH) return "[Map]";
      const items: string[] = [];
      MapPrototypeForEach(value as Map<unknown, unknown>, (item, key) => {
        if (items.length >= MAX_ITEMS || inspection.budget <= 0) return;
        append(items, `${inspectAt(key, depth + 1, inspection)} => ${inspectAt(item, depth + 1, inspection)}`);
      });
      return braces(`Map(${MapPrototypeGetSize(value)}) {`, items, "}");
    }
    case "Set": {
      if (depth > MAX_DEPTH) return "[Set]";
      const items: string[] = [];
      SetPrototypeForEach(value as Set<unknown>, (item) => {
        if (items.length < MAX_ITEMS && inspection.budget > 0) append(items, inspectAt(item, depth + 1, inspection));
      });
      return braces(`Set(${SetPrototypeGetSize(value)}) {`, items, "}");
    }
    default:
      return undefined;
  }
}

function inspectObject(value: object, depth: number, inspection: Inspection): string {
  const typedTag = TypedArrayPrototypeGetTag(value);
  if (depth > MAX_DEPTH && (ArrayIsArray(value) || typedTag !== undefined)) return "[Array]";
  if (typedTag !== undefined) {
    const length = TypedArrayPrototypeGetLength(value);
    return braces(`${typedTag}(${length}) [`, inspectList(value, length, depth, inspection), "]");
  }
  if (ArrayIsArray(value)) return braces("[", inspectList(value, value.length, depth, inspection), "]");
  const branded = inspectBranded(value, depth, inspection);
  if (branded !== undefined) return branded;
  if (depth > MAX_DEPTH) return "[Object]";
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
      const name = ownValue(value, "name");
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

/** Formats one value as console text of about `budget` UTF-16 code units at most. Never throws. */
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

/** Formats the arguments of a console method as one text, with printf-style placeholders (console spec, "Formatter"). */
export function formatLog(args: readonly unknown[], budget: number): string {
  let next = 0;
  let text = "";
  if (typeof args[0] === "string" && args.length > 1) {
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
