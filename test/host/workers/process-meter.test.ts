// The page size that turns resident pages into bytes, from the kernel's auxiliary vector.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { pageBytesOf } from "../../../src/host/workers/health/process-meter.ts";

const vectorOf = (...words: readonly bigint[]): Uint8Array => new Uint8Array(new BigUint64Array(words).buffer);

describe("pageBytesOf()", () => {
  test("returns the page size of this kernel", () => {
    const known = Number(execFileSync("getconf", ["PAGESIZE"], { encoding: "utf8" }));
    expect(pageBytesOf(new Uint8Array(readFileSync("/proc/self/auxv")))).toBe(known);
  });

  test.for<[why: string, auxv: Uint8Array, bytes: number]>([
    ["64 KiB pages", vectorOf(33n, 1n, 6n, 65_536n, 0n, 0n), 65_536],
    ["a value that equals the key", vectorOf(33n, 6n, 6n, 16_384n, 0n, 0n), 16_384],
    ["no page size", vectorOf(33n, 6n, 0n, 0n), 4_096],
    ["a cut entry", vectorOf(33n, 1n, 6n).slice(0, 20), 4_096],
    ["an empty vector", new Uint8Array(), 4_096],
  ])("reads %s", ([, auxv, bytes]) => {
    expect(pageBytesOf(auxv)).toBe(bytes);
  });
});
