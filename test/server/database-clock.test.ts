// The time of the database: replicas go by it, however far the clocks of their machines are off.
import { sql } from "kysely";
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { DatabaseClock } from "../../src/server/database/database-clock.ts";
import { databaseNow } from "../../src/server/database/database-time.ts";
import { openDatabase } from "../../src/server/database/open-database.ts";
import { TestStores } from "./support/stores.ts";

const stores = new TestStores();
afterAll(() => stores[Symbol.asyncDispose]());

describe("a clock of a database", () => {
  /** A machine whose clock starts at 0, and a database whose time is later by `ahead` ms. Each way of a round trip takes a time. */
  function machine(ahead: number) {
    const state = { time: 0, ahead, wayMs: 10 };
    return {
      state,
      monotonic: () => state.time,
      read: async () => {
        state.time += state.wayMs;
        const answer = state.time + state.ahead;
        state.time += state.wayMs;
        return answer;
      },
    };
  }
  const failOn = (error: Error): never => expect.fail(error.message);

  test("shows the time of the database between its samples", async () => {
    const { state, ...parts } = machine(5_000);
    await using clock = await DatabaseClock.open({ ...parts, onError: failOn });
    expect(clock.now()).toBe(state.time + 5_000);
    state.time += 12_345.5;
    expect(clock.now()).toBe(Math.floor(state.time + 5_000));
    state.ahead = -7_000;
    await clock.sample();
    expect(clock.now()).toBe(Math.floor(state.time - 7_000));
  });

  test("does not use a slow sample, unless there was none for long", async () => {
    const { state, ...parts } = machine(0);
    await using clock = await DatabaseClock.open({ ...parts, onError: failOn });
    state.wayMs = 4_000;
    state.ahead = 900;
    await clock.sample();
    expect(clock.now()).toBe(state.time);
    state.time += 11 * 60_000;
    await clock.sample();
    expect(clock.now()).toBe(state.time + 900);
  });

  test("cannot be opened without the database's time", async () => {
    const read = async () => await Promise.reject<number>(new Error("away"));
    await expect(DatabaseClock.open({ read, onError: failOn })).rejects.toThrow("away");
  });
});

test.for([-600_000, 600_000, 86_400_000])(
  "with a machine's clock that is off by %d ms, Postgres gives the time",
  async (skewMs) => {
    await using store = await stores.create("postgres");
    const realNow = Date.now;
    const spy = vi.spyOn(Date, "now").mockImplementation(() => realNow() + skewMs);
    onTestFinished(() => spy.mockRestore());
    const { dataDir, database: url } = store.options;
    await using database = await openDatabase({ url, dataDir, onError() {} });
    const read = async (): Promise<number> =>
      Number((await sql<{ now: number }>`select ${databaseNow} as now`.execute(database.db)).rows[0]?.now);
    const before = await read();
    const shown = database.clock.now();
    const after = await read();
    // The samples are off by half of a round trip at most, and the test's own take as long.
    const slackMs = 60_000;
    expect(shown).toBeGreaterThan(before - slackMs);
    expect(shown).toBeLessThan(after + slackMs);
  },
);

test("SQLite has the time of its machine", async () => {
  await using store = await stores.create("sqlite");
  await using database = await openDatabase({ url: undefined, dataDir: store.options.dataDir, onError() {} });
  const spy = vi.spyOn(Date, "now").mockReturnValue(1_234);
  onTestFinished(() => spy.mockRestore());
  expect(database.clock.now()).toBe(1_234);
});
