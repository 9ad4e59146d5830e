// Function.prototype.toString may return the prelude's source, but no host path and no secret.
import { expect, test } from "vitest";
import { runGuest } from "../../support/guest.ts";

test("no function that can be reached has a path of the host in its text, or a file of ours in its name", async () => {
  const end = await runGuest(`(input, ctx) => {
    const seen = new Set(), texts = [], queue = [globalThis, ctx, ctx.signal];
    while (queue.length > 0) {
      const item = queue.pop();
      if ((typeof item !== "object" && typeof item !== "function") || item === null || seen.has(item)) continue;
      seen.add(item);
      if (typeof item === "function") texts.push(Function.prototype.toString.call(item), String(item.name));
      for (const key of Reflect.ownKeys(item)) { const { value, get, set } = Object.getOwnPropertyDescriptor(item, key) ?? {}; queue.push(value, get, set); }
      queue.push(Object.getPrototypeOf(item));
    }
    return texts.filter((text) => !/native code/.test(text)).join("\\n");
  }`);
  expect(end.outcome).toBe("output");
  expect(String(end.value)).not.toMatch(/\/work\/|node_modules|\/home\/|file:|require\(|process\./);
});
