// The guest's clock. It has two variants that are frozen while the guest runs: a coarse clock advances when the worker
// enters the guest, a fixed clock has the time that the worker states on each entry. Proxies replace all functions of
// V8 that read the time; the guest cannot distinguish them from V8's functions or reach V8's functions through them.
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

/** Time of a frozen clock. Undefined if the guest uses V8's clock. */
let frozen: number | undefined;
/** Whether the worker states the time. */
let isFixed = false;

/** Returns the time of the guest's clock, in ms since 1970. */
export function now(): number {
  return frozen ?? DateNow();
}

let origin = 0;

/** Returns the time at which the isolate started, by the guest's clock. */
export function timeOrigin(): number {
  return origin;
}

/** Sets the time origin. Called at boot after the clock is installed. */
export function beginTime(): void {
  origin = now();
}

/**
 * Advances a frozen clock. Called when the worker enters the guest.
 * @param to time of a fixed clock
 */
export function advanceTime(to: number | undefined): void {
  if (frozen === undefined) return;
  if (!isFixed) frozen = DateNow();
  else if (to !== undefined) frozen = MathMax(frozen, to);
}

type Method = (...args: never[]) => unknown;
type Apply = (self: unknown, args: readonly unknown[]) => unknown;
// Not destructured, because a tool can replace the iterator of arrays.

const first = (args: readonly unknown[]): unknown => (args.length > 0 ? args[0] : undefined);

/**
 * Returns a proxy of `native` that calls `apply` instead. Its source text, name, length and properties are those of the native function.
 */
function wrapNative<Native extends Method>(native: Native, apply: Apply): Native {
  const handler = { __proto__: null, apply: (_target: Native, self: unknown, args: unknown[]) => apply(self, args) };
  return new ProxyConstructor(native, handler as unknown as ProxyHandler<Native>);
}

export function replaceMethod(target: object, key: string, apply: (native: Method) => Apply): void {
  const native = (target as { readonly [key: string]: Method })[key] as Method;
  defineValue(target, key, wrapNative(native, apply(native)), false);
}

/** Replaces `Date()`, `new Date()` and `Date.now()`. The construct trap also covers subclasses and `Reflect.construct`. */
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

/** Replaces the format methods that use the current time if no date is given. formatRange and formatRangeToParts require a date. */
function installCoarseFormat(): void {
  const { prototype } = Intl.DateTimeFormat;
  const dated =
    (native: Method): Apply =>
    (self, args) =>
      ReflectApply(native, self, [first(args) === undefined ? now() : first(args)]);
  replaceMethod(prototype, "formatToParts", dated);
  // `format` is a getter that returns a function bound to its formatter, the same one each time.
  const wrappers = new WeakMapConstructor<Method, Method>();
  const descriptor = ReflectGetOwnPropertyDescriptor(prototype, "format") as PropertyDescriptor & { get: () => Method };
  const getFormat = uncurryThis(descriptor.get);
  const get = wrapNative(descriptor.get, (self) => {
    const native = getFormat(self as never);
    const known = WeakMapPrototypeGet(wrappers, native);
    if (known !== undefined) return known;
    const wrapper = wrapNative(native, dated(native));
    WeakMapPrototypeSet(wrappers, native, wrapper);
    return wrapper;
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

/** Replaces `Temporal.Now`, if V8 has it. All its functions derive from the current instant. */
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
 * Installs a frozen clock. Called at boot, before tool code is in the isolate.
 * @param fixedAt initial time of a fixed clock, in ms since 1970; without it the clock is coarse
 */
export function installCoarseTime(fixedAt?: number): void {
  isFixed = fixedAt !== undefined;
  frozen = fixedAt ?? DateNow();
  installCoarseDate();
  installCoarseFormat();
  installCoarseTemporal();
}
