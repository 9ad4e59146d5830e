// Texts for times: none of them throws, whatever the server has stored.
import { expect, test } from "vitest";
import { formatInZone, isDateTime } from "../../src/console/state/format.ts";

const AT = Date.UTC(2026, 0, 1, 12);

test.for(["", "Mars/Base"])("a time in the unknown time zone %j is shown in UTC", (timeZone) => {
  expect(formatInZone(AT, timeZone)).toBe("2026-01-01 12:00:00.000 UTC");
});

test("a time in a known time zone is shown there", () => {
  expect(formatInZone(AT, "Asia/Tokyo")).toContain("9:00");
});

test.for([
  [AT, true],
  [8.64e15, true],
  [9e15, false],
] as const)("%d is within the range of a Date: %s", ([at, isKnown]) => {
  expect(isDateTime(at)).toBe(isKnown);
});
