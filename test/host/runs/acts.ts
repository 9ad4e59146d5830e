// What tests of rollbacks share: a Glovebox with a capability that records what tools do, and how a run and its rollback ended.
import { afterAll, beforeAll, beforeEach } from "vitest";
import * as z from "zod";
import { defineCapability } from "../../../src/host/capabilities/capability.ts";
import type { Glovebox } from "../../../src/host/glovebox/glovebox.ts";
import type { RunRecord } from "../../../src/host/runs/run-store.ts";
import { makeGlovebox } from "../../support/host-zone.ts";

/** What the tests' tools do before their run fails, and what they then undo. */
export const BOOKED = ["book flight", "book hotel", "book car"];
export const UNDONE = ["cancel car", "cancel hotel", "cancel flight"];

export interface Acts {
  readonly glovebox: Glovebox;
  /** Inputs of the capability `act` in the current test. One that begins with "hang" never returns, one with "fail" fails. */
  done: string[];
}

/** Opens a Glovebox with the capability `act` for the tests of a file. */
export function useActs(): Acts {
  let glovebox: Glovebox | undefined;
  const acts: Acts = {
    get glovebox() {
      if (glovebox === undefined) throw new Error("The Glovebox opens before the first test");
      return glovebox;
    },
    done: [],
  };
  beforeAll(async () => {
    const act = defineCapability({
      name: "act",
      inputSchema: z.string(),
      outputSchema: z.unknown(),
      handler: (what) => {
        acts.done.push(what);
        if (what.startsWith("hang")) return new Promise(() => {});
        if (what.startsWith("fail")) throw new Error("no");
        return `${what} done`;
      },
    });
    glovebox = await makeGlovebox({ capabilities: [act] });
  });
  afterAll(() => glovebox?.close());
  beforeEach(() => {
    acts.done = [];
  });
  return acts;
}

export const rollbackOf = (run: RunRecord | undefined): unknown =>
  run?.result?.success === false ? run.result.error.details?.rollback : undefined;
export const errorOf = (run: RunRecord | undefined): unknown =>
  run?.result?.success === false ? run.result.error.message : undefined;
/** The steps of a rollback, by their positions, as a result lists those that succeeded. */
export const succeeded = (...indexes: number[]): unknown =>
  indexes.map((index) => ({ index, name: "undo", state: "succeeded" }));
