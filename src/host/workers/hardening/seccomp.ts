// Builds the seccomp filter of a worker: a classic BPF program for bubblewrap's --seccomp. It lists denied system
// calls, because Node and V8 need many others, which change. See seccomp(2) and linux/seccomp.h for the layout.

/** AUDIT_ARCH_* of linux/audit.h, and the numbers of denied calls (asm/unistd_64.h; asm-generic/unistd.h). */
const ARCHITECTURES: { readonly [arch: string]: Architecture } = {
  x64: {
    audit: 0xc000003e,
    clone: 56,
    denied: {
      socket: 41,
      connect: 42,
      accept: 43,
      bind: 49,
      listen: 50,
      accept4: 288,
      ptrace: 101,
      process_vm_readv: 310,
      process_vm_writev: 311,
      kcmp: 312,
      mount: 165,
      umount2: 166,
      pivot_root: 155,
      chroot: 161,
      setns: 308,
      unshare: 272,
      name_to_handle_at: 303,
      open_by_handle_at: 304,
      memfd_create: 319,
      execveat: 322,
      bpf: 321,
      perf_event_open: 298,
      userfaultfd: 323,
      add_key: 248,
      request_key: 249,
      keyctl: 250,
      personality: 135,
      syslog: 103,
      acct: 163,
      swapon: 167,
      reboot: 169,
      iopl: 172,
      ioperm: 173,
      init_module: 175,
      finit_module: 313,
      delete_module: 176,
      kexec_load: 246,
      kexec_file_load: 320,
      settimeofday: 164,
      clock_settime: 227,
      adjtimex: 159,
      clock_adjtime: 305,
      modify_ldt: 154,
      move_pages: 279,
    },
  },
  arm64: {
    audit: 0xc00000b7,
    clone: 220,
    denied: {
      socket: 198,
      connect: 203,
      accept: 202,
      bind: 200,
      listen: 201,
      accept4: 242,
      ptrace: 117,
      process_vm_readv: 270,
      process_vm_writev: 271,
      kcmp: 272,
      mount: 40,
      umount2: 39,
      pivot_root: 41,
      chroot: 51,
      setns: 268,
      unshare: 97,
      name_to_handle_at: 264,
      open_by_handle_at: 265,
      memfd_create: 279,
      execveat: 281,
      bpf: 280,
      perf_event_open: 241,
      userfaultfd: 282,
      add_key: 217,
      request_key: 218,
      keyctl: 219,
      personality: 92,
      syslog: 116,
      acct: 89,
      swapon: 224,
      reboot: 142,
      init_module: 105,
      finit_module: 273,
      delete_module: 106,
      kexec_load: 104,
      kexec_file_load: 294,
      settimeofday: 170,
      clock_settime: 112,
      adjtimex: 171,
      clock_adjtime: 266,
      move_pages: 239,
    },
  },
};

interface Architecture {
  readonly audit: number;
  readonly clone: number;
  readonly denied: { readonly [name: string]: number };
}

/** Calls newer than 2019 have the same number on every architecture. */
const DENIED_EVERYWHERE = {
  pidfd_send_signal: 424,
  io_uring_setup: 425,
  io_uring_enter: 426,
  io_uring_register: 427,
  open_tree: 428,
  move_mount: 429,
  fsopen: 430,
  fsconfig: 431,
  fsmount: 432,
  fspick: 433,
  pidfd_open: 434,
  pidfd_getfd: 438,
  mount_setattr: 442,
} as const;
const CLONE3 = 435;
/** All CLONE_NEW* flags of sched.h that clone() takes. */
const CLONE_NEW = 0x7e020000;
/** First number of x64's second table (x32), which would bypass a list of numbers. */
const X32_BIT = 0x40000000;

const LOAD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_AT_LEAST = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;
const NUMBER_OFFSET = 0;
const ARCH_OFFSET = 4;
const FIRST_ARGUMENT_OFFSET = 16;
const ALLOW = 0x7fff0000;
const KILL_PROCESS = 0x80000000;
const EPERM = 0x00050001;
/** Makes the C library fall back to clone(), whose flags the filter can read. */
const ENOSYS = 0x00050026;
const INSTRUCTION_BYTES = 8;

/** Jump targets: the next step, or one of the returns at the program's end, in this order. */
const ENDS = { allow: ALLOW, deny: EPERM, absent: ENOSYS, kill: KILL_PROCESS } as const;
type Target = "next" | keyof typeof ENDS;

interface Step {
  readonly code: number;
  readonly operand: number;
  readonly yes?: Target;
  readonly no?: Target;
}

const load = (offset: number): Step => ({ code: LOAD, operand: offset });
const denyCall = (number: number): Step => ({ code: JUMP_EQUAL, operand: number, yes: "deny" });

function assemble(steps: readonly Step[]): Buffer {
  const names = Object.keys(ENDS);
  /** Jump distances count from the following step. */
  const distance = (from: number, target: Target): number =>
    target === "next" ? 0 : steps.length + names.indexOf(target) - from - 1;
  const program = Buffer.alloc((steps.length + names.length) * INSTRUCTION_BYTES);
  const put = (index: number, code: number, operand: number, yes = 0, no = 0): void => {
    const offset = index * INSTRUCTION_BYTES;
    program.writeUInt16LE(code, offset);
    program.writeUInt8(yes, offset + 2);
    program.writeUInt8(no, offset + 3);
    program.writeUInt32LE(operand, offset + 4);
  };
  for (const [index, { code, operand, yes = "next", no = "next" }] of steps.entries()) {
    put(index, code, operand, distance(index, yes), distance(index, no));
  }
  for (const [index, value] of Object.values(ENDS).entries()) put(steps.length + index, RETURN, value);
  return program;
}

/**
 * Returns the program for an architecture in Node's naming, or undefined for one without a table. Calls that are not
 * listed are allowed.
 */
export function createSeccompFilter(arch: string): Buffer | undefined {
  const architecture = ARCHITECTURES[arch];
  if (architecture === undefined) return undefined;
  const { audit, clone, denied } = architecture;
  const numbers = [...Object.values(denied), ...Object.values(DENIED_EVERYWHERE)];
  return assemble([
    load(ARCH_OFFSET),
    { code: JUMP_EQUAL, operand: audit, no: "kill" },
    load(NUMBER_OFFSET),
    ...(arch === "x64" ? [{ code: JUMP_AT_LEAST, operand: X32_BIT, yes: "absent" } as const] : []),
    { code: JUMP_EQUAL, operand: CLONE3, yes: "absent" },
    ...numbers.map(denyCall),
    { code: JUMP_EQUAL, operand: clone, no: "allow" },
    load(FIRST_ARGUMENT_OFFSET),
    { code: JUMP_ANY_BIT, operand: CLONE_NEW, yes: "deny" },
  ]);
}
