// Tests BuildSlots: how many builds run at once, and whose waits for whose.
import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { BuildSlots } from "../../src/bundler/compile/child/build-slots.ts";

/** Requests slots in order and records the owners in the order in which they get one. */
function open(max: number) {
  const slots = new BuildSlots(max);
  const started: string[] = [];
  const held: { owner: string; slot: Disposable }[] = [];
  const want = (owner: string, signal?: AbortSignal): Promise<void> =>
    slots.acquire(owner, signal).then((slot) => {
      started.push(owner);
      held.push({ owner, slot });
    });
  const end = async (owner: string): Promise<void> => {
    const index = held.findIndex((one) => one.owner === owner);
    held.splice(index, 1)[0]?.slot[Symbol.dispose]();
    await turn();
  };
  return { want, end, started, held };
}

describe("BuildSlots", () => {
  test("leave one slot to other owners", async () => {
    const { want, started } = open(3);
    for (let count = 0; count < 10; count += 1) void want("flood");
    await turn();
    expect(started).toEqual(["flood", "flood"]);
    void want("other");
    await turn();
    expect(started).toEqual(["flood", "flood", "other"]);
  });

  test("serve the owner with the fewest builds first, then the one that waits longest", async () => {
    const { want, end, started, held } = open(1);
    for (let count = 0; count < 3; count += 1) void want("flood");
    await turn();
    void want("b");
    void want("c");
    while (held.length > 0) await end(held[0]?.owner ?? "");
    expect(started).toEqual(["flood", "b", "c", "flood", "flood"]);
  });

  test("pass on the slots of builds that are cancelled while they wait", async () => {
    const { want, end, started } = open(1);
    const leaving = new AbortController();
    void want("a");
    const left = want("b", leaving.signal).then(
      () => "started",
      ({ code }: { readonly code: string }) => code,
    );
    void want("c");
    await turn();
    leaving.abort();
    expect(await left).toBe("CANCELLED");
    await end("a");
    expect(started).toEqual(["a", "c"]);
  });
});
