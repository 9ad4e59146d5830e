// Every option and positional argument of every command as one table: what its value must look like, and whether it may repeat. The
// parser checks all of it before a command is loaded.
import { isIP } from "node:net";
import { LIMITS, type LimitName } from "../../sandbox/contract/limits.ts";

/** The value of an option, and how the parser tells that it is right. No option takes an empty value. */
export interface OptionValue {
  /** What is expected, as it stands in an error message. */
  readonly expects: string;
  readonly accepts: (text: string) => boolean;
  /** May be given several times. */
  readonly multiple?: boolean;
  /** The value of the option without one: `--inspect` is `--inspect=9229`. Such an option takes a value only after `=`. */
  readonly bare?: string;
}

/** An option: one that takes a value, or `"switch"`. */
export type OptionSpec = OptionValue | "switch";
export type OptionSpecs = { readonly [name: string]: OptionSpec };

/** The arguments that are not options. */
export interface PositionalSpec {
  readonly expects: string;
  readonly min: number;
  readonly max: number;
  /** `-` stands for stdin and does not count. */
  readonly stdin?: boolean;
}

export interface CommandSpec {
  readonly options: OptionSpecs;
  readonly positionals: PositionalSpec;
}

const anyText = (expects: string): OptionValue => ({ expects, accepts: () => true });

const wholeNumber = (min: number, max: number, expects: string): OptionValue => ({
  expects,
  accepts: (text) => /^\d{1,15}$/.test(text) && Number(text) >= min && Number(text) <= max,
});

function limit(name: LimitName): OptionValue {
  const { min, max } = LIMITS[name];
  return wholeNumber(min, max, `a whole number from ${min} to ${max}`);
}

const MAX_PORT = 65_535;
const PORT = wholeNumber(0, MAX_PORT, `a port from 0 to ${MAX_PORT}`);
/** Where Chrome looks for a target by itself. */
const INSPECT_PORT: OptionValue = { ...PORT, bare: "9229" };

const MAX_TENANT_LENGTH = 1_024;
const isHostName = (text: string): boolean => isIP(text) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]{0,253})$/.test(text);

/** Options of every command that calls tools: whose call it is, its limits, and what the tool is granted. */
const GRANT_OPTIONS = {
  tenant: { expects: "an id", accepts: (text) => text.length <= MAX_TENANT_LENGTH },
  "timeout-ms": limit("timeoutMs"),
  "cpu-ms": limit("cpuMs"),
  "memory-mib": limit("memoryMiB"),
  // What a rule and a secret look like inside is checked where they are read (egress.ts).
  "allow-fetch": { ...anyText("host, host:port, *.host or an origin"), multiple: true },
  secret: { ...anyText("NAME=ENV"), multiple: true },
  grant: { ...anyText("the name of a capability or an engine feature"), multiple: true },
} as const satisfies OptionSpecs;

const CALL_OPTIONS = {
  input: anyText("JSON"),
  "input-file": anyText("a file"),
  ...GRANT_OPTIONS,
  "log-places": "switch",
} as const satisfies OptionSpecs;

const ONE_PATH: PositionalSpec = { expects: "PATH of a tool", min: 1, max: 1 };
const MANY_PATHS: PositionalSpec = { expects: "PATH of a tool", min: 0, max: Number.POSITIVE_INFINITY };

export const COMMAND_SPECS = {
  run: {
    options: { ...CALL_OPTIONS, time: "switch", json: "switch" },
    positionals: { ...ONE_PATH, stdin: true },
  },
  dev: {
    options: { ...CALL_OPTIONS, inspect: INSPECT_PORT, "inspect-brk": INSPECT_PORT },
    positionals: ONE_PATH,
  },
  mcp: {
    options: {
      ...GRANT_OPTIONS,
      tool: { ...anyText("the name of one of Glovebox's own tools"), multiple: true },
      http: PORT,
      host: { expects: "a host name or an IP address", accepts: isHostName },
      "allow-host": { ...anyText("a host name, or name:port"), multiple: true },
    },
    positionals: MANY_PATHS,
  },
  test: { options: {}, positionals: { expects: "PATH", min: 0, max: 1 } },
  types: { options: { out: anyText("a file") }, positionals: MANY_PATHS },
  inspect: { options: { json: "switch" }, positionals: ONE_PATH },
  init: { options: {}, positionals: { expects: "NAME for the tool", min: 1, max: 1 } },
  doctor: { options: { json: "switch" }, positionals: { expects: "argument", min: 0, max: 0 } },
} as const satisfies { readonly [command: string]: CommandSpec };

export type CommandName = keyof typeof COMMAND_SPECS;
export const COMMAND_NAMES = Object.keys(COMMAND_SPECS) as readonly CommandName[];
