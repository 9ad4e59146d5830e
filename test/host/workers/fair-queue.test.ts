// The queue alone: which call is next, and which calls may not wait.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { NestedCallSlot } from "../../../src/host/routing/call-chain.ts";
import { type Claim, type Entry, FairQueue } from "../../../src/host/workers/scheduling/fair-queue.ts";
import { ToolError } from "../../../src/sandbox/contract/errors.ts";

const OPEN = { maxConcurrentCalls: 1_000, maxQueuedCalls: 1_000 };
const claim = (account: string, parts: Partial<Claim> = {}): Claim => ({
  account,
  weight: 1,
  toolKey: "tool",
  accountLimits: OPEN,
  toolLimits: OPEN,
  ...parts,
});

function next(queue: FairQueue<string>): Entry<string> | undefined {
  const [entry] = queue.candidates();
  return entry;
}

/** Takes the next entry out and starts it. */
function begin(queue: FairQueue<string>): Entry<string> {
  const entry = next(queue);
  if (entry === undefined) throw new Error("Expected an entry, got none");
  queue.remove(entry);
  queue.begin(entry);
  return entry;
}

function rejectionOf(add: () => unknown): ToolError | undefined {
  try {
    add();
    return undefined;
  } catch (thrown) {
    if (thrown instanceof ToolError) return thrown;
    throw thrown;
  }
}

describe("FairQueue.candidates()", () => {
  test("returns one account's calls in the order of arrival", () => {
    const queue = new FairQueue<string>(100);
    for (const item of ["a", "b", "c"]) queue.add(item, claim("acme"));
    expect([begin(queue), begin(queue), begin(queue)].map(({ item }) => item)).toEqual(["a", "b", "c"]);
    expect(next(queue)).toBeUndefined();
  });

  test("serves accounts by the CPU time they have used, not by calls", () => {
    const queue = new FairQueue<string>(1_000);
    for (let index = 0; index < 300; index += 1) {
      queue.add("heavy", claim("heavy"));
      queue.add("light", claim("light"));
    }
    const served = { heavy: 0, light: 0 };
    for (let index = 0; index < 220; index += 1) {
      const entry = begin(queue);
      served[entry.item as keyof typeof served] += 1;
      queue.charge(entry.item, entry.item === "heavy" ? 100 : 10);
      queue.end(entry, 1);
    }
    expect(served.light / served.heavy).toBeGreaterThan(8);
    expect(served.light / served.heavy).toBeLessThan(11);
  });

  test("serves accounts in proportion to their weights", () => {
    const queue = new FairQueue<string>(1_000);
    for (let index = 0; index < 300; index += 1) {
      queue.add("gold", claim("gold", { weight: 3 }));
      queue.add("basic", claim("basic"));
    }
    const served = { gold: 0, basic: 0 };
    for (let index = 0; index < 200; index += 1) {
      const entry = begin(queue);
      served[entry.item as keyof typeof served] += 1;
      queue.charge(entry.item, 10);
      queue.end(entry, 1);
    }
    expect(served.gold / served.basic).toBeGreaterThan(2.7);
    expect(served.gold / served.basic).toBeLessThan(3.3);
  });

  test("gives an account no credit for the time that it was idle", () => {
    const queue = new FairQueue<string>(1_000);
    for (let index = 0; index < 100; index += 1) {
      queue.add("busy", claim("busy"));
      const entry = begin(queue);
      queue.charge("busy", 50);
      queue.end(entry, 1);
    }
    for (let index = 0; index < 40; index += 1) {
      queue.add("busy", claim("busy"));
      queue.add("late", claim("late"));
    }
    const items: string[] = [];
    for (let index = 0; index < 20; index += 1) {
      const entry = begin(queue);
      items.push(entry.item);
      queue.charge(entry.item, 50);
      queue.end(entry, 1);
    }
    expect(items.filter((item) => item === "late").length).toBeLessThan(13);
  });

  test("lets another tool of an account pass the one with the most running calls", () => {
    const queue = new FairQueue<string>(100);
    for (let index = 0; index < 5; index += 1) queue.add("loop", claim("acme", { toolKey: "loop" }));
    begin(queue);
    begin(queue);
    queue.add("light", claim("acme", { toolKey: "light" }));
    expect(next(queue)?.item).toBe("light");
  });

  test("limits the running calls of an account and of a tool", () => {
    const queue = new FairQueue<string>(100);
    const toolLimits = { maxConcurrentCalls: 1, maxQueuedCalls: 10 };
    const accountLimits = { maxConcurrentCalls: 2, maxQueuedCalls: 10 };
    for (const toolKey of ["one", "one", "two", "three"])
      queue.add(toolKey, claim("acme", { toolKey, toolLimits, accountLimits }));
    const first = begin(queue);
    const second = begin(queue);
    expect([first.item, second.item]).toEqual(["one", "two"]);
    expect(next(queue)).toBeUndefined();
    queue.end(first, 1);
    expect(begin(queue).item).toBe("one");
    queue.end(second, 1);
    expect(begin(queue).item).toBe("three");
  });
});

describe("FairQueue.add()", () => {
  test("rejects calls of an account whose queue is full, with retryAfterMs", () => {
    const queue = new FairQueue<string>(100);
    const accountLimits = { maxConcurrentCalls: 1, maxQueuedCalls: 2 };
    const add = (): Entry<string> => queue.add("call", claim("acme", { accountLimits }));
    add();
    add();
    const rejected = rejectionOf(add);
    expect(rejected?.code).toBe("OVERLOADED");
    expect(rejected?.details?.maxQueuedCalls).toBe(2);
    expect(rejected?.details?.retryAfterMs).toBeGreaterThan(0);
    expect(rejectionOf(() => queue.add("other", claim("other")))).toBeUndefined();
  });

  test("rejects calls of every account when the whole queue is full", () => {
    const queue = new FairQueue<string>(2);
    const entries = ["a", "b", "c"].map((account) => queue.add(account, claim(account)));
    expect(entries.map((entry) => queue.overloadError(entry)?.code)).toEqual([
      "OVERLOADED",
      "OVERLOADED",
      "OVERLOADED",
    ]);
    for (const entry of entries.slice(2)) queue.remove(entry);
    expect(entries.slice(0, 2).map((entry) => queue.overloadError(entry))).toEqual([undefined, undefined]);
  });

  test("returns a longer retryAfterMs when more calls wait and calls take longer", () => {
    const queue = new FairQueue<string>(1_000);
    queue.add("a", claim("acme"));
    const entry = begin(queue);
    queue.end(entry, 400);
    const soon = queue.retryAfterMs("acme");
    for (let index = 0; index < 10; index += 1) queue.add("a", claim("acme"));
    expect(queue.retryAfterMs("acme")).toBeGreaterThan(soon * 5);
  });
});

describe("FairQueue", () => {
  test("returns each entry once, in any order of operations", () => {
    const step = fc.record({
      kind: fc.constantFrom("add", "begin", "end", "cancel", "charge"),
      account: fc.constantFrom("a", "b", "c"),
      toolKey: fc.constantFrom("x", "y"),
      at: fc.nat(20),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
        const queue = new FairQueue<number>(1_000);
        const waiting: Entry<number>[] = [];
        const running: Entry<number>[] = [];
        const begun = new Set<number>();
        for (const [id, { kind, account, toolKey, at }] of steps.entries()) {
          if (kind === "add") waiting.push(queue.add(id, claim(account, { toolKey })));
          if (kind === "charge") queue.charge(account, at);
          const [candidate] = queue.candidates();
          if (kind === "begin" && candidate !== undefined) {
            expect(begun.has(candidate.item)).toBe(false);
            begun.add(candidate.item);
            waiting.splice(waiting.indexOf(candidate), 1);
            queue.remove(candidate);
            queue.begin(candidate);
            running.push(candidate);
          }
          const [ended] = kind === "end" ? running.splice(at % Math.max(1, running.length), 1) : [];
          if (ended !== undefined) queue.end(ended, at);
          const [cancelled] = kind === "cancel" ? waiting.splice(at % Math.max(1, waiting.length), 1) : [];
          if (cancelled !== undefined) queue.remove(cancelled);
          expect(queue.queued).toBe(waiting.length);
        }
        expect([...queue.entries()].map(({ item }) => item).sort()).toEqual(waiting.map(({ item }) => item).sort());
      }),
    );
  });
});

describe("a nested call", () => {
  const ONE = { maxConcurrentCalls: 1, maxQueuedCalls: 10 };
  const nested = (parentSlot: NestedCallSlot, parts: Partial<Claim> = {}): Claim =>
    claim("acme", { accountLimits: ONE, toolLimits: ONE, toolKey: "inner", parentSlot, ...parts });
  const outer = (): {
    readonly queue: FairQueue<string>;
    readonly entry: Entry<string>;
    readonly parentSlot: NestedCallSlot;
  } => {
    const queue = new FairQueue<string>(100);
    queue.add("outer", claim("acme", { accountLimits: ONE, toolLimits: ONE }));
    return { queue, entry: begin(queue), parentSlot: { isTaken: false } };
  };

  test("runs in its parent's slot, beyond every limit on running calls, one at a time", () => {
    const { queue, parentSlot } = outer();
    queue.add("first", nested(parentSlot));
    queue.add("second", nested(parentSlot));
    const first = begin(queue);
    expect([first.item, first.usesParentSlot, next(queue)]).toEqual(["first", true, undefined]);
    queue.end(first, 1);
    expect(begin(queue).item).toBe("second");
    expect(next(queue)).toBeUndefined();
  });

  test("runs before earlier calls of its account, but behind earlier ones in its tool queue", () => {
    const { queue, entry, parentSlot } = outer();
    queue.add("earlier", claim("acme", { accountLimits: ONE, toolLimits: ONE, toolKey: "inner" }));
    queue.add("nested", nested(parentSlot));
    const seated = begin(queue);
    expect([seated.item, next(queue)]).toEqual(["nested", undefined]);
    queue.end(seated, 1);
    queue.end(entry, 1);
    expect(begin(queue).item).toBe("earlier");
  });

  test("takes a slot of its own if there is one and its parent's is taken", () => {
    const queue = new FairQueue<string>(100);
    const two = { maxConcurrentCalls: 2, maxQueuedCalls: 10 };
    queue.add("outer", claim("acme", { accountLimits: two }));
    begin(queue);
    const parentSlot = { isTaken: false };
    for (const item of ["a", "b", "c"]) queue.add(item, nested(parentSlot, { accountLimits: two, toolLimits: two }));
    expect([begin(queue), begin(queue)].map(({ item, usesParentSlot }) => [item, usesParentSlot])).toEqual([
      ["a", true],
      ["b", false],
    ]);
    expect(next(queue)).toBeUndefined();
  });

  test("a nested call that is removed from the queue frees everything", () => {
    const { queue, entry, parentSlot } = outer();
    queue.remove(queue.add("gone", nested(parentSlot)));
    expect([next(queue), queue.queued, parentSlot.isTaken]).toEqual([undefined, 0, false]);
    queue.end(entry, 1);
    queue.add("later", claim("acme", { accountLimits: ONE }));
    expect(begin(queue).item).toBe("later");
  });

  test("uses the slot of the call above it, so one runs at any depth", () => {
    const { queue, parentSlot } = outer();
    const seats = [parentSlot, { isTaken: false }, { isTaken: false }];
    const running = seats.map((place, depth) => {
      queue.add(`depth ${depth}`, nested(place));
      return begin(queue);
    });
    expect(running.map(({ usesParentSlot }) => usesParentSlot)).toEqual([true, true, true]);
    for (const one of running.toReversed()) queue.end(one, 1);
    expect(seats.map(({ isTaken }) => isTaken)).toEqual([false, false, false]);
  });
});
