// State left on the global object, on prototypes and in the module must not reach the next call if each call has its own isolate.
import { expect } from "vitest";
import { testPlay } from "./support.ts";

testPlay("marks left everywhere", {
  isolateLifetime: "call",
  source: `let calls = 0;
export default () => {
  calls += 1;
  const found = [calls, globalThis.mark, Object.prototype.mark, Array.mark, JSON.mark, Symbol.iterator.mark, Reflect.getPrototypeOf(globalThis).mark].filter((value) => value !== undefined);
  for (const place of [globalThis, Object.prototype, Array, JSON, Intl, Math]) place.mark = 'left';
  return found;
};`,
  play: async ({ call }) => [await call(), await call(), ...(await Promise.all([call(), call()]))],
  judge: (found) => expect(found).toEqual([[1], [1], [1], [1]]),
});
