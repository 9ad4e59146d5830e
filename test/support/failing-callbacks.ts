// The ways in which a host callback can fail, for tests that pass functions to Glovebox.
import { runInNewContext } from "node:vm";

export const CALLBACK_ERROR_MESSAGE = "from the host";
const failure = (): Error => new Error(CALLBACK_ERROR_MESSAGE);

/** Returns the value of an expression in another realm, where `Promise`, `Error` and `Object` are other ones than here. */
export const inOtherRealm = (expression: string): unknown => runInNewContext(expression);

/** Returns an object with a `then` method of its own. */
export function toThenable(then: (resolve: (value: unknown) => void) => void): object {
  const name = "then";
  return { [name]: then };
}

/** Functions that throw or reject, each in another way. */
export const FAILING_CALLBACKS: readonly (readonly [name: string, callback: () => unknown])[] = [
  [
    "throws",
    () => {
      throw failure();
    },
  ],
  ["rejects", () => Promise.reject(failure())],
  ["rejects in another realm", () => inOtherRealm(`Promise.reject(new Error("${CALLBACK_ERROR_MESSAGE}"))`)],
  [
    "returns a thenable that throws",
    () =>
      toThenable(() => {
        throw failure();
      }),
  ],
  [
    "returns an object whose then cannot be read",
    () => inOtherRealm(`Object.defineProperty({}, "then", { get() { throw new Error("${CALLBACK_ERROR_MESSAGE}") } })`),
  ],
];
