// SystemResolver: a slow name server delays only the requests that use it.
import { describe, expect, test } from "vitest";
import { SystemResolver } from "../../../src/host/capabilities/fetch/system-resolver.ts";

const live = new AbortController().signal;
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function slowResolver(): { resolver: SystemResolver; asked: string[]; answer: (name: string) => void } {
  const asked: string[] = [];
  const answers = new Map<string, () => void>();
  const resolver = new SystemResolver((name) => {
    asked.push(name);
    return new Promise((resolve) => answers.set(name, () => resolve([name])));
  });
  return { resolver, asked, answer: (name) => answers.get(name)?.() };
}

describe("SystemResolver.resolve()", () => {
  test("looks up at most two names per tenant and three in total, in the order of the calls", async () => {
    const { resolver, asked, answer } = slowResolver();
    const names = ["a1", "a2", "a3", "b1", "b2", "c1"];
    const all = names.map((name) => resolver.resolve(name, name.slice(0, 1), live));
    await settle();
    expect(asked).toEqual(["a1", "a2", "b1"]);
    answer("b1");
    await settle();
    expect(asked).toEqual(["a1", "a2", "b1", "b2"]);
    for (const name of ["a1", "a2", "b2", "a3", "c1"]) {
      answer(name);
      await settle();
    }
    expect(await Promise.all(all)).toEqual(names.map((name) => [name]));
  });

  test("starts the lookup of another tenant before the next of one that has queued many", async () => {
    const { resolver, asked, answer } = slowResolver();
    const queued = ["a1", "a2", "b1", "a3", "a4", "b2", "b3", "c1", "d1"];
    const all = queued.map((name) => resolver.resolve(name, name.slice(0, 1), live));
    await settle();
    expect(asked).toEqual(["a1", "a2", "b1"]);
    answer("a1");
    await settle();
    expect(asked.slice(3)).toEqual(["c1"]);
    for (const name of ["c1", "b1", "a2", "d1", "a3", "b2", "a4", "b3"]) {
      answer(name);
      await settle();
    }
    expect(asked).toEqual(["a1", "a2", "b1", "c1", "d1", "b2", "a3", "a4", "b3"]);
    expect((await Promise.all(all)).flat()).toEqual(queued);
  });

  test("leaves a thread for another tenant, whichever tenants have names in progress", async () => {
    const { resolver, asked, answer } = slowResolver();
    const names = ["a1", "b1", "a2", "b2", "c1"];
    const all = names.map((name) => resolver.resolve(name, name.slice(0, 1), live));
    await settle();
    expect(asked).toEqual(["a1", "b1", "c1"]);
    for (const name of ["c1", "a1", "b1", "a2", "b2"]) {
      answer(name);
      await settle();
    }
    expect((await Promise.all(all)).flat()).toEqual(names);
  });

  test("does not look up names of aborted calls, and continues after a failure", async () => {
    const { resolver, asked, answer } = slowResolver();
    const gone = new AbortController();
    const first = [resolver.resolve("a1", "a", live), resolver.resolve("a2", "a", live)];
    const late = resolver.resolve("a3", "a", gone.signal);
    gone.abort(new Error("gone"));
    await expect(late).rejects.toThrow("gone");
    await expect(resolver.resolve("a4", "a", gone.signal)).rejects.toThrow("gone");
    answer("a1");
    answer("a2");
    expect((await Promise.all(first)).flat()).toEqual(["a1", "a2"]);
    expect(asked).toEqual(["a1", "a2"]);
    const failing = new SystemResolver(() => Promise.reject(new Error("no such name")));
    for (const name of ["x", "y", "z", "w"])
      await expect(failing.resolve(name, "a", live)).rejects.toThrow("no such name");
  });
});
