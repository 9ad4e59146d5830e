// isolated-vm's own objects (References, Callbacks, ExternalCopies) would give access to the host. Walks the object graph to find one.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

test("no handle of isolated-vm can be reached from the global object, from ctx, or from what they return", async () => {
  const end = await runGuest(
    `async (input, ctx) => {
    const METHODS = ["applySync", "applySyncPromise", "deref", "derefInto", "copySync", "copyInto", "getSync", "setSync", "release", "runSync", "evalSync", "createContext", "compileScript", "dispose", "cachedDataRejected", "transferIn"];
    const seen = new Set(), found = [], queue = [globalThis, ctx, input, ctx.signal, ctx.log("x"), await ctx.kv(1), ctx.kv(2), new Error("x"), (async () => {})(), (function* () {})(), new URL("https://a.b/").searchParams, new AbortController(), performance, console, Intl, Temporal];
    while (queue.length > 0) {
      const item = queue.pop();
      if ((typeof item !== "object" && typeof item !== "function") || item === null || seen.has(item)) continue;
      seen.add(item);
      const tag = Object.prototype.toString.call(item).slice(8, -1);
      const HANDLES = ["Reference", "ExternalCopy", "Callback", "Isolate", "Context", "Script", "Module", "InspectorSession", "NativeModule"];
      if (HANDLES.includes(tag) || (typeof item === "function" && HANDLES.includes(item.name))) found.push(tag + String(item.name));
      for (const key of Reflect.ownKeys(item)) {
        const { value, get, set } = Object.getOwnPropertyDescriptor(item, key) ?? {};
        const isMethod = METHODS.includes(key) && (typeof value === "function" || get !== undefined);
        if (isMethod && ![Symbol, WeakRef.prototype, DisposableStack.prototype].includes(item)) found.push(tag + "." + String(key));
        queue.push(value, get, set);
        if (get !== undefined) try { queue.push(Reflect.get(item, key)); } catch {}
      }
      queue.push(Object.getPrototypeOf(item));
    }
    return { found, size: seen.size };
  }`,
    { header: { granted: ["kv"] } },
  );
  expect(end.value).toEqual({ found: [], size: expect.toSatisfy((size: number) => size > 800, "a whole realm") });
});
