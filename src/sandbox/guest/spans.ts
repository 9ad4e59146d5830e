// ctx.span: reports periods of the tool's own work for the call's timeline. The worker takes the times, so that they are exact although the guest's
// clock is coarse, and the guest can neither read nor choose them.
import { callState } from "./call-state.ts";
import { describeValue } from "./error-text.ts";
import { post } from "./host.ts";
import {
  JSONStringify,
  NumberIsFinite,
  ObjectKeys,
  PromiseConstructor,
  PromisePrototypeThen,
  StringPrototypeSlice,
  TypeErrorConstructor,
} from "./primordials.ts";

/** Maximum number of spans of a call. Documented in tool.ts. The worker and the host treat a flood of reports as a broken guest. */
const MAX_SPANS = 1_000;
const MAX_NAME_LENGTH = 200;
const MAX_ATTRIBUTES = 16;
const MAX_KEY_LENGTH = 64;

type Attributes = { [name: string]: string | number | boolean };

/** Copies attributes within limits. @throws {TypeError} for a value that is not a text, a finite number or a boolean */
function toAttributes(given: unknown): Attributes | undefined {
  if (given === undefined) return undefined;
  if (typeof given !== "object" || given === null)
    throw new TypeErrorConstructor(`ctx.span() expected attributes as an object, got ${describeValue(given)}`);
  const attributes = { __proto__: null } as unknown as Attributes;
  const keys = ObjectKeys(given);
  for (let index = 0; index < keys.length && index < MAX_ATTRIBUTES; index += 1) {
    const key = keys[index] as string;
    const value = (given as { readonly [key: string]: unknown })[key];
    if (typeof value === "string")
      attributes[StringPrototypeSlice(key, 0, MAX_KEY_LENGTH)] = StringPrototypeSlice(value, 0, MAX_NAME_LENGTH);
    else if (typeof value === "boolean" || (typeof value === "number" && NumberIsFinite(value)))
      attributes[StringPrototypeSlice(key, 0, MAX_KEY_LENGTH)] = value;
    else if (value !== undefined)
      throw new TypeErrorConstructor(`ctx.span() expected text, numbers and booleans as attributes, got "${key}"`);
  }
  return attributes;
}

const isActive = (serial: number): boolean => callState.active && serial === callState.serial;

/** Runs a function within a span of the call. */
export function runInSpan(serial: number, name: unknown, second: unknown, third: unknown): unknown {
  const hasAttributes = third !== undefined;
  const run = hasAttributes ? third : second;
  if (typeof name !== "string" || typeof run !== "function") {
    throw new TypeErrorConstructor("ctx.span() expected a name, attributes if there are any, and a function");
  }
  const attributes = hasAttributes ? toAttributes(second) : undefined;
  if (!isActive(serial) || callState.spans >= MAX_SPANS) return (run as () => unknown)();
  callState.spans += 1;
  const id = callState.spans;
  const begin = { __proto__: null, id, name: StringPrototypeSlice(name, 0, MAX_NAME_LENGTH), attributes };
  post("span", JSONStringify(begin));
  const end = (ok: boolean): void => {
    if (isActive(serial)) post("span", JSONStringify({ __proto__: null, id, ok }));
  };
  let returned: unknown;
  try {
    returned = (run as () => unknown)();
  } catch (thrown) {
    end(false);
    throw thrown;
  }
  const isObject = (typeof returned === "object" && returned !== null) || typeof returned === "function";
  if (!isObject || typeof (returned as { readonly then?: unknown }).then !== "function") {
    end(true);
    return returned;
  }
  const settled = new PromiseConstructor<unknown>((resolve) => resolve(returned));
  return PromisePrototypeThen(
    settled,
    (value) => {
      end(true);
      return value;
    },
    (reason) => {
      end(false);
      throw reason;
    },
  );
}

/**
 * Reports a `performance.measure()` as a span.
 * @param agoMs how long before now it ended, by the guest's clock
 */
export function reportMeasure(name: string, agoMs: number, durationMs: number): void {
  if (callState.serial === 0 || !callState.active || callState.spans >= MAX_SPANS) return;
  if (!(NumberIsFinite(agoMs) && NumberIsFinite(durationMs) && durationMs >= 0)) return;
  callState.spans += 1;
  post(
    "span",
    JSONStringify({ __proto__: null, name: StringPrototypeSlice(name, 0, MAX_NAME_LENGTH), agoMs, durationMs }),
  );
}
