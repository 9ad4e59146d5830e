// The versions of a fleet: their order, and how many processes run an older one.
import { expect, test } from "vitest";
import { compareVersions, spreadOf } from "../../src/console/state/versions.ts";

test("orders versions by their numbers, and prereleases before their release", () => {
  const ordered = ["0.9.0", "0.10.0-beta.2", "0.10.0-beta.10", "0.10.0", "0.10.1", "1.0.0-rc-1", "1.0.0"];
  expect(ordered.toReversed().toSorted(compareVersions)).toEqual(ordered);
  expect(compareVersions("1.0.0", "1.0.0")).toBe(0);
});

test("counts the processes that run an older version", () => {
  expect(spreadOf([])).toEqual({ newest: undefined, total: 0, older: 0 });
  expect(spreadOf(["1.0.0", "1.0.0"])).toEqual({ newest: "1.0.0", total: 2, older: 0 });
  expect(spreadOf(["1.10.0", "1.9.0", "1.2.0"])).toEqual({ newest: "1.10.0", total: 3, older: 2 });
});
