// The guest's one clock, and two forms of it that stand still while the guest runs: the coarse one moves when the worker enters, the fixed
// one by the guest's own timers. Every way of V8's to read the time is answered by it, by stand-ins that cannot be told from V8's own and
// lead to nothing else.
import {
  DateConstructor,
  DateNow,
  DatePrototypeToString,
  defineGlobal,
  defineValue,
  MathMax,
  ReflectApply,
  ReflectConstruct,
  ReflectDefineProperty,
  ReflectGetOwnPropertyDescriptor,
  uncurryThis,
  WeakMapConstructor,
  WeakMapPrototypeGet,
  WeakMapPrototypeSet,
} from "./primordials.ts";

const ProxyConstructor = Proxy;

/** Undefined while the clock is V8's own. */
let frozen: number | undefined;
/** It is no clock of this world: nothing but the guest's own timers moves it. */
let isFixed = false;

/** The time as the guest may know it, in ms since the epoch. */
export function now(): number {
  return frozen ?? DateNow();
}

let origin = 0;

/** When the isolate began, as the guest may know it. */
export function timeOrigin(): number {
  return origin;
}

/** At boot, once the clock is the one that the guest will have. */
export function beginTime(): void {
  origin = now();
}

/** The worker has entered the guest. */
export function advanceTime(): void {
  if (frozen !== undefined && !isFixed) frozen = DateNow();
}

export const hasFixedTime = (): boolean => isFixed;

/** A timer of a guest with a fixed clock rings: it is as late as that says. */
export function moveFixedTime(to: number): void {
  frozen = MathMax(now(), to);
}

type Method = (...args: never[]) => unknown;
type Apply = (self: unknown, args: readonly unknown[]) => unknown;
/** Not destructured: an array's iterator is the guest's to replace. */
const first = (args: readonly unknown[]): unknown => (args.length > 0 ? args[0] : undefined);

/** A function that is like `native` in all but what it does. A proxy: its text, name, length and statics are the native one's. */
function standIn<Native extends Method>(native: Native, apply: Apply): Native {
  const handler = { __proto__: null, apply: (_target: Native, self: unknown, args: unknown[]) => apply(self, args) };
  return new ProxyConstructor(native, handler as unknown as ProxyHandler<Native>);
}

export function replaceMethod(target: object, key: string, apply: (native: Method) => Apply): void {
  const native = (target as { readonly [key: string]: Method })[key] as Method;
  defineValue(target, key, standIn(native, apply(native)), false);
}

/** `Date()`, `new Date()`, `Date.now()`. Subclasses and `Reflect.construct` come by the same trap. */
function installCoarseDate(): void {
  const handler = {
    __proto__: null,
    apply: () => DatePrototypeToString(new DateConstructor(now())),
    construct: (_target: unknown, args: unknown[], newTarget: Method) =>
      ReflectConstruct(DateConstructor, args.length === 0 ? [now()] : args, newTarget) as object,
  };
  const CoarseDate = new ProxyConstructor(DateConstructor, handler as unknown as ProxyHandler<DateConstructor>);
  replaceMethod(DateConstructor, "now", () => now);
  defineValue(DateConstructor.prototype, "constructor", CoarseDate, false);
  defineGlobal("Date", CoarseDate);
}

/** A formatter that is given no date takes the clock's. (formatRange and formatRangeToParts refuse to.) */
function installCoarseFormat(): void {
  const { prototype } = Intl.DateTimeFormat;
  const dated =
    (native: Method): Apply =>
    (self, args) =>
      ReflectApply(native, self, [first(args) === undefined ? now() : first(args)]);
  replaceMethod(prototype, "formatToParts", dated);
  // `format` is a getter of a function bound to its formatter, the same one each time.
  const standIns = new WeakMapConstructor<Method, Method>();
  const descriptor = ReflectGetOwnPropertyDescriptor(prototype, "format") as PropertyDescriptor & { get: () => Method };
  const getFormat = uncurryThis(descriptor.get);
  const get = standIn(descriptor.get, (self) => {
    const native = getFormat(self as never);
    const known = WeakMapPrototypeGet(standIns, native);
    if (known !== undefined) return known;
    const made = standIn(native, dated(native));
    WeakMapPrototypeSet(standIns, native, made);
    return made;
  });
  ReflectDefineProperty(prototype, "format", { __proto__: null, get } as PropertyDescriptor);
}

interface TemporalNamespace {
  readonly Now: { readonly timeZoneId: () => string };
  readonly Instant: {
    readonly fromEpochMilliseconds: (ms: number) => object;
    readonly prototype: { readonly toZonedDateTimeISO: (timeZone: unknown) => object };
  };
  readonly ZonedDateTime: { readonly prototype: { readonly [method: string]: () => object } };
}

/** `Temporal.Now`, where V8 has it: each of its clocks is made from the instant. */
function installCoarseTemporal(): void {
  const temporal = (globalThis as { readonly Temporal?: TemporalNamespace }).Temporal;
  if (temporal === undefined) return;
  const { Now, Instant, ZonedDateTime } = temporal;
  const { fromEpochMilliseconds } = Instant;
  const { timeZoneId } = Now;
  const instant = (): object => ReflectApply(fromEpochMilliseconds, undefined, [now()]);
  const toZonedDateTime = uncurryThis(Instant.prototype.toZonedDateTimeISO) as Method as Apply;
  const zoned = (timeZone: unknown): object =>
    toZonedDateTime(instant(), (timeZone === undefined ? timeZoneId() : timeZone) as never) as object;
  replaceMethod(Now, "instant", () => instant);
  replaceMethod(Now, "zonedDateTimeISO", () => (_self, args) => zoned(first(args)));
  for (const part of ["PlainDateTime", "PlainDate", "PlainTime"]) {
    const convert = ZonedDateTime.prototype[`to${part}`] as () => object;
    const name = `p${part.slice(1)}ISO`;
    replaceMethod(Now, name, () => (_self, args) => ReflectApply(convert, zoned(first(args)), []));
  }
}

/**
 * Called at boot, before anything of the tool's is in the isolate.
 * @param fixedAt what a fixed clock shows first, in ms since the epoch
 */
export function installCoarseTime(fixedAt?: number): void {
  isFixed = fixedAt !== undefined;
  frozen = fixedAt ?? DateNow();
  installCoarseDate();
  installCoarseFormat();
  installCoarseTemporal();
}
