// The platform in chunks: evaluated at first touch, once, without anything that a tool could notice.
import { describe, expect, test } from "vitest";
import { inGuest, runGuest } from "../../support/guest.ts";

describe("a chunk of the platform", () => {
  test("is evaluated in the middle of a tool's code without running its microtasks", async () => {
    const order = await inGuest(() => {
      const seen: string[] = [];
      void Promise.resolve().then(() => seen.push("microtask"));
      new URL("https://example.com");
      seen.push("after the touch");
      return Promise.resolve().then(() => seen);
    });
    expect(order).toEqual(["after the touch", "microtask"]);
  });

  test("is one for all of its globals, and stays what a tool has made of them", async () => {
    const found = await inGuest(() => {
      const { URL: First } = globalThis;
      const isSame = First === URL && new URL("https://example.com/?a=1").searchParams instanceof URLSearchParams;
      Object.assign(globalThis, { URL: "mine" });
      return { isSame, now: globalThis.URL };
    });
    expect(found).toEqual({ isSame: true, now: "mine" });
  });

  test("leaves no line of its own in a stack", async () => {
    const { value } = await runGuest(() => {
      try {
        return new URL("no url");
      } catch (error) {
        return (error as Error).stack;
      }
    });
    expect(value).not.toContain("chunk");
  });
});
