// The filter as the kernel would run it: an interpreter for classic BPF checks every system call.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createSeccompFilter } from "../../../src/host/workers/hardening/seccomp.ts";

const ALLOW = 0x7fff0000;
const DENY = 0x00050001;
const ABSENT = 0x00050026;
const KILL = 0x80000000;

interface SystemCall {
  readonly arch: number;
  readonly number: number;
  readonly firstArgument: number;
}

/** The instructions that the filter uses, by linux/bpf_common.h. Throws for an invalid jump or code. */
function run(program: Buffer, { arch, number, firstArgument }: SystemCall): number {
  const data = new Map([
    [0, number],
    [4, arch],
    [16, firstArgument],
  ]);
  let accumulator = 0;
  for (let index = 0; index < program.length / 8; index += 1) {
    const code = program.readUInt16LE(index * 8);
    const operand = program.readUInt32LE(index * 8 + 4);
    const jump = (isTaken: boolean): void => {
      index += program.readUInt8(index * 8 + (isTaken ? 2 : 3));
    };
    if (code === 0x20) accumulator = data.get(operand) ?? Number.NaN;
    else if (code === 0x15) jump(accumulator === operand);
    else if (code === 0x35) jump(accumulator >= operand);
    else if (code === 0x45) jump((accumulator & operand) !== 0);
    else if (code === 0x06) return operand;
    else throw new Error(`Expected an instruction, got ${code}`);
  }
  throw new Error("Expected a return, got the end of the program");
}

const X64 = 0xc000003e;
const ARM64 = 0xc00000b7;
const filterOf = (arch: string): Buffer => createSeccompFilter(arch) ?? Buffer.alloc(0);

describe("createSeccompFilter()", () => {
  test.for([
    ["x64", X64, 41, "socket"],
    ["x64", X64, 101, "ptrace"],
    ["x64", X64, 272, "unshare"],
    ["x64", X64, 321, "bpf"],
    ["x64", X64, 425, "io_uring_setup"],
    ["arm64", ARM64, 198, "socket"],
    ["arm64", ARM64, 117, "ptrace"],
    ["arm64", ARM64, 280, "bpf"],
  ] as const)("%s: denies call %i (%s)", ([name, arch, number]) => {
    expect(run(filterOf(name), { arch, number, firstArgument: 0 })).toBe(DENY);
  });

  test.for([
    ["x64", X64, [0, 1, 9, 10, 11, 59, 202, 231, 318]],
    ["arm64", ARM64, [63, 64, 222, 226, 215, 221, 98, 94, 278]],
  ] as const)("%s: allows what Node needs", ([name, arch, numbers]) => {
    for (const number of numbers) expect(run(filterOf(name), { arch, number, firstArgument: 0 })).toBe(ALLOW);
  });

  test("allows new threads, but no namespaces", () => {
    const clone = (firstArgument: number): number => run(filterOf("x64"), { arch: X64, number: 56, firstArgument });
    // Flags of pthread_create.
    expect(clone(0x003d0f00)).toBe(ALLOW);
    for (const namespace of [0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000]) {
      expect(clone(namespace | 17)).toBe(DENY);
    }
    expect(run(filterOf("x64"), { arch: X64, number: 435, firstArgument: 0 })).toBe(ABSENT);
  });

  test("kills a process of another architecture, and denies x32 calls", () => {
    const i386 = 0x40000003;
    expect(run(filterOf("x64"), { arch: i386, number: 1, firstArgument: 0 })).toBe(KILL);
    expect(run(filterOf("x64"), { arch: X64, number: 0x40000000 + 41, firstArgument: 0 })).toBe(ABSENT);
  });

  test("terminates for every possible call", () => {
    const known = new Set([ALLOW, DENY, ABSENT, KILL]);
    fc.assert(
      fc.property(fc.nat(0xffffffff), fc.nat(0xffffffff), fc.constantFrom("x64", "arm64"), (number, argument, name) => {
        const arch = name === "x64" ? X64 : ARM64;
        expect(known.has(run(filterOf(name), { arch, number, firstArgument: argument }))).toBe(true);
      }),
    );
  });

  test("returns undefined for an architecture without a table", () => {
    expect(createSeccompFilter("mips")).toBeUndefined();
  });
});
